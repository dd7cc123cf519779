"""What training minimises."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters import scan
from sagewing.shapes import Scalar


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
    if made.trace is None or aux_weight == 0.0:
        return error
    y, c = made.trace
    y_hat = filt.rule.policy.reconstruct(c)
    return error + aux_weight * jnp.mean(jnp.sum((y - y_hat) ** 2, axis=1))
