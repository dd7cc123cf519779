"""Models given by a differential equation, integrated by one Runge-Kutta step."""

from abc import abstractmethod
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.models.model import Model
from sagewing.shapes import XX, Duration, Input, X


class ContinuousModel(Model):
    """A model given by dx/dt = `drift(x, u)` instead of `transition`.

    `jacobian` chooses F: "exact" is the derivative of the Runge-Kutta step, "euler" the first-order
    I + dt A.
    """

    jacobian: eqx.AbstractVar[Literal["exact", "euler"]]

    @abstractmethod
    def drift(self, x: X, u: Input) -> X:
        """The time derivative of the state."""

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A, the derivative of `drift` with respect to the state."""
        return jax.jacfwd(self.drift)(x, u)

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """One step of the classical fourth-order Runge-Kutta scheme."""
        k1 = self.drift(x, u)
        k2 = self.drift(x + 0.5 * dt * k1, u)
        k3 = self.drift(x + 0.5 * dt * k2, u)
        k4 = self.drift(x + dt * k3, u)
        return x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """I + dt A; None for "exact", which has filters differentiate the Runge-Kutta step."""
        if self.jacobian == "euler":
            return jnp.eye(x.size, dtype=x.dtype) + dt * self.drift_jacobian(x, u)
        return None
