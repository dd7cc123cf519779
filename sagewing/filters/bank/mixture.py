"""The mean and the covariance of a weighted mixture of estimates, as errors around one of them."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.filters.equations import change_of_errors
from sagewing.filters.kernels import project
from sagewing.filters.lifting import per_sample
from sagewing.models import Model

EachX = Float[Array, "n_x members *batch"]
EachP = Float[Array, "n_dx n_dx members *batch"]
Weights = Float[Array, "members *batch"]


def mixed(
    model: Model,
    x: EachX,
    P: EachP,
    weights: Weights,
    around: Float[Array, "n_x *batch"] | None = None,
) -> tuple[Float[Array, "n_x *batch"], Float[Array, "n_dx n_dx *batch"]]:
    """x = around + sum w_i (x_i - around), and P = sum w_i (P_i + e_i e_i^T) with e_i = x_i - x.

    On a manifold + and - are the model's `plus` and `minus`, and each P_i becomes that of errors
    around x. Without `around`, for vectors, it is sum w_i x_i, and the rest is a rounding error.
    """
    start = jnp.sum(weights * x, axis=1) if around is None else around
    d = _errors(model, x, start)
    mean = jnp.sum(weights * d, axis=1)
    center = over_axes(model.plus, start, mean)
    e = d if around is None else d - mean[:, None]
    if model.on_manifold:
        e = _errors(model, x, center)
        P = _around(model, x, P, center)
    columns = [jnp.sum(weights * (P[:, j] + e * e[j]), axis=1) for j in range(len(e))]
    return center, jnp.stack(columns, axis=1)


def chosen(values: Float[Array, "..."], which: Bool[Array, "members *batch"]) -> Array:
    """The values [..., members, *batch] of the member that is flagged in each record."""
    axis = values.ndim - which.ndim
    return jnp.sum(jnp.where(which, values, jnp.zeros((), values.dtype)), axis=axis)


def interaction(
    model: Model,
    x: EachX,
    P: EachP,
    weights: Weights,
    transitions: Float[Array, "members members"],
) -> tuple[EachX, EachP, Weights]:
    """The mixing of an IMM: the state that each member starts from, and its predicted weight.

    `transitions[i, j]` is the probability that member i's model is followed by member j's.
    """
    steps = transitions.reshape(*transitions.shape, *(1,) * (weights.ndim - 1))
    joint = steps * weights[:, None]
    predicted = jnp.sum(joint, axis=0)
    share = joint / jnp.maximum(predicted, jnp.finfo(x.dtype).tiny)[None]
    # Member j's own state is the center of what comes to it; i is the axis of the mixture
    from_each = jnp.broadcast_to(x[:, :, None], (*x.shape[:2], *x.shape[1:]))
    cov_each = jnp.broadcast_to(P[:, :, :, None], (*P.shape[:3], *P.shape[2:]))
    x, P = mixed(model, from_each, cov_each, share, x)
    return x, P, predicted


def over_axes(fn, *args: Array) -> Array:
    """A model's function of one record on vectors [n, *axes] that have the same axes."""
    axes = args[0].shape[1:]
    flat = [a.reshape(a.shape[0], -1) if axes else a for a in args]
    out = per_sample(fn, *flat)
    return out.reshape(*out.shape[:-1], *axes) if axes else out


def _errors(model: Model, x: EachX, around: Float[Array, "n_x *batch"]) -> Array:
    if not model.on_manifold:
        return x - around[:, None]
    return over_axes(model.minus, x, jnp.broadcast_to(around[:, None], x.shape))


def _around(model: Model, x: EachX, P: EachP, center: Float[Array, "n_x *batch"]) -> EachP:
    """Each P as that of errors around `center`, which differ where `plus` is curved."""
    first, last, _ = model.curved.indices(len(P))
    if first == last:
        return P
    axes = x.shape[1:]
    flat_x, flat_P = x.reshape(len(x), -1), P.reshape(len(P), len(P), -1)
    to = jnp.broadcast_to(center[:, None], x.shape).reshape(flat_x.shape)
    dx = per_sample(model.minus, to, flat_x)
    N = change_of_errors(model, flat_x, dx, to)
    return project(N, flat_P, first).reshape(*P.shape[:2], *axes)
