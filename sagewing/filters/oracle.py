"""The EKF with the true noise of every step: a reference for the error of other filters."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.equations import (
    correct,
    likelihood,
    linearize_measurement,
    mask_missing_channels,
    predict,
)
from sagewing.filters.gain import gain
from sagewing.filters.kernels import diagonal_matrix, matvec, whiten
from sagewing.filters.recovery import Recovering, Recovery, Verdict, begin
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import DX, Arrived, Covariances, Inputs, Measurements, States, Steps, Z


class OracleState(NamedTuple):
    """The estimate and the number of steps so far."""

    x: States
    P: Covariances
    k: jax.Array
    recovery: Recovery


class OracleEKF(Recovering):
    """An EKF with variances `q[k]` and `r[k]` at step k, time first and batch last.

    Later steps use the last row: one row of each means constant noise.
    """

    model: Model
    q: Float[Array, "T n_dx *batch"]
    r: Float[Array, "T n_z *batch"]

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        return self.model.n_x or self.q.shape[1]

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.r.shape[1]

    @property
    def q0(self) -> DX:
        """The mean variances of the process noise."""
        return jnp.mean(self.q, axis=(0, *range(2, self.q.ndim)))

    @property
    def r0(self) -> Z:
        """The mean variances of the measurement noise."""
        return jnp.mean(self.r, axis=(0, *range(2, self.r.ndim)))

    def init(self, x0: States, P0: Covariances) -> OracleState:
        """The initial state."""
        return OracleState(x0, P0, jnp.asarray(0), begin(x0, P0, self.r[0]))

    def plain_step(
        self, state: OracleState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[OracleState, Step, Verdict]:
        """One prediction and one correction with the noise of this step."""
        k = jnp.minimum(state.k, len(self.q) - 1)
        q, r = self.q[k], self.r[k]
        x_pred, F, FPF, predicted = predict(self.model, state.recovery, state.x, state.P, u, dt)
        P_pred = FPF + diagonal_matrix(q)
        innovation, H = linearize_measurement(self.model, x_pred, P_pred, z, u, arrived)
        R = mask_missing_channels(diagonal_matrix(r), arrived)
        _, S, L, K, P_post, kept = gain(P_pred, H, R, innovation)
        nu = jnp.where(kept, innovation, 0.0)
        x, P, corrected = correct(self.model, x_pred, P_pred, matvec(K, nu), P_post)
        nis, loglik = likelihood(whiten(L, nu), L, arrived & kept)
        verdict = Verdict(arrived, kept, predicted & corrected)
        recovery = state.recovery.after_step(dt)
        step = Step(x, P, nis, loglik, verdict.ok, recovery.restarts, q, r)
        step = step._replace(x_pred=x_pred, P_pred=P_pred, F=F, H=H)
        step = step._replace(innovation=innovation, nu=nu, S=S, K=K)
        step = step._replace(predicted=predicted, corrected=corrected)
        return OracleState(x, P, state.k + 1, recovery), step, verdict

    def restarted(self, state: OracleState, x: States, P: Covariances) -> OracleState:
        """The state after a restart at x and P; the count of steps continues."""
        return state._replace(x=x, P=P)
