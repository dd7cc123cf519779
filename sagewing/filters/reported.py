"""Filters that are given the noise that a sensor reports of its own samples."""

from dataclasses import replace
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.models.reported import Reported
from sagewing.shapes import Numbers


def with_reported_noise(filt: Filter, matrices: bool = False) -> AdaptiveFilter:
    """The filter whose inputs u end with the variances of z that came with the sample.

    What is not a positive number there is R0. With `matrices` it is the n_z n_z entries of a
    covariance. A filter that adapts R then adapts the factor between what was reported and what is
    true. `sw.run(filt, ..., R=...)` does this by itself; `sw.Online` and exported C take this
    filter, and so does a `sw.Bank` as a member.

    Example: `online = sw.Online(sw.with_reported_noise(filt), x0, P0)`, and then
    `online.step(z, u=[*u, *variances])`
    """
    if not isinstance(filt, AdaptiveFilter):
        raise InputError(
            "R, the noise of each sample, is for EKF, RobustEKF, SageHusa and NDRSageHusa, also as "
            "members of a Bank (sw.with_reported_noise); "
            f"{type(filt).__name__} has an R of its own."
        )
    return replace(filt, model=Reported(filt.model, filt.n_z, matrices))


def reported(z: Numbers, R: Numbers) -> tuple[Float[Array, "*batch T entries"], bool]:
    """The reported noise as checked inputs of each sample, and whether they are matrices.

    R are variances [T, n_z] or [B, T, n_z], or covariances [.., n_z, n_z].
    """
    shape = checks.as_real("z", z).shape
    given = checks.as_real("R", R)
    of_record = shape[-2:]
    if given.shape in (shape, of_record):
        _check_positive(given)
        return given, False
    if given.shape not in ((*shape, shape[-1]), (*of_record, shape[-1])):
        raise InputError(
            f"R must have a variance for each entry of z, shape {shape}, or a covariance for each "
            f"sample, shape {(*shape, shape[-1])}; got {given.shape}."
        )
    _check_positive(jnp.diagonal(given, axis1=-2, axis2=-1))
    _check_definite(given)
    return given.reshape(*given.shape[:-2], -1), True


def reported_inputs(u: Numbers | None, noise: Float[Array, "*batch T entries"]) -> Any:
    """u for a filter with reported noise: the inputs, and the noise."""
    if u is None:
        return noise
    inputs = checks.as_real("u", u)
    batch = max(noise.shape[:-1], inputs.shape[:-1], key=len)
    parts = (jnp.broadcast_to(a, (*batch, a.shape[-1])) for a in (inputs, noise))
    return jnp.concatenate(list(parts), axis=-1)


def _check_positive(variances: jax.Array) -> None:
    """Refuse what is no variance, and no NaN."""
    if isinstance(variances, jax.core.Tracer):
        return
    wrong = variances[(variances <= 0.0) | jnp.isinf(variances)]
    if wrong.size:
        raise InputError(
            "R must be positive and finite, or NaN where no noise was reported and R0 is used; "
            f"it has {wrong.size} other variances, such as {wrong[0]:.3g}."
        )


def _check_definite(R: jax.Array) -> None:
    """Refuse matrices that are no covariances, where they are known."""
    if isinstance(R, jax.core.Tracer):
        return
    matrices = np.asarray(R, np.float64).reshape(-1, *R.shape[-2:])
    matrices = matrices[np.isfinite(matrices).all(axis=(1, 2))]
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    correlations = matrices / (deviations[:, :, None] * deviations[:, None])
    skew = np.abs(correlations - np.swapaxes(correlations, 1, 2)).max(initial=0.0)
    if skew > 1e-5 or np.linalg.eigvalsh(correlations).min(initial=1.0) <= 0.0:
        raise InputError(
            "R must be positive definite and symmetric for each sample, or have NaN on the "
            "diagonal where no noise was reported."
        )
