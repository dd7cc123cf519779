"""The Lorenz attractor with two linear sensors: the paper's training domain."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from sagewing.models.continuous import ContinuousModel
from sagewing.shapes import XX, ZX, Input, X, Z


class Lorenz(ContinuousModel):
    """Lorenz 1963; x and z are measured, y is not."""

    sigma: float = 10.0
    rho: float = 28.0
    beta: float = 8.0 / 3.0
    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The Lorenz equations."""
        x1, x2, x3 = x
        return jnp.stack(
            [self.sigma * (x2 - x1), x1 * (self.rho - x3) - x2, x1 * x2 - self.beta * x3]
        )

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        x1, x2, x3 = x
        one, zero = jnp.ones_like(x1), jnp.zeros_like(x1)
        return jnp.stack(
            [
                jnp.stack([-self.sigma * one, self.sigma * one, zero]),
                jnp.stack([self.rho - x3, -one, -x1]),
                jnp.stack([x2, x1, -self.beta * one]),
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """The first and the third coordinate."""
        return jnp.stack([x[0], x[2]])

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H is constant."""
        return jnp.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], x.dtype)
