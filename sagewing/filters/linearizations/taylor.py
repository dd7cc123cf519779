"""The first-order Taylor series of f and h at the estimate: the EKF."""

import equinox as eqx

from sagewing.filters.equations import linearize_measurement, predict
from sagewing.filters.linearizations.linearizer import Measured
from sagewing.filters.recovery import Recovery
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Flags,
    InnovationCov,
    Inputs,
    Measurements,
    States,
    Steps,
)


class Taylor(eqx.Module):
    """F and H are the derivatives of f and h, in closed form where the model has them."""

    def predict(
        self, model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
    ) -> tuple[States, Covariances, Covariances, Flags]:
        """f(x), and F P F^T."""
        return predict(model, recovery, x, P, u, dt)

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
        """z - h(x_pred), and H there."""
        return Measured(*linearize_measurement(model, x_pred, P_pred, z, u, arrived))
