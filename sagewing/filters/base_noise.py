"""The noise that a step's adaptation starts from: Q0 and R0, the mode's, or the model's own.

Where the base changes between two steps the adapted noise changes by the same factor, so that a
filter adapts the factor between what a model or a sensor says and what is true.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters.correlations import Correlations, correlations, off_diagonal
from sagewing.filters.equations import broadcast_to_batch, mask_missing_channels
from sagewing.filters.kernels import diagonal, diagonal_matrix
from sagewing.filters.lifting import PerRecord, per_sample
from sagewing.filters.step import RememberedNoise, StepInfo
from sagewing.shapes import (
    Arrived,
    Covariances,
    Errors,
    Flags,
    InnovationCov,
    Inputs,
    Measurements,
    States,
    Steps,
    Values,
)

if TYPE_CHECKING:
    from sagewing.filters.filter_state import FilterState
    from sagewing.filters.recursion import AdaptiveFilter


class Base(NamedTuple):
    """The base variances of a step; None where they are those of the filter."""

    q: Errors | None = None
    r: Measurements | None = None

    def after_step(self, q0: Errors, r0: Measurements) -> "Base":
        """The base of a step, where it can change."""
        return Base(None if self.q is None else q0, None if self.r is None else r0)

    def changing(
        self, adapted: RememberedNoise, q: Errors, r: Measurements, mode: "Mode"
    ) -> tuple[Errors | None, Measurements | None]:
        """q and r for the estimate; None where they are Q0 and R0 at every step."""
        return (
            adapted.q if self.q is None else q,
            adapted.r if self.r is None and mode.now is None else r,
        )


class Mode(NamedTuple):
    """The present mode, whether it differs from the one before, and whether it adapts the noise.

    The first two are None for a model with one mode, the last if every mode adapts the noise.
    """

    now: Values | None = None
    changed: Flags | None = None
    adapts: Flags | None = None


def begin(filt: "AdaptiveFilter", q: Errors, r: Measurements) -> Base:
    """The base before the first step; it is remembered only where it can change."""
    process, measurement = filt.model.own_noise
    return Base(q if process else None, r if measurement else None)


def begin_correlations(filt: "AdaptiveFilter", q: Errors, r: Measurements) -> Correlations | None:
    """The correlations of Q0 and R0, where they are adapted."""
    if not filt.dense:
        return None
    Q_off, R_off = (
        None if off is None else broadcast_to_batch(off, variances)
        for off, variances in ((filt.Q_off, q), (filt.R_off, r))
    )
    C_q = None if filt.dense == "R" else correlations(q, Q_off)
    return Correlations(C_q, correlations(r, R_off))


class ProcessNoise(NamedTuple):
    """q of a step, its base, the off-diagonals that belong to the base if any, and the mode."""

    q: Errors
    q0: Errors
    off: Covariances | None
    mode: Mode


def process_noise(
    filt: "AdaptiveFilter", state: "FilterState", u: Inputs, dt: Steps
) -> ProcessNoise:
    """The process noise of this step."""
    x, q = state.x, state.q
    q0 = broadcast_to_batch(filt.q0, q)
    off = None if filt.Q_off is None else broadcast_to_batch(filt.Q_off, q)
    given = per_sample(filt.model.process_noise, x, u, dt) if filt.model.own_noise[0] else None
    if given is not None:
        if given.ndim == x.ndim + 1:
            if filt.dense is True:
                raise InputError(
                    "dense=True adapts the correlations of Q, but "
                    f"{type(filt.model).__name__}.process_noise returns a matrix with its own: "
                    'return variances there, or adapt those of R alone with dense="R".'
                )
            given, off = diagonal(given), given - diagonal_matrix(diagonal(given))
        q0 = jnp.where(given >= 0.0, given, q0)
        assert state.base.q is not None
        q = _rescaled(q, q0, state.base.q)
    mode = _mode(filt, state, u)
    if state.correlations is not None and state.correlations.q is not None:
        adapted = off_diagonal(q0, state.correlations.q)
        base = jnp.zeros_like(adapted) if off is None else off
        off = adapted if mode.adapts is None else jnp.where(mode.adapts, adapted, base)
    q = q if mode.adapts is None else jnp.where(mode.adapts, q, q0)
    return ProcessNoise(q, q0, off, mode)


def measurement_noise(
    filt: "AdaptiveFilter", state: "FilterState", x: States, u: Inputs, mode: Mode
) -> tuple[Measurements, Measurements, Correlations | None]:
    """r of this step, its base, and the correlations if they are adapted.

    A change of mode resets r to its base, and the correlations of R to none.
    """
    r, C = state.r, state.correlations
    r0 = broadcast_to_batch(filt.r0, r) if mode.now is None else _of_mode(filt.r0, mode.now)
    given = per_sample(filt.model.measurement_noise, x, u) if filt.model.own_noise[1] else None
    if given is not None:
        r0 = jnp.where(given > 0.0, given, r0)
        assert state.base.r is not None
        r = _rescaled(r, r0, state.base.r)
    if mode.changed is None:
        return r, r0, C
    if C is not None:
        C = C._replace(r=jnp.where(mode.changed, 0.0, C.r))
    return jnp.where(mode.changed, r0, r), r0, C


def remembered(
    adapted: RememberedNoise, info: StepInfo, q_before: Errors, mode: Mode
) -> tuple[Errors, Measurements, Correlations | None]:
    """The noise after a step; a mode that does not adapt keeps the q before it."""
    q, r = adapted.instead_of(info.q, info.r)
    q = q if mode.adapts is None else jnp.where(mode.adapts, q, q_before)
    C = info.correlations if adapted.correlations is None else adapted.correlations
    return q, r, C


def R_of(
    filt: "AdaptiveFilter",
    r: Measurements,
    r0: Measurements,
    C: Correlations | None,
    arrived: Arrived,
) -> InnovationCov:
    """R with the variances r, adapted from r0, and the correlations C, or without C those of R0."""
    if C is not None:
        off = off_diagonal(r0, C.r)
    else:
        off = None if filt.R_off is None else broadcast_to_batch(filt.R_off, r)
    return mask_missing_channels(covariance(r, off, r0), arrived)


def _of_mode(r0: jax.Array | PerRecord, mode: Values) -> Measurements:
    """The row of r0 that belongs to the mode."""
    if not isinstance(r0, PerRecord):
        return jnp.moveaxis(r0[mode.astype(int)], -1, 0)
    row = r0.value[0]
    for m in range(1, len(r0.value)):
        row = jnp.where(mode == m, r0.value[m], row)
    return row


def _rescaled(variances: jax.Array, now: jax.Array, before: jax.Array) -> jax.Array:
    """Variances that were adapted from the base `before`, for the base `now`."""
    known = before > 0.0
    return jnp.where(known, variances * (now / jnp.where(known, before, 1.0)), now)


def _mode(filt: "AdaptiveFilter", state: "FilterState", u: Inputs) -> Mode:
    if state.mode is None:
        return Mode()
    now = per_sample(filt.model.mode, u).astype(state.mode.dtype)
    if filt.adapts_in is None:
        return Mode(now, now != state.mode)
    adapts = sum((now == m for m in filt.adapts_in), jnp.zeros_like(now, bool))
    return Mode(now, now != state.mode, adapts)


def covariance(variances: jax.Array, off: InnovationCov | None, base: jax.Array) -> InnovationCov:
    """The matrix with these variances and the correlations of the base, whose rest is `off`."""
    if off is None:
        return diagonal_matrix(variances)
    known = base > 0.0
    scale = jnp.where(known, jnp.sqrt(variances / jnp.where(known, base, 1.0)), 1.0)
    return diagonal_matrix(variances) + off * (scale[:, None] * scale[None])
