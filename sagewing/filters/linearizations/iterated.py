"""The iterated EKF: h is linearised where the corrected estimate is."""

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters.equations import change_of_errors, innovation, observe_jacobian, predict
from sagewing.filters.gain import gain
from sagewing.filters.guards import prevent_fusion
from sagewing.filters.kernels import matmul, matvec
from sagewing.filters.lifting import per_sample
from sagewing.filters.linearizations.linearizer import Measured
from sagewing.filters.recovery import Recovery
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Errors,
    Flags,
    InnovationCov,
    Inputs,
    Jacobians,
    Measurements,
    States,
    Steps,
)


class Iterated(eqx.Module):
    """Each of the `iterations` is a Gauss-Newton step to the most likely state.

    The first is the EKF's correction; the next linearise h where the one before has arrived. f is
    linearised once, at the estimate.

    Example: `sw.EKF(model, Q0, R0, linearization=sw.Iterated(iterations=3))`
    """

    iterations: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        """Refuse less than one iteration."""
        if type(self.iterations) is not int or not 1 <= self.iterations <= 100:
            raise InputError(f"iterations must be within 1..100; got {self.iterations!r}.")

    def predict(
        self, model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
    ) -> tuple[States, Covariances, Covariances, Flags]:
        """That of the EKF."""
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
        """H where the iterations end, and the innovation that it implies at x_pred."""

        def around(dx: Errors) -> tuple[Measurements, Jacobians]:
            x = per_sample(model.plus, x_pred, dx)
            H = observe_jacobian(model, x, jnp.zeros_like(dx), u)
            H = _by_errors_before(model, H, x_pred, dx, x)
            H = jnp.where(arrived[:, None], H, 0.0)
            nu = innovation(model, x, z, u, arrived) + matvec(H, dx)
            return prevent_fusion((nu, H))

        def iterate(dx: Errors, _: None) -> tuple[Errors, None]:
            nu, H = around(dx)
            found = matvec(gain(P_pred, H, R).K, nu)
            return jnp.where(jnp.isfinite(found), found, 0.0), None

        none = jnp.zeros_like(P_pred[0])
        dx, _ = jax.lax.scan(iterate, none, length=self.iterations - 1)
        return Measured(*around(dx))


def _by_errors_before(
    model: Model, H: Jacobians, x_pred: States, dx: Errors, x: States
) -> Jacobians:
    """A derivative by the errors around x = x_pred + dx as one by those around x_pred."""
    first, last, _ = model.curved.indices(len(dx))
    if first == last:
        return H
    own = matmul(H[:, first:last], change_of_errors(model, x_pred, dx, x))
    return jnp.concatenate([H[:, :first], own, H[:, last:]], axis=1)
