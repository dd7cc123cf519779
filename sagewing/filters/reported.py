"""Filters that are given the noise that a sensor reports of its own samples."""

from dataclasses import replace
from typing import Any

import jax.core
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.models.reported import Reported
from sagewing.shapes import Numbers


def with_reported_noise(filt: Filter) -> AdaptiveFilter:
    """The filter whose inputs u end with the variances of z that came with the sample.

    What is NaN or not positive there is R0. A filter that adapts R then adapts the factor between
    what was reported and what is true. `sw.run(filt, ..., R=...)` does this by itself; `sw.Online`
    and exported C take this filter.

    Example: `online = sw.Online(sw.with_reported_noise(filt), x0, P0)`, and then
    `online.step(z, u=[*u, *variances])`
    """
    if not isinstance(filt, AdaptiveFilter):
        raise InputError(
            f"R, the noise of each sample, is for EKF, SageHusa and NDRSageHusa; "
            f"{type(filt).__name__} has an R of its own."
        )
    return replace(filt, model=Reported(filt.model, filt.n_z))


def reported_inputs(z: Numbers, u: Numbers | None, R: Numbers) -> Any:
    """u for such a filter: the inputs, and the reported variances [T, n_z] or [B, T, n_z]."""
    shape = checks.as_real("z", z).shape
    variances = checks.as_real("R", R)
    if variances.shape not in (shape, shape[1:]):
        raise InputError(
            f"R must have a variance for each entry of z, shape {shape}; got {variances.shape}."
        )
    if not isinstance(variances, jax.core.Tracer):
        wrong = variances[(variances <= 0.0) | jnp.isinf(variances)]
        if wrong.size:
            raise InputError(
                "R must be positive and finite, or NaN where no noise was reported and R0 is used; "
                f"it has {wrong.size} other entries, such as {wrong[0]:.3g}."
            )
    if u is None:
        return variances
    inputs = checks.as_real("u", u)
    batch = max(variances.shape[:-1], inputs.shape[:-1], key=len)
    parts = (jnp.broadcast_to(a, (*batch, a.shape[-1])) for a in (inputs, variances))
    return jnp.concatenate(list(parts), axis=-1)
