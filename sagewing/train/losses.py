"""The losses of training."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.filters.attenuation import innermost
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.rules import AttenuationRule
from sagewing.filters.step import Step
from sagewing.models.quadrotor import Q, R
from sagewing.policy.ndr.policy import Policy
from sagewing.problems.flight.records import FlightRecord
from sagewing.runtime.training import TrainingBackend, scan_for_training
from sagewing.shapes import Arrived, Measurements, Numbers, Scalar, States, Values

HUBER = 5.0  # paper: errors in position are penalised quadratically up to this, m
ATTITUDE_WEIGHT = 10.0  # paper
SMALLEST = 1e-8  # floor of a window's loss, where the derivative of its root is still bounded
WindowLoss = Literal["squared", "root"]


class LossInputs(NamedTuple):
    """The results of a step that a loss may depend on; None where the filter does not have it."""

    x: States
    q: States | None
    r: Measurements | None
    trace: Any


def state_loss(
    filt: Filter,
    x0: Float[Array, "B n_x"],
    P0: Numbers,
    z: Float[Array, "B T n_z"],
    truth: Float[Array, "B T n_x"],
    dt: float | Scalar,
    aux_weight: float = 0.1,
    largest: float | None = None,
    u: Float[Array, "B T n_u"] | None = None,
    noise: tuple[Float[Array, "B T n_x"], Float[Array, "B T n_z"]] | None = None,
    backend: TrainingBackend = "jax",
) -> Scalar:
    """The paper's loss: squared state error plus `aux_weight` times the reconstruction error.

    The mean over steps and records of ||x_true - x||^2 + aux_weight ||y - y_hat||^2; the second
    term only for a filter with a policy to reconstruct its features. Squared errors over `largest`
    are left out of the mean. For the universal policy `noise` may be the true q and r: the second
    term is then the distance of the policy's q and r from them.
    """
    estimates = _steps(filt, x0, P0, z, u, dt, backend)
    squared = jnp.sum((estimates.x - jnp.moveaxis(truth, 0, -1)) ** 2, axis=1)
    if largest is None:
        error = jnp.mean(squared)
    else:
        counts = squared < largest
        error = jnp.sum(jnp.where(counts, squared, 0.0)) / jnp.maximum(jnp.sum(counts), 1)
    if noise is None:
        return error + _reconstruction(filt, estimates, aux_weight)
    q, r = (jnp.moveaxis(a, 0, -1) for a in noise)
    arrived = jnp.moveaxis(jnp.isfinite(z), 0, -1)
    distance = jax.vmap(noise_distance)(estimates, q, r, jnp.ones_like(q, bool), arrived)
    return error + aux_weight * jnp.mean(distance)


def noise_distance(
    step: LossInputs | Step,
    q: States,
    r: Measurements,
    states: Bool[Array, "n_x *batch"],
    channels: Arrived,
) -> Values:
    """The mean distance of log q, and of the gain's log r, from the true values in a step."""

    def distance(own: Array, true: Array, where: Array) -> Array:
        log_ratio = jnp.log(jnp.where(where, own / true, 1.0))
        count = jnp.maximum(jnp.sum(where, axis=0), 1)
        return jnp.sum(jnp.sqrt(1.0 + log_ratio**2) - 1.0, axis=0) / count

    assert step.q is not None
    assert step.r is not None
    return distance(step.q, q, states) + distance(step.r * jnp.exp(step.trace), r, channels)


def pose_loss(
    filt: Filter,
    records: FlightRecord,
    P0: Numbers,
    dt: float | Scalar,
    aux_weight: float = 0.1,
    *,
    window: WindowLoss = "squared",
    backend: TrainingBackend = "jax",
) -> Scalar:
    """The paper's loss in flight: Huber in position, cosine distance in attitude, reconstruction.

    `records` have a leading batch axis. The loss of a window is its mean ("squared", as in the
    paper), or the root of that mean, so that the noisiest windows do not dominate.
    """
    estimates = _steps(filt, records.x0, P0, records.z, records.u, dt, backend)
    error = jnp.abs(estimates.x[:, R] - jnp.moveaxis(records.position, 0, -1))
    huber = jnp.where(error < HUBER, 0.5 * error**2, HUBER * (error - 0.5 * HUBER))
    cosine = jnp.abs(jnp.sum(estimates.x[:, Q] * jnp.moveaxis(records.quaternion, 0, -1), axis=1))
    losses = jnp.mean(huber, axis=(0, 1)) + ATTITUDE_WEIGHT * jnp.mean(1.0 - cosine, axis=0)
    losses = losses if window == "squared" else jnp.sqrt(jnp.maximum(losses, SMALLEST))
    return jnp.mean(losses) + _reconstruction(filt, estimates, aux_weight)


def _steps(
    filt: Filter, x0: Any, P0: Any, z: Any, u: Any, dt: Any, backend: TrainingBackend
) -> LossInputs:
    """LossInputs and traces of a filter over a batch [B, T, ...]; time first and batch last."""
    runs, steps, _ = z.shape
    arrived = jnp.isfinite(z)
    z, arrived = (jnp.moveaxis(a, 0, -1) for a in (jnp.where(arrived, z, 0.0), arrived))
    u = None if u is None else jnp.moveaxis(u, 0, -1)
    P = jnp.asarray(P0, z.dtype)
    start = filt.init(x0.T, jnp.broadcast_to(P[..., None], (*P.shape, runs)))
    seconds = jnp.full(steps, dt, z.dtype)
    return scan_for_training(filt, start, z, u, seconds, arrived, _loss_inputs, backend)


def _loss_inputs(step: Step, extra: None) -> LossInputs:
    return LossInputs(step.x, step.q, step.r, step.trace)


def _reconstruction(filt: Filter, estimates: LossInputs, weight: float) -> Scalar | float:
    """The weighted error of the policy's decoder; 0 for a filter without one."""
    policy = _policy_of(filt)
    if weight == 0.0 or not isinstance(policy, Policy):
        return 0.0
    y, c = estimates.trace
    y_hat = policy.reconstruct(c)
    return weight * jnp.mean(jnp.sum((y - y_hat) ** 2, axis=1))


def _policy_of(filt: Filter) -> Any:
    """The policy that chooses a filter's d, or None."""
    if isinstance(filt, AdaptiveFilter) and isinstance(filt.rule, AttenuationRule):
        return innermost(filt.rule.policy)
    return None
