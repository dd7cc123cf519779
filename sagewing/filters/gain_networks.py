"""L-EKF and KalmanNet: a network changes the Kalman gain, or makes it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from sagewing.filters import checks
from sagewing.filters.kernels import (
    all_finite,
    diagonal,
    diagonal_matrix,
    finite_derivative,
    gain,
    matmul,
    matvec,
    propagate,
    whiten,
)
from sagewing.filters.recursion import (
    Estimate,
    consistency,
    correct,
    innovate,
    like,
    of_arrived,
    predict,
)
from sagewing.models import Model
from sagewing.shapes import (
    XX,
    ZZ,
    Arrived,
    Covariances,
    Gains,
    Innovations,
    Inputs,
    Jacobians,
    Measurements,
    Numbers,
    States,
    Steps,
    X,
    Z,
)

# KalmanNet's states and features stay within this (paper, section "Benchmarked Baselines").
CLIP = 50.0


class GainState(NamedTuple):
    """The estimate, the estimate before it, the last prediction, and the network's memory."""

    x: States
    P: Covariances
    x_before: States
    x_pred: States
    memory: Any


class GainFilter(eqx.Module):
    """An EKF with a gain that a network changes (`makes_gain` False) or makes (True).

    Its P is that of an EKF with this gain, were Q and R true (Joseph's form).
    """

    model: Model
    Q: XX
    R: ZZ
    network: Any
    makes_gain: bool = eqx.field(static=True)

    @property
    def n_x(self) -> int:
        """The number of states."""
        return self.Q.shape[0]

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.R.shape[0]

    @property
    def q0(self) -> X:
        """The process noise variances, which stay."""
        return jnp.diagonal(self.Q)

    @property
    def r0(self) -> Z:
        """The measurement noise variances, which stay."""
        return jnp.diagonal(self.R)

    def init(self, x0: States, P0: Covariances) -> GainState:
        """The start, with nothing moved yet and an empty memory."""
        return GainState(x0, P0, x0, x0, self.network.init(x0))

    def step(
        self, state: GainState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[GainState, Estimate]:
        """One prediction, and one correction with the network's gain."""
        x, P = finite_derivative((state.x, state.P))
        x_pred, FPF, predicted = predict(self.model, x, P, u, dt)
        P_pred = FPF + like(self.Q, x)
        nu, H, arrived, sane = innovate(self.model, x_pred, like(self.r0, z), z, u, arrived)
        R = of_arrived(like(self.R, x), arrived)
        _, L, K, _, weighed = gain(P_pred, H, R)
        nu, arrived = jnp.where(weighed, nu, 0.0), arrived & weighed
        K, memory = (self._made if self.makes_gain else self._changed)(state, x_pred, nu, K)
        K = jnp.where(arrived[None], K, 0.0)
        x_post, corrected = correct(self.model, x_pred, matvec(K, nu))
        if self.makes_gain:
            x_post = jnp.clip(x_post, -CLIP, CLIP)
        P_post = _joseph(P_pred, H, K, R)
        spread = all_finite(diagonal(P_post))
        P_post = jnp.where(spread, P_post, P_pred)
        nis, loglik = consistency(whiten(L, nu), L, arrived)
        ok = predicted & sane & weighed & corrected & spread
        said = Estimate(x_post, P_post, None, None, None, nis, loglik, ok, trace=None)
        return GainState(x_post, P_post, x, x_pred, memory), said

    def _changed(
        self, state: GainState, x_pred: States, nu: Measurements, K: Gains
    ) -> tuple[Gains, Any]:
        """L-EKF: each entry of the EKF's gain times 1 + what the network says."""
        seen = [self.network.standard(x_pred), nu / jnp.sqrt(like(self.r0, nu))]
        change, memory = self.network(state.memory, jnp.concatenate(seen))
        return K * (1.0 + change.reshape(K.shape)), memory

    def _made(
        self, state: GainState, x_pred: States, nu: Measurements, K: Gains
    ) -> tuple[Gains, Any]:
        """KalmanNet: the gain from the innovation, the last move and the last correction."""
        seen = [nu, state.x - state.x_before, state.x - state.x_pred]
        y = jnp.clip(jnp.concatenate(seen), -CLIP, CLIP)
        made, memory = self.network(state.memory, y)
        return made.reshape(K.shape), memory


def _joseph(P: Covariances, H: Jacobians, K: Gains, R: Innovations) -> Covariances:
    """(I - K H) P (I - K H)^T + K R K^T: the covariance after a correction with any gain."""
    J = diagonal_matrix(jnp.ones_like(P[0])) - matmul(K, H)
    return propagate(J, P) + propagate(K, R)


def LEKF(model: Model, Q0: Numbers, R0: Numbers, network: Any) -> GainFilter:
    """The L-EKF: an EKF whose gain `network` multiplies, entry by entry."""
    return _gain_filter(model, Q0, R0, network, "l-ekf")


def KalmanNet(model: Model, Q0: Numbers, R0: Numbers, network: Any) -> GainFilter:
    """KalmanNet, architecture 1: `network` makes the gain; Q0 and R0 serve only to say P."""
    return _gain_filter(model, Q0, R0, network, "kalmannet")


def _gain_filter(model: Model, Q0: Numbers, R0: Numbers, network: Any, purpose: str) -> GainFilter:
    network.check(purpose)
    filt = GainFilter(
        model,
        checks.covariance("Q0", Q0, "n_x", positive=False),
        checks.covariance("R0", R0, "n_z", positive=True),
        network,
        makes_gain=purpose == "kalmannet",
    )
    network.check_sizes(filt.n_x, filt.n_z)
    return filt
