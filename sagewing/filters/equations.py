"""The equations that all filters share: prediction, innovation, correction, likelihood."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.guards import keep_where, prevent_fusion, valid
from sagewing.filters.kernels import diagonal, diagonal_matrix, project, propagate
from sagewing.filters.lifting import jacobian, per_sample
from sagewing.filters.recovery import Recovery, clock_ok
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Flags,
    InnovationCov,
    Inputs,
    Jacobians,
    Measurements,
    States,
    Steps,
    Values,
    X,
)

LOG_2PI = math.log(2.0 * math.pi)


def predict(
    model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
) -> tuple[States, Covariances, Covariances, Flags]:
    """f(x), F, F P F^T and where they are valid; an invalid prediction keeps the estimate."""
    F = jacobian(model.transition_jacobian, model.transition, x, u, dt)
    x_pred = per_sample(model.transition, x, u, dt)
    F, x_pred = prevent_fusion((F, x_pred))
    FPF = propagate(F, P, model.constants)
    ok = valid(x_pred, diagonal(FPF)) & clock_ok(recovery, dt)
    x_pred, FPF = keep_where(ok, (x_pred, FPF), (x, P))
    return x_pred, F, FPF, ok


def innovation(
    model: Model, x: States, z: Measurements, u: Inputs, arrived: Arrived
) -> Measurements:
    """z - h(x), by the model's difference; zero for a channel that did not arrive."""
    z_hat = per_sample(model.observe, x, u)
    nu = per_sample(model.residual, jnp.where(arrived, z, z_hat), z_hat, u)
    return jnp.where(arrived, nu, 0.0)


def linearize_measurement(
    model: Model, x_pred: States, z: Measurements, u: Inputs, arrived: Arrived
) -> tuple[Measurements, Jacobians]:
    """The innovation and H; a channel that did not arrive has zeros in both."""
    H = jacobian(model.observe_jacobian, model.observe, x_pred, u)
    nu = innovation(model, x_pred, z, u, arrived)
    return prevent_fusion((nu, jnp.where(arrived[:, None], H, 0.0)))


def correct(
    model: Model, x_pred: States, P_pred: Covariances, dx: States, P: Covariances
) -> tuple[States, Covariances, Flags]:
    """x_pred + dx with its P and where they are valid; an invalid correction keeps the prediction.

    P is propagated through `normalize`, too. Otherwise the uncertainty of a quaternion's length
    would stay in P, grow with every Q, and leak into the attitude at the next correction.
    """
    x = per_sample(model.normalize, x_pred + dx)
    first, last, _ = model.normalized.indices(len(x))
    if first < last:
        P = project(_normalize_jacobian(model, x_pred + dx), P, first)
    ok = valid(x, diagonal(P))
    x, P = keep_where(ok, (x, P), (x_pred, P_pred))
    return x, P, ok


def _normalize_jacobian(model: Model, x: States) -> Float[Array, "k k *batch"]:
    """The derivative of `normalize` by the states that it changes."""
    own = model.normalized

    def of_own(part: Array, x: X) -> Array:
        return model.normalize(x.at[own].set(part))[own]

    return jacobian(lambda part, x: None, of_own, x[own], x)


def likelihood(white: Measurements, L: InnovationCov, arrived: Arrived) -> tuple[Values, Values]:
    """The normalised innovation squared and the log-likelihood of the channels that arrived."""
    none = jnp.zeros_like(white[0])
    nis = sum(white**2, none)
    normalizer = jnp.where(arrived, 2.0 * jnp.log(diagonal(L)) + LOG_2PI, 0.0)
    return nis, -0.5 * sum(white**2 + normalizer, none)


def mask_missing_channels(R: InnovationCov, arrived: Arrived) -> InnovationCov:
    """R with the identity in place of the channels that did not arrive."""
    unit = diagonal_matrix(jnp.ones_like(R[0]))
    return jnp.where(arrived[:, None] & arrived[None], R, unit)


def broadcast_to_batch(a: jax.Array, pattern: jax.Array) -> jax.Array:
    """`a` with the batch axis of `pattern`: the same for every record."""
    batch = pattern.shape[1:]
    return jnp.broadcast_to(a.reshape(a.shape + (1,) * len(batch)), a.shape + batch)
