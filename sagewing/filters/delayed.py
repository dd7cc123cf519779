"""Records of late sensors: each sample goes to the row of the time at which it was taken."""

from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.protocols import Filter
from sagewing.shapes import Numbers

EXACT = 1e-3  # of a step: so far may a row be from the time of a sample


def in_time(
    filt: Filter,
    z: Numbers,
    u: Numbers | None,
    dt: Numbers,
    mask: Numbers | None,
    R: Numbers | None,
    delay: Numbers,
) -> tuple[Numbers, Numbers | None, Numbers | None]:
    """z, mask and R of a record whose channels are `delay` seconds late, as if they were not.

    A sample from before the first row is left out. Refuses a delay that is no whole number of rows.
    """
    checks.is_filter(filt)
    given = checks.record(filt.n_z, z, u, dt, mask)
    seconds = _seconds(delay, filt.n_z)
    if isinstance(given.dt, jax.core.Tracer):
        raise InputError("delay= needs dt as numbers, which a transformation of JAX does not give.")
    steps = np.asarray(dt, np.float64)
    arrived = np.ones(given.z.shape, bool)
    for flags in (jnp.isfinite(given.z), given.mask):
        if flags is not None and not isinstance(flags, jax.core.Tracer):
            arrived &= np.asarray(flags)
    T = given.z.shape[-2]
    each = np.broadcast_to(steps, (*steps.shape[:-1], T)) if steps.ndim else np.full(T, steps)
    if each.ndim == 2:
        source = np.stack([_source(a, seconds, b) for a, b in zip(each, arrived, strict=True)])
    else:
        source = _source(each, seconds, np.any(arrived.reshape(-1, T, filt.n_z), axis=0))
    source = jnp.broadcast_to(source, given.z.shape)
    there = source >= 0

    def moved(a: Array) -> Array:
        return jnp.take_along_axis(a, jnp.maximum(source, 0), axis=-2)

    z = jnp.where(there, moved(given.z), jnp.nan)
    mask = None if given.mask is None else there & moved(given.mask)
    if R is not None:
        R = _moved_noise(checks.as_real("R", R), source, given.z.shape)
    return z, mask, R


def _moved_noise(
    R: Float[Array, "..."], source: Int[Array, "*batch T n_z"], shape: tuple[int, ...]
) -> Array:
    """The reported noise with the samples; none is shared by channels of different rows."""
    there, rows = source >= 0, jnp.maximum(source, 0)
    if R.shape in (shape, shape[-2:]):
        R = jnp.take_along_axis(jnp.broadcast_to(R, shape), rows, axis=-2)
        return jnp.where(there, R, jnp.nan)
    matrices = (*shape, shape[-1])
    if R.shape not in (matrices, matrices[-3:]):
        return R  # `reported` refuses it
    R = jnp.take_along_axis(jnp.broadcast_to(R, matrices), rows[..., None], axis=-3)
    together = source[..., :, None] == source[..., None, :]
    return jnp.where(there[..., None], jnp.where(together, R, 0.0), jnp.nan)


def _seconds(delay: Numbers, n_z: int) -> Float[np.ndarray, "n_z"]:
    try:
        seconds = np.asarray(delay, np.float64)
    except (TypeError, ValueError):
        seconds = np.full((), np.nan)
    if seconds.shape not in ((), (n_z,)) or not np.all((seconds >= 0.0) & (seconds < np.inf)):
        raise InputError(
            f"delay must be a number of seconds, not negative, or one for each of {n_z} channels; "
            f"got {delay!r}."
        )
    return np.broadcast_to(seconds, (n_z,))


def _source(
    dt: Float[np.ndarray, "T"], delay: Float[np.ndarray, "n_z"], arrived: Any
) -> Int[np.ndarray, "T n_z"]:
    """For every row and channel the row whose sample belongs there; -1: none."""
    t = np.cumsum(dt)
    source = np.full((len(t), len(delay)), -1)
    for channel, late in enumerate(delay):
        if late == 0.0:
            source[:, channel] = np.arange(len(t))
            continue
        taken = t - late
        row = np.searchsorted(t, taken - EXACT * dt)
        known = arrived[:, channel] & (taken > t[0] - EXACT * dt)
        row, came = row[known], np.flatnonzero(known)
        off = np.abs(t[row] - taken[known]) > EXACT * dt[came]
        if np.any(off) or len(set(row)) < len(row):
            k = came[np.argmax(off)]
            raise InputError(
                f"delay = {late:g} s of channel {channel} is no whole number of rows: there is no "
                f"row of its own {late:g} s before row {k}, with dt = {dt[k]:g} s. Give the whole "
                "rows of it, and leave the rest to sw.models.with_delay."
            )
        source[row, channel] = came
    return source
