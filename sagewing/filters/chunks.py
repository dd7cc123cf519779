"""Long records in chunks: only what is asked for stays in memory, filtered and smoothed."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.loop import Save, scan
from sagewing.filters.protocols import Filter
from sagewing.filters.smoother import Adjoint, History, SaveSmoothed, Smoothed, all_of, backward
from sagewing.filters.step import Step
from sagewing.filters.thinning import ThinnedStep, Thinning, begin, packed, scan_thinned, unpacked
from sagewing.shapes import Numbers, real_dtype

# Steps in one call of the compiled program: a call costs little, and its results fit in memory.
STEPS = 8192


class LongSmoothing(NamedTuple):
    """The saved values of the chosen steps: filtered, and smoothed by the whole record."""

    steps: Int[np.ndarray, "kept"]
    filtered: Any
    smoothed: Any


def in_chunks(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None,
    dt: Numbers,
    save: Save,
    *,
    steps: int,
) -> Iterator[tuple[slice, Any, Any]]:
    """Run a long record in chunks of `steps`: yields the rows, the saved values and the state.

    Only one chunk is in memory. Steps without a measurement only predict (see `scan`).
    """
    record = _host(z, u, dt)
    state = filt.init(*checks.start(filt, x0, P0, ()))
    for rows in _slices(len(record[0]), steps):
        state, values = _filtered(filt, state, _padded(record, rows, steps), save)
        yield rows, _first(rows.stop - rows.start, values), state


def estimate_only(step: Step, extra: Any) -> Smoothed:
    """x and P of a step."""
    return Smoothed(step.x, step.P)


def smooth_long(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    *,
    keep: Numbers | None = None,
    save: Save = estimate_only,
    save_smoothed: SaveSmoothed = all_of,
    steps: int = STEPS,
    report: Callable[[float], None] = lambda share: None,
) -> LongSmoothing:
    """Smooth one long record z [T, n_z] in chunks of `steps`, and keep some of its steps.

    `keep` has a flag for each step, by default all are kept; every measurement counts, also those
    of other steps. `save(step, extra)` says what is kept of a filtered step, and
    `save_smoothed(smoothed, extra)` of a smoothed one, with None as `extra`; by default x and P.
    Steps without a measurement only predict: an adaptive filter's rule counts measurements. Until
    the end of the record A, P and the Hessian of each kept step are in memory. `report` is called
    with the share done.

    Example: `sw.smooth_long(filt, x0, P0, z, dt=0.001, keep=np.arange(len(z)) % 10 == 0)`
    """
    checks.is_filter(filt)
    checked = checks.record(filt.n_z, z, u, dt, None)
    if checked.batch:
        raise InputError(f"smooth_long takes one record (T, {filt.n_z}); got {checked.z.shape}.")
    record = _host(checked.z, checked.u, checked.dt)
    T = len(record[0])
    kept = np.ones(T, bool) if keep is None else np.asarray(keep)
    if kept.shape != (T,) or kept.dtype != bool:
        raise InputError(
            f"keep must have a flag for each step, shape ({T},); got {kept.dtype} {kept.shape}."
        )
    if not kept.any():
        raise InputError("keep has no step: give True for the steps that you want.")
    slices = list(_slices(T, steps))
    most = max(int(kept[rows].sum()) for rows in slices)
    state = filt.init(*checks.start(filt, x0, P0, ()))
    thinning = begin(state.P)
    filtered, needed = [], []
    for rows in slices:
        part = np.flatnonzero(kept[rows])
        flags = np.pad(kept[rows], (0, steps - (rows.stop - rows.start)))
        chosen, own = np.pad(part, (0, most - len(part))), np.arange(most) < len(part)
        given = (_padded(record, rows, steps), flags, chosen, own)
        state, thinning, values, needs = _thinned(filt, state, thinning, given, save)
        filtered.append(_first(len(part), values))
        needed.append((len(part), jax.tree.map(np.asarray, needs)))
        report(0.9 * rows.stop / T)
    last = thinning.history
    later = Adjoint(last.gradient, last.hessian, jnp.zeros_like(last.gradient[0]))
    smoothed = []
    while needed:  # memory is given back on the way
        count, needs = needed.pop()
        later, values = _smoothed(filt, later, needs, save_smoothed)
        smoothed.append(_first(count, values))
    report(1.0)
    return LongSmoothing(np.flatnonzero(kept), _joined(filtered), _joined(smoothed[::-1]))


Rows = tuple[np.ndarray, np.ndarray | None, np.ndarray]


def _host(z: Numbers, u: Numbers | None, dt: Numbers) -> Rows:
    """The record in numpy, with a dt for each step."""
    real = real_dtype()
    z = np.asarray(z, real)
    return (
        z,
        None if u is None else np.asarray(u, real),
        np.broadcast_to(np.asarray(dt, real), len(z)),
    )


def _slices(T: int, steps: int) -> Iterator[slice]:
    return (slice(first, min(first + steps, T)) for first in range(0, T, steps))


def _padded(record: Rows, rows: slice, steps: int) -> Rows:
    """A chunk; steps without time or measurement complete the last one."""
    z, u, dt = record
    fill = steps - (rows.stop - rows.start)
    part_z = np.pad(z[rows], ((0, fill), (0, 0)), constant_values=np.nan)
    part_u = None if u is None else np.pad(u[rows], ((0, fill), (0, 0)))
    return part_z, part_u, np.pad(dt[rows], (0, fill))


def _first(count: int, values: Any) -> Any:
    return jax.tree.map(lambda a: np.asarray(a)[:count], values)


def _joined(parts: list[Any]) -> Any:
    return jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)


@eqx.filter_jit
def _filtered(filt: Filter, state: Any, rows: Any, save: Save) -> tuple[Any, Any]:
    z, u, dt = rows
    arrived = jnp.isfinite(z)
    return scan(filt, state, jnp.where(arrived, z, 0.0), u, dt, arrived, save, predict_between=True)


@eqx.filter_jit
def _thinned(
    filt: Filter, state: Any, thinning: Thinning, given: Any, save: Save
) -> tuple[Any, Thinning, Any, ThinnedStep]:
    """A chunk forward: what is saved and needed of the chosen steps."""
    (z, u, dt), keep, chosen, own = given
    arrived = jnp.isfinite(z)
    z = jnp.where(arrived, z, 0.0)
    end, values = scan_thinned(filt, (state, thinning), (z, u, dt, arrived), keep, save)
    saved, kept = jax.tree.map(lambda a: a[chosen], values)
    # What is not its own completes the chunk, and changes nothing on the way back
    A, gradient, hessian = kept.history
    A = jnp.where(own[:, None, None], A, jnp.eye(A.shape[-1], dtype=A.dtype))
    gradient = jnp.where(own[:, None], gradient, 0.0)
    hessian = jnp.where(own[:, None, None], hessian, 0.0)
    return *end, saved, packed(kept._replace(history=History(A, gradient, hessian)))


@eqx.filter_jit
def _smoothed(
    filt: Filter, later: Adjoint, kept: ThinnedStep, save: SaveSmoothed
) -> tuple[Adjoint, Any]:
    """A chunk backward: the adjoint before it, and what is saved of its smoothed steps."""
    kept = unpacked(kept)
    restarts = jnp.zeros(len(kept.x), kept.x.dtype)  # they are in the history
    return backward(filt.model, kept.x, kept.P, restarts, kept.history, later, save)
