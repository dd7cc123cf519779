"""What a linearisation must have."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp

from sagewing.filters.recovery import Recovery
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Flags,
    InnovationCov,
    Inputs,
    Jacobians,
    Measurements,
    States,
    Steps,
)


class Measured(NamedTuple):
    """The linearised measurement: the innovation, H, and the covariance of the linearisation error.

    A channel that did not arrive has zeros in all of them. `error` is None where it is taken for 0.
    """

    nu: Measurements
    H: Jacobians
    error: InnovationCov | None = None

    def with_error(self, R: InnovationCov) -> InnovationCov:
        """R, or H P H^T, and the covariance of the linearisation error."""
        return R if self.error is None else R + self.error

    def kept(self, channels: Arrived) -> "Measured":
        """Zeros in nu and H for the other channels."""
        nu, H = jnp.where(channels, self.nu, 0.0), jnp.where(channels[:, None], self.H, 0.0)
        return self._replace(nu=nu, H=H)


@runtime_checkable
class Linearizer(Protocol):
    """A linear f and h in place of the model's, around an estimate."""

    def predict(
        self, model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
    ) -> tuple[States, Covariances, Covariances, Flags]:
        """x_pred, F, F P F^T (with the covariance of f's linearisation error), where valid."""
        ...

    def measure(
        self,
        model: Model,
        x_pred: States,
        P_pred: Covariances,
        R: InnovationCov,
        z: Measurements,
        u: Inputs,
        arrived: Arrived,
    ) -> Measured:
        """The innovation and H; `R` is the noise of this step."""
        ...
