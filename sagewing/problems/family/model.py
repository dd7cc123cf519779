"""The one equation that holds every system of the training family.

Its coefficients come in as the model's input:

    x+ = x + a(x + a(x) / 2)
    a(x) = A x + W sin(V x + phi) + B (products of x_1, x_2 and x_3)
    z = H x + skew wave sin(H x / wave), or |H (x - c)|, or the bearing of (H, G) (x - c)

so Lorenz, Chen, Sprott's flows, Thomas, Van der Pol, pendulums, linear systems, constant velocity
and networks of sines are one compiled program. The time step is 1.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from sagewing.models import Model
from sagewing.shapes import XX, ZX, Duration, Input, X, Z

N_X, N_Z = 5, 3
# The products of the first three states, x, y and z, that a system may have
PRODUCTS = ("xx", "yy", "zz", "xy", "xz", "yz", "xxy")
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
    B: Float[Array, "n products"]
    H: Float[Array, "m n"]
    skew: Float[Array, "m"]
    wave: Float[Array, "m"]
    form: Float[Array, "m"]
    G: Float[Array, "m n"]
    centre: Float[Array, "n"]


def none() -> Coefficients:
    """A system that stands still and is not seen."""
    x, z, xx = jnp.zeros(N_X), jnp.zeros(N_Z), jnp.zeros((N_X, N_X))
    zx, products = jnp.zeros((N_Z, N_X)), jnp.zeros((N_X, len(PRODUCTS)))
    return Coefficients(xx, xx, xx, x, products, zx, z, z + 1.0, z, zx, x)


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
    return linear + _applied(c.B, _products(x))


def _slope(x: X, c: Coefficients) -> XX:
    """The derivative of the drift."""
    linear = c.A + _product(c.W, jnp.cos(_applied(c.V, x) + c.phi)[:, None] * c.V)
    return linear + _product(c.B, _products_slope(x))


def _products(x: X) -> Float[Array, "products"]:
    x, y, z, *_ = x
    return jnp.stack([x * x, y * y, z * z, x * y, x * z, y * z, x * x * y])


def _products_slope(x: X) -> Float[Array, "products n"]:
    x, y, z, *_ = x
    o = jnp.zeros_like(x)
    squares = [[2.0 * x, o, o], [o, 2.0 * y, o], [o, o, 2.0 * z]]
    rows = [*squares, [y, x, o], [z, o, x], [o, z, y], [2.0 * x * y, x * x, o]]
    return jnp.stack([jnp.stack([*row, *[o] * (N_X - 3)]) for row in rows])


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
