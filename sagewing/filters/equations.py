"""The equations that all filters share: prediction, innovation, correction, likelihood."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.guards import keep_where, prevent_fusion, total, valid
from sagewing.filters.kernels import diagonal, diagonal_matrix, propagate
from sagewing.filters.lifting import PerRecord, closed_form, derivative, per_sample
from sagewing.filters.recovery import Recovery, clock_ok
from sagewing.filters.square_root import Rooted
from sagewing.models import Model
from sagewing.models.model import error_after, measured_after, measured_by
from sagewing.shapes import (
    DX,
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
    Values,
    X,
)

LOG_2PI = math.log(2.0 * math.pi)


def predict(
    model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
) -> tuple[States, Covariances, Covariances, Flags]:
    """f(x), F, F P F^T and where they are valid; an invalid prediction keeps the estimate."""
    x_pred = per_sample(model.transition, x, u, dt)
    F = _transition_jacobian(model, x, x_pred, jnp.zeros_like(P[0]), u, dt)
    F, x_pred = prevent_fusion((F, x_pred))
    FPF = propagate(F, P, model.constants)
    ok = valid(x_pred, diagonal(FPF)) & clock_ok(recovery, dt)
    x_pred, FPF = keep_where(ok, (x_pred, FPF), (x, P))
    return x_pred, F, FPF, ok


def _transition_jacobian(
    model: Model, x: States, x_pred: States, no_error: Errors, u: Inputs, dt: Steps
) -> Covariances:
    """F: in closed form, or the derivative of the prediction's error by that of x."""
    given = closed_form(model.transition_jacobian, x, u, dt)
    if given is not None:
        return given
    if not model.on_manifold:
        return derivative(model.transition, x, u, dt)
    return derivative(partial(error_after, model), no_error, x, x_pred, u, dt)


def innovation(
    model: Model, x: States, z: Measurements, u: Inputs, arrived: Arrived
) -> Measurements:
    """z - h(x), by the model's difference; zero for a channel that did not arrive."""
    z_hat = per_sample(model.observe, x, u)
    nu = per_sample(model.residual, jnp.where(arrived, z, z_hat), z_hat, u)
    return jnp.where(arrived, nu, 0.0)


def linearize_measurement(
    model: Model, x_pred: States, P: Covariances, z: Measurements, u: Inputs, arrived: Arrived
) -> tuple[Measurements, Jacobians]:
    """The innovation and H; a channel that did not arrive has zeros in both."""
    H = observe_jacobian(model, x_pred, jnp.zeros_like(P[0]), u)
    nu = innovation(model, x_pred, z, u, arrived)
    return prevent_fusion((nu, jnp.where(arrived[:, None], H, 0.0)))


def observe_jacobian(model: Model, x: States, no_error: Errors, u: Inputs) -> Jacobians:
    """H: in closed form, or the derivative of the measurement by the error of x."""
    given = closed_form(model.observe_jacobian, x, u)
    if given is not None:
        return given
    z_hat = per_sample(model.observe, x, u)
    if model.on_manifold:
        return derivative(partial(measured_after, model), no_error, x, z_hat, u)
    return derivative(partial(measured_by, model), x, z_hat, u)


def correct(
    model: Model, x_pred: States, P_pred: Covariances, dx: Errors, P: Covariances
) -> tuple[States, Covariances, Flags]:
    """x_pred + dx with its P and where they are valid; an invalid correction keeps the prediction.

    P is that of errors around x_pred, and becomes that of errors around x, which are other
    coordinates where `plus` is curved. For a quaternion that is normalised this removes the
    uncertainty of its length, which would grow with every Q and leak into the attitude.
    """
    x, (P, _), ok = correct_rooted(model, x_pred, Rooted(P_pred), dx, Rooted(P))
    return x, P, ok


def correct_rooted(
    model: Model, x_pred: States, before: Rooted, dx: Errors, after: Rooted
) -> tuple[States, Rooted, Flags]:
    """`correct` for P and its root."""
    x = per_sample(model.plus, x_pred, dx)
    first, last, _ = model.curved.indices(len(dx))
    if first < last:
        after = after.projected(change_of_errors(model, x_pred, dx, x), first)
    ok = valid(x, diagonal(after.P))
    x, after = keep_where(ok, (x, after), (x_pred, before))
    return x, after, ok


def change_of_errors(
    model: Model, x_pred: States, dx: Errors, x: States
) -> Float[Array, "k k *batch"]:
    """The derivative of the error around x = x_pred + dx by that around x_pred, where curved."""
    own = model.curved

    def error(part: Array, x_pred: X, dx: DX, x: X) -> Array:
        return model.minus(model.plus(x_pred, dx.at[own].set(part)), x)[own]

    return derivative(error, dx[own], x_pred, dx, x)


def likelihood(white: Measurements, L: InnovationCov, arrived: Arrived) -> tuple[Values, Values]:
    """The normalised innovation squared and the log-likelihood of the channels that arrived."""
    none = jnp.zeros_like(white[0])
    nis = total(white**2, none)
    normalizer = jnp.where(arrived, 2.0 * jnp.log(diagonal(L)) + LOG_2PI, 0.0)
    return nis, -0.5 * total(white**2 + normalizer, none)


def mask_missing_channels(R: InnovationCov, arrived: Arrived) -> InnovationCov:
    """R with the identity in place of the channels that did not arrive."""
    unit = diagonal_matrix(jnp.ones_like(R[0]))
    return jnp.where(arrived[:, None] & arrived[None], R, unit)


def broadcast_to_batch(a: jax.Array | PerRecord, pattern: jax.Array) -> jax.Array:
    """`a` with the batch axis of `pattern`: the same for every record, if it has none."""
    if isinstance(a, PerRecord):
        return a.value
    batch = pattern.shape[1:]
    return jnp.broadcast_to(a.reshape(a.shape + (1,) * len(batch)), a.shape + batch)
