"""The EKF that is told the true noise at every step: how good a filter could be."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.kernels import diagonal_matrix, gain, matvec, whiten
from sagewing.filters.recovery import Recovering, Recovery, Verdict, begin
from sagewing.filters.recursion import (
    Estimate,
    consistency,
    correct,
    innovate,
    of_arrived,
    predict,
)
from sagewing.models import Model
from sagewing.shapes import Arrived, Covariances, Inputs, Measurements, States, Steps, X, Z


class OracleState(NamedTuple):
    """The estimate and the number of steps made."""

    x: States
    P: Covariances
    k: jax.Array
    recovery: Recovery


class OracleEKF(Recovering):
    """An EKF with variances `q[k]` and `r[k]` at step k, time first and batch last."""

    model: Model
    q: Float[Array, "T n_x *batch"]
    r: Float[Array, "T n_z *batch"]

    @property
    def n_x(self) -> int:
        """The number of states."""
        return self.q.shape[1]

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.r.shape[1]

    @property
    def q0(self) -> X:
        """The mean variances of the process noise."""
        return jnp.mean(self.q, axis=(0, *range(2, self.q.ndim)))

    @property
    def r0(self) -> Z:
        """The mean variances of the measurement noise."""
        return jnp.mean(self.r, axis=(0, *range(2, self.r.ndim)))

    def init(self, x0: States, P0: Covariances) -> OracleState:
        """The start."""
        return OracleState(x0, P0, jnp.asarray(0), begin(x0, P0, self.r[0]))

    def plain_step(
        self, state: OracleState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[OracleState, Estimate, Verdict]:
        """One prediction and one correction with the noise of this step."""
        q, r = self.q[state.k], self.r[state.k]
        x_pred, _, FPF, predicted = predict(self.model, state.recovery, state.x, state.P, u, dt)
        P_pred = FPF + diagonal_matrix(q)
        nu, H = innovate(self.model, x_pred, z, u, arrived)
        R = of_arrived(diagonal_matrix(r), arrived)
        _, _, L, K, P_post, kept = gain(P_pred, H, R, nu)
        nu = jnp.where(kept, nu, 0.0)
        x, P, corrected = correct(self.model, x_pred, P_pred, matvec(K, nu), P_post)
        nis, loglik = consistency(whiten(L, nu), L, arrived & kept)
        verdict = Verdict(arrived, kept, predicted & corrected)
        recovery = state.recovery.after_step(dt)
        counts = (verdict.ok, recovery.restarts)
        said = Estimate(x, P, q, r, None, nis, loglik, *counts, trace=None)
        return OracleState(x, P, state.k + 1, recovery), said, verdict

    def restarted(self, state: OracleState, x: States, P: Covariances) -> OracleState:
        """It goes on counting steps."""
        return state._replace(x=x, P=P)
