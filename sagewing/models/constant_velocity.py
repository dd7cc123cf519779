"""A point that moves on a line, in a plane or in space, with a measured position.

Copy this file for a model of your own.
"""

import equinox as eqx
import jax.numpy as jnp

from sagewing.models.model import Model
from sagewing.shapes import Duration, Input, X, Z


class ConstantVelocity(Model):
    """State: `axes` positions, then `axes` velocities. Measured: the positions."""

    axes: int = eqx.field(static=True, default=2)

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """The position changes by dt times the velocity, which is constant."""
        position, velocity = x[: self.axes], x[self.axes :]
        return jnp.concatenate([position + dt * velocity, velocity])

    def observe(self, x: X, u: Input) -> Z:
        """The position."""
        return x[: self.axes]
