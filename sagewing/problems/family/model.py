"""One equation for every system of the training family.

Its coefficients are the model's input:

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
GUARD = 1e-3  # squared distance that keeps derivatives finite near a beacon


class Coefficients(NamedTuple):
    """The numbers of one system, in units of its nominal noise.

    `wave` is the wavelength of a sensor's sine; for a bearing it is the number of nominal standard
    deviations in a radian. `centre` is the beacon's place.
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


def zeros() -> Coefficients:
    """All coefficients zero: a state that does not change, and no sensor."""
    x, z, xx = jnp.zeros(N_X), jnp.zeros(N_Z), jnp.zeros((N_X, N_X))
    zx, products = jnp.zeros((N_Z, N_X)), jnp.zeros((N_X, len(PRODUCTS)))
    return Coefficients(xx, xx, xx, x, products, zx, z, z + 1.0, z, zx, x)


class FamilyModel(Model):
    """Any system of the family; its input holds the coefficients."""

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """A step of the midpoint rule."""
        c = unpack(u)
        return x + _drift(x + 0.5 * _drift(x, c), c)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """F of the midpoint rule."""
        c = unpack(u)
        first, second = _drift_jacobian(x, c), _drift_jacobian(x + 0.5 * _drift(x, c), c)
        return jnp.eye(N_X, dtype=x.dtype) + second + 0.5 * _matmul(second, first)

    def observe(self, x: X, u: Input) -> Z:
        """A sum of states with a sine added, a distance, or a bearing, for each channel."""
        c = unpack(u)
        y = _matvec(c.H, x)
        linear = y + c.skew * c.wave * jnp.sin(y / c.wave)
        along_H, along_G, _ = _relative_to_centre(x, c)
        angle = c.wave * jnp.arctan2(along_G, along_H)
        return _by_form(c.form, linear, _distance(x, c), angle)

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H of `observe`."""
        c = unpack(u)
        slope = 1.0 + c.skew * jnp.cos(_matvec(c.H, x) / c.wave)
        distance_jacobian = c.H**2 * (x - c.centre) / _distance(x, c)[:, None]
        along_H, along_G, squared = _relative_to_centre(x, c)
        numerator = along_H[:, None] * c.G - along_G[:, None] * c.H
        bearing_jacobian = (c.wave / squared)[:, None] * numerator
        return _by_form(c.form[:, None], c.H * slope[:, None], distance_jacobian, bearing_jacobian)

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """The difference; that of a bearing is wrapped."""
        c = unpack(u)
        full_turn = 2.0 * math.pi * c.wave
        nu = z - z_hat
        return jnp.where(c.form == BEARING, nu - full_turn * jnp.round(nu / full_turn), nu)


def unpack(u: Input) -> Coefficients:
    """The coefficients by name."""
    flat, unravel = ravel_pytree(zeros())
    assert u is not None
    return unravel(u.astype(flat.dtype))


# Explicit sums over the inner index are fast with a batch in the last axis; see filters/kernels.py.
def _matvec(A: Array, x: Array) -> Array:
    return sum((A[:, j] * x[j] for j in range(1, len(x))), A[:, 0] * x[0])


def _matmul(A: Array, B: Array) -> Array:
    return sum((A[:, j, None] * B[j] for j in range(1, len(B))), A[:, 0, None] * B[0])


def _drift(x: X, c: Coefficients) -> X:
    linear = _matvec(c.A, x) + _matvec(c.W, jnp.sin(_matvec(c.V, x) + c.phi))
    return linear + _matvec(c.B, _products(x))


def _drift_jacobian(x: X, c: Coefficients) -> XX:
    """The derivative of the drift."""
    linear = c.A + _matmul(c.W, jnp.cos(_matvec(c.V, x) + c.phi)[:, None] * c.V)
    return linear + _matmul(c.B, _products_jacobian(x))


def _products(x: X) -> Float[Array, "products"]:
    x, y, z, *_ = x
    return jnp.stack([x * x, y * y, z * z, x * y, x * z, y * z, x * x * y])


def _products_jacobian(x: X) -> Float[Array, "products n"]:
    x, y, z, *_ = x
    o = jnp.zeros_like(x)
    squares = [[2.0 * x, o, o], [o, 2.0 * y, o], [o, o, 2.0 * z]]
    rows = [*squares, [y, x, o], [z, o, x], [o, z, y], [2.0 * x * y, x * x, o]]
    return jnp.stack([jnp.stack([*row, *[o] * (N_X - 3)]) for row in rows])


def _distance(x: X, c: Coefficients) -> Z:
    return jnp.sqrt(jnp.sum((c.H * (x - c.centre)) ** 2, axis=1) + GUARD)


def _relative_to_centre(x: X, c: Coefficients) -> tuple[Z, Z, Z]:
    """The offset from the centre along H and G, and its squared length."""
    offset = x - c.centre
    along_H, along_G = _matvec(c.H, offset), _matvec(c.G, offset)
    near = along_H**2 + along_G**2 < GUARD
    along_H = jnp.where(near, math.sqrt(GUARD), along_H)
    return along_H, along_G, along_H**2 + along_G**2


def _by_form(form: Array, linear: Array, distance: Array, bearing: Array) -> Array:
    return jnp.where(form == BEARING, bearing, jnp.where(form == DISTANCE, distance, linear))
