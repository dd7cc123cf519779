"""The one equation that holds every system of the training family.

Its coefficients come in as the model's input:

    x+ = x + a(x + a(x) / 2)
    a(x) = A x + W sin(V x + phi) + (0, p_1 x_1 x_3 + p_3 x_1^2 x_2, p_2 x_1 x_2, 0, 0)
    z = H x + skew wave sin(H x / wave), or |H (x - c)|, or the bearing of (H, G) (x - c)

so Lorenz, Chen, Thomas, Van der Pol, pendulums, linear systems, constant velocity and networks of
sines are one compiled program. The time step is 1.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from sagewing.models import Model
from sagewing.shapes import XX, ZX, Duration, Input, X, Z

N_X, N_Z = 5, 3
LINEAR, DISTANCE, BEARING = 0.0, 1.0, 2.0  # forms of a sensor
GUARD = 1e-3  # squared: so near its beacon, a distance or a bearing has no derivative


class Coefficients(NamedTuple):
    """The numbers of one system, in units of its nominal noise.

    `wave` is the length of a sensor's wave or, of a bearing, its noise's units in a radian.
    """

    A: Float[Array, "n n"]
    W: Float[Array, "n n"]
    V: Float[Array, "n n"]
    phi: Float[Array, "n"]
    p: Float[Array, "3"]
    H: Float[Array, "m n"]
    skew: Float[Array, "m"]
    wave: Float[Array, "m"]
    form: Float[Array, "m"]
    G: Float[Array, "m n"]
    centre: Float[Array, "n"]


def none() -> Coefficients:
    """A system that stands still and is not seen."""
    x, z, xx = jnp.zeros(N_X), jnp.zeros(N_Z), jnp.zeros((N_X, N_X))
    zx = jnp.zeros((N_Z, N_X))
    return Coefficients(xx, xx, xx, x, jnp.zeros(3), zx, z, z + 1.0, z, zx, x)


class FamilyModel(Model):
    """Any system of the family; its input are its coefficients."""

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """A step of the midpoint rule."""
        c = unpacked(u)
        return x + _drift(x + 0.5 * _drift(x, c), c)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """F of that step."""
        c = unpacked(u)
        first, second = _slope(x, c), _slope(x + 0.5 * _drift(x, c), c)
        return jnp.eye(N_X, dtype=x.dtype) + second + 0.5 * _product(second, first)

    def observe(self, x: X, u: Input) -> Z:
        """A sum of states, with a wave on it; a distance; or a bearing."""
        c = unpacked(u)
        y = _applied(c.H, x)
        linear = y + c.skew * c.wave * jnp.sin(y / c.wave)
        ahead, beside, _ = _seen_from(x, c)
        angle = c.wave * jnp.arctan2(beside, ahead)
        return _by_form(c.form, linear, _distance(x, c), angle)

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H of these."""
        c = unpacked(u)
        slope = 1.0 + c.skew * jnp.cos(_applied(c.H, x) / c.wave)
        of_distance = c.H**2 * (x - c.centre) / _distance(x, c)[:, None]
        ahead, beside, squared = _seen_from(x, c)
        turned = ahead[:, None] * c.G - beside[:, None] * c.H
        of_bearing = (c.wave / squared)[:, None] * turned
        return _by_form(c.form[:, None], c.H * slope[:, None], of_distance, of_bearing)

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """A bearing's difference is an angle."""
        c = unpacked(u)
        turn = 2.0 * math.pi * c.wave
        nu = z - z_hat
        return jnp.where(c.form == BEARING, nu - turn * jnp.round(nu / turn), nu)


def unpacked(u: Input) -> Coefficients:
    """The coefficients by their names."""
    flat, unravel = ravel_pytree(none())
    assert u is not None
    return unravel(u.astype(flat.dtype))


# Sums over the inner index one by one: fast with a batch in the last axis, see filters/kernels.py.
def _applied(A: Array, x: Array) -> Array:
    return sum((A[:, j] * x[j] for j in range(1, len(x))), A[:, 0] * x[0])


def _product(A: Array, B: Array) -> Array:
    return sum((A[:, j, None] * B[j] for j in range(1, len(B))), A[:, 0, None] * B[0])


def _drift(x: X, c: Coefficients) -> X:
    linear = _applied(c.A, x) + _applied(c.W, jnp.sin(_applied(c.V, x) + c.phi))
    x1, x2, x3, *_ = x
    zero = jnp.zeros_like(x1)
    products = [zero, c.p[0] * x1 * x3 + c.p[2] * x1**2 * x2, c.p[1] * x1 * x2, zero, zero]
    return linear + jnp.stack(products)


def _slope(x: X, c: Coefficients) -> XX:
    """The derivative of the drift."""
    linear = c.A + _product(c.W, jnp.cos(_applied(c.V, x) + c.phi)[:, None] * c.V)
    x1, x2, x3, *_ = x
    zero = jnp.zeros_like(x1)
    still = jnp.stack([zero] * N_X)
    second = [c.p[0] * x3 + 2.0 * c.p[2] * x1 * x2, c.p[2] * x1**2, c.p[0] * x1, zero, zero]
    third = [c.p[1] * x2, c.p[1] * x1, zero, zero, zero]
    return linear + jnp.stack([still, jnp.stack(second), jnp.stack(third), still, still])


def _distance(x: X, c: Coefficients) -> Z:
    return jnp.sqrt(jnp.sum((c.H * (x - c.centre)) ** 2, axis=1) + GUARD)


def _seen_from(x: X, c: Coefficients) -> tuple[Z, Z, Z]:
    """Where the state is from the centre, in the two directions of a bearing; that squared."""
    away = x - c.centre
    ahead, beside = _applied(c.H, away), _applied(c.G, away)
    near = ahead**2 + beside**2 < GUARD
    ahead = jnp.where(near, math.sqrt(GUARD), ahead)
    return ahead, beside, ahead**2 + beside**2


def _by_form(form: Array, linear: Array, distance: Array, bearing: Array) -> Array:
    return jnp.where(form == BEARING, bearing, jnp.where(form == DISTANCE, distance, linear))
