"""L-EKF and KalmanNet: a network scales the Kalman gain, or computes it."""

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from sagewing.filters import checks
from sagewing.filters.equations import (
    broadcast_to_batch,
    correct,
    likelihood,
    linearize_measurement,
    mask_missing_channels,
    predict,
)
from sagewing.filters.gain import gain
from sagewing.filters.guards import every, finite_derivative
from sagewing.filters.kernels import (
    diagonal,
    diagonal_matrix,
    matmul,
    matvec,
    propagate,
    whiten,
)
from sagewing.filters.nominal import NominalNoise
from sagewing.filters.recovery import Recovery, Verdict, begin, largest
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Gains,
    InnovationCov,
    Inputs,
    Jacobians,
    Measurements,
    Numbers,
    States,
    Steps,
)

# The bound of KalmanNet's states (paper, section "Benchmarked Baselines") and of all networks'
# inputs.
CLIP = 50.0


class GainState(NamedTuple):
    """The estimate, the estimate before it, the last prediction, and the network's memory."""

    x: States
    P: Covariances
    x_before: States
    x_pred: States
    memory: Any
    recovery: Recovery


class GainFilter(NominalNoise):
    """An EKF with a gain from a network, computed by the subclass.

    P is the covariance with this gain under the given Q and R (Joseph form).
    """

    network: Any
    largest_state: ClassVar[float] = math.inf

    @abstractmethod
    def choose(
        self, state: GainState, x_pred: States, nu: Measurements, K: Gains
    ) -> tuple[Gains, Any]:
        """The gain and the network's memory; K is the EKF's gain."""

    def init(self, x0: States, P0: Covariances) -> GainState:
        """The initial state, without a previous change and with an empty memory."""
        recovery = begin(x0, P0, broadcast_to_batch(self.r0, x0))
        return GainState(x0, P0, x0, x0, self.network.init(x0), recovery)

    def plain_step(
        self, state: GainState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[GainState, Step, Verdict]:
        """One prediction, and one correction with the network's gain."""
        x, P = finite_derivative((state.x, state.P))
        x_pred, F, FPF, predicted = predict(self.model, state.recovery, x, P, u, dt)
        P_pred = FPF + broadcast_to_batch(self.Q, x)
        innovation, H = linearize_measurement(self.model, x_pred, P_pred, z, u, arrived)
        R = mask_missing_channels(broadcast_to_batch(self.R, x), arrived)
        _, S, L, K, _, kept = gain(P_pred, H, R, innovation)
        nu, used = jnp.where(kept, innovation, 0.0), arrived & kept
        K, memory = self.choose(state, x_pred, nu, K)
        K = jnp.where(used[None], K, 0.0)
        P_post = _joseph(P_pred, H, K, R)
        # A network's gain has no bounds: a P that the next prediction may overflow is refused
        usable = every(diagonal(P_post) < largest(x.dtype))
        dx = jnp.where(usable, matvec(K, nu), jnp.nan)
        x_post, P_post, corrected = correct(self.model, x_pred, P_pred, dx, P_post)
        x_post = jnp.clip(x_post, -self.largest_state, self.largest_state)
        nis, loglik = likelihood(whiten(L, nu), L, used)
        verdict = Verdict(arrived, kept, predicted & corrected)
        recovery = state.recovery.after_step(dt)
        step = Step(x_post, P_post, nis, loglik, verdict.ok, recovery.restarts)
        step = step._replace(x_pred=x_pred, P_pred=P_pred, F=F, H=H)
        step = step._replace(innovation=innovation, nu=nu, S=S, K=K)
        step = step._replace(predicted=predicted, corrected=corrected)
        return GainState(x_post, P_post, x, x_pred, memory, recovery), step, verdict


class LearnedGainEKF(GainFilter):
    """L-EKF: each entry of the EKF's gain times 1 + the network's output."""

    def choose(
        self, state: GainState, x_pred: States, nu: Measurements, K: Gains
    ) -> tuple[Gains, Any]:
        """From the predicted state and the innovation."""
        inputs = [self.network.standard(x_pred), nu / jnp.sqrt(broadcast_to_batch(self.r0, nu))]
        change, memory = self.network(state.memory, jnp.concatenate(inputs))
        return K * (1.0 + change.reshape(K.shape)), memory


class KalmanNetFilter(GainFilter):
    """KalmanNet: the gain is the network's output."""

    largest_state: ClassVar[float] = CLIP

    def choose(
        self, state: GainState, x_pred: States, nu: Measurements, K: Gains
    ) -> tuple[Gains, Any]:
        """From the innovation, the last change of the state and its last correction."""
        inputs = [nu, state.x - state.x_before, state.x - state.x_pred]
        entries, memory = self.network(state.memory, jnp.concatenate(inputs))
        return entries.reshape(K.shape), memory


def _joseph(P: Covariances, H: Jacobians, K: Gains, R: InnovationCov) -> Covariances:
    """(I - K H) P (I - K H)^T + K R K^T: the covariance after a correction with any gain."""
    J = diagonal_matrix(jnp.ones_like(P[0])) - matmul(K, H)
    return propagate(J, P) + propagate(K, R)


def LEKF(model: Model, Q0: Numbers, R0: Numbers, network: Any) -> LearnedGainEKF:
    """The L-EKF: an EKF whose gain `network` multiplies, entry by entry."""
    network.check("l-ekf")
    checks.vector_state(model, "The L-EKF")
    filt = LearnedGainEKF(model, *checks.covariances(Q0, R0), network)
    network.check_sizes(filt.n_x, filt.n_z)
    return filt


def KalmanNet(model: Model, Q0: Numbers, R0: Numbers, network: Any) -> KalmanNetFilter:
    """KalmanNet, architecture 1: `network` computes the gain; Q0 and R0 are used for P only."""
    network.check("kalmannet")
    checks.vector_state(model, "KalmanNet")
    filt = KalmanNetFilter(model, *checks.covariances(Q0, R0), network)
    network.check_sizes(filt.n_x, filt.n_z)
    return filt
