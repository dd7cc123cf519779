"""The Rössler attractor measured by a radar: the paper's test domain."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from sagewing.models.angles import wrap_angle
from sagewing.models.continuous import ContinuousModel
from sagewing.shapes import XX, ZX, Input, X, Z

# Added to the squared range: at x = y = 0 range and bearing have no derivative.
ORIGIN_GUARD = 1e-12


class Rossler(ContinuousModel):
    """Rössler 1976; the range and the bearing of (x, y) are measured, z is not.

    With `wrap_bearing=False`, as in the paper, the innovation of the bearing is not wrapped and
    jumps by 2 pi at every turn.
    """

    a: float = 0.2
    b: float = 0.2
    c: float = 5.7
    wrap_bearing: bool = eqx.field(static=True, default=True)
    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The Rössler equations."""
        x1, x2, x3 = x
        return jnp.stack([-x2 - x3, x1 + self.a * x2, self.b + x3 * (x1 - self.c)])

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        x1, _, x3 = x
        one, zero = jnp.ones_like(x1), jnp.zeros_like(x1)
        return jnp.stack(
            [
                jnp.stack([zero, -one, -one]),
                jnp.stack([one, self.a * one, zero]),
                jnp.stack([x3, zero, x1 - self.c]),
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """Range and bearing."""
        return jnp.stack([jnp.sqrt(x[0] ** 2 + x[1] ** 2 + ORIGIN_GUARD), jnp.arctan2(x[1], x[0])])

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H in closed form."""
        x1, x2, _ = x
        rho2 = x1**2 + x2**2 + ORIGIN_GUARD
        rho = jnp.sqrt(rho2)
        zero = jnp.zeros_like(x1)
        return jnp.stack(
            [jnp.stack([x1 / rho, x2 / rho, zero]), jnp.stack([-x2 / rho2, x1 / rho2, zero])]
        )

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference, with the bearing wrapped to [-pi, pi)."""
        nu = z - z_hat
        return nu.at[1].set(wrap_angle(nu[1])) if self.wrap_bearing else nu
