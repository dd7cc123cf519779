"""What training minimises."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters import scan
from sagewing.flights.records import Record
from sagewing.models.quadrotor import Q, R
from sagewing.shapes import Numbers, Scalar

HUBER = 5.0  # paper: errors in position are penalised quadratically up to this, m
ATTITUDE_WEIGHT = 10.0  # paper


def state_loss(
    filt: Any,
    x0: Float[Array, "B n_x"],
    P0: Float[Array, "n_x n_x"],
    z: Float[Array, "B T n_z"],
    truth: Float[Array, "B T n_x"],
    dt: float | Scalar,
    aux_weight: float = 0.1,
    largest: float | None = None,
) -> Scalar:
    """The paper's loss: squared state error plus `aux_weight` times the reconstruction error.

    The mean over steps and records of ||x_true - x||^2 + aux_weight ||y - y_hat||^2; the second
    term only for a filter with a policy to reconstruct its features. Squared errors over `largest`
    are left out of the mean.
    """
    runs, steps, _ = z.shape
    arrived = jnp.isfinite(z)
    z, arrived, truth = (
        jnp.moveaxis(a, 0, -1) for a in (jnp.where(arrived, z, 0.0), arrived, truth)
    )
    start = filt.init(x0.T, jnp.broadcast_to(P0[..., None], (*P0.shape, runs)))
    _, made = scan(filt, start, z, None, jnp.full(steps, dt, z.dtype), arrived)
    squared = jnp.sum((made.x - truth) ** 2, axis=1)
    if largest is None:
        error = jnp.mean(squared)
    else:
        counts = squared < largest
        error = jnp.sum(jnp.where(counts, squared, 0.0)) / jnp.maximum(jnp.sum(counts), 1)
    return error + aux_weight * _reconstruction(filt, made, aux_weight)


def pose_loss(
    filt: Any, records: Record, P0: Numbers, dt: float | Scalar, aux_weight: float = 0.1
) -> Scalar:
    """The paper's loss in flight: Huber in position, cosine distance in attitude, reconstruction.

    `records` have a leading batch axis.
    """
    runs, steps, _ = records.z.shape
    z, u, position, quaternion = (
        jnp.moveaxis(a, 0, -1) for a in (records.z, records.u, records.position, records.quaternion)
    )
    P = jnp.asarray(P0, z.dtype)
    start = filt.init(records.x0.T, jnp.broadcast_to(P[..., None], (*P.shape, runs)))
    arrived = jnp.isfinite(z)
    _, made = scan(filt, start, z, u, jnp.full(steps, dt, z.dtype), arrived)
    error = jnp.abs(made.x[:, R] - position)
    huber = jnp.where(error < HUBER, 0.5 * error**2, HUBER * (error - 0.5 * HUBER))
    cosine = jnp.abs(jnp.sum(made.x[:, Q] * quaternion, axis=1))
    loss = jnp.mean(huber) + ATTITUDE_WEIGHT * jnp.mean(1.0 - cosine)
    return loss + aux_weight * _reconstruction(filt, made, aux_weight)


def _reconstruction(filt: Any, made: Any, weight: float) -> Scalar | float:
    """The error of the policy's decoder, for a filter that has one and a loss that wants it."""
    if made.trace is None or weight == 0.0:
        return 0.0
    y, c = made.trace
    y_hat = filt.rule.policy.reconstruct(c)
    return jnp.mean(jnp.sum((y - y_hat) ** 2, axis=1))
