"""Run a filter over whole records: one compiled program for a record or a batch."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.batches import batch_first, batch_last, each_by_itself, in_pieces
from sagewing.filters.loop import Save, estimate_of, fill_nominal_noise, scan
from sagewing.filters.options import is_traced, xla_options
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.filters.smoother import History, Smoothed, backward
from sagewing.shapes import Covariances, Numbers, States

# The number of record sizes whose programs a filter keeps, the last used ones: each takes 10 MB.
SIZES = 16
# What a run keeps besides the estimates of every step.
Besides = Literal["nothing", "history", "smoothed"]


class Result(NamedTuple):
    """The estimates of a run, batch (if any) and time first; `run_from` continues from `state`.

    `x`, `P` are corrected estimates, `q`, `r` the noise variances after each step, `d` the shares
    [d_q, d_r] by which they were adapted, `nis` the normalised innovation squared, `loglik` the
    log-likelihood of each measurement. `ok` is False at a step whose arithmetic failed or whose
    measurement was not plausible: the filter ignored it, as if nothing had arrived. `restarts`
    counts its returns to the last state known to be good.

    `smoothed` are the estimates by all measurements, after `run(..., smooth=True)`; `history` is
    what `smooth` needs, after `run(..., history=True)`.
    """

    x: Float[Array, "*batch T n_x"]
    P: Float[Array, "*batch T n_dx n_dx"]
    q: Float[Array, "*batch T n_dx"]
    r: Float[Array, "*batch T n_z"]
    d: Float[Array, "*batch T n_d"]
    nis: Float[Array, "*batch T"]
    loglik: Float[Array, "*batch T"]
    ok: Bool[Array, "*batch T"]
    restarts: Float[Array, "*batch T"]
    state: Any
    smoothed: Smoothed | None = None
    history: History | None = None


class Start(NamedTuple):
    """Where a filter starts, before its `init`; batch (if any) last."""

    x: States
    P: Covariances


class Saved(NamedTuple):
    """The saved values of every step, batch (if any) and time first, and the final state."""

    values: Any
    state: Any


def run(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    besides: Besides = "nothing",
) -> Result:
    """`sw.run` in JAX: one compiled program, for one record or a batch; see `runtime/run.py`."""
    return _result(*_run(filt, *_start(filt, x0, P0, z, u, dt, mask), None, None, besides))


def run_saving(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    *,
    save: Save,
    extra: Any = None,
) -> Saved:
    """`sw.run` in JAX with `save`: what it returns for each step is kept instead of a `Result`."""
    state, values = _run(filt, *_start(filt, x0, P0, z, u, dt, mask), save, extra)
    return Saved(values, state)


def run_from(
    filt: Filter,
    state: Any,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
) -> Result:
    """Continue from `result.state`: a record run in pieces gives the same numbers as in one run."""
    checks.is_filter(filt)
    record = checks.record(filt.n_z, z, u, dt, mask)
    checks.state_fits(filt, state, record.batch)
    return _result(*_run(filt, state, record, None, None))


def _start(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None,
    dt: Numbers,
    mask: Numbers | None,
) -> tuple[Any, checks.Record]:
    """The filter's first state, and the checked record."""
    checks.is_filter(filt)
    record = checks.record(filt.n_z, z, u, dt, mask)
    return Start(*checks.start(filt, x0, P0, record.batch)), record


def _result(state: Any, values: Any) -> Result:
    estimates, besides = values
    return Result(**estimates._asdict(), state=state, **besides)


def smooth(filt: Filter, result: Result) -> Smoothed:
    """The estimates by all measurements of a record, of a result that kept its history.

    It is what `run(..., smooth=True)` returns as `result.smoothed`.

    Example: `sw.smooth(filt, sw.run(filt, x0, P0, z, history=True)).x`
    """
    checks.is_filter(filt)
    if not isinstance(result, Result) or result.history is None:
        raise InputError(
            "smooth needs the history of a run: sw.smooth(filt, sw.run(filt, ..., history=True))."
        )
    if result.x.shape[-1] != filt.n_x or result.P.shape[-1] != filt.q0.size:
        raise InputError(
            f"smooth needs the filter of the run: result.x has shape {result.x.shape}, and the "
            f"filter {filt.n_x} states."
        )
    return _smooth(filt, (result.x, result.P, result.restarts, result.history))


@eqx.filter_jit
def _smooth(filt: Filter, values: Any) -> Smoothed:
    batched = values[0].ndim == 3
    if batched:
        values = batch_last(values)
    out = _smoothed(filt, *values)
    return batch_first(out) if batched else out


def _smoothed(filt: Filter, x: jax.Array, P: jax.Array, restarts: jax.Array, kept: Any) -> Smoothed:
    """The smoothed estimates, time first and batch (if any) last."""

    def of_all(*values: Any) -> Smoothed:
        return backward(filt.model, *values)[1]

    each = x.ndim == 3 and each_by_itself(filt, "run")
    smoothed = jax.vmap(of_all, in_axes=-1, out_axes=-1) if each else of_all
    return smoothed(x, P, restarts, kept)


def _run(
    filt: Filter,
    state: Any,
    record: checks.Record,
    save: Save | None,
    extra: Any,
    besides: Besides = "nothing",
) -> tuple[Any, Any]:
    """The final state, and the saved values of every step.

    Without `save` they are its `Estimate`, and the other fields of a `Result`.
    """
    extra = jax.tree.map(jnp.asarray, extra)
    for a in jax.tree.leaves(extra):
        if a.shape[: len(record.batch) + 1] != record.z.shape[:-1]:
            raise InputError(
                f"extra must have one entry for each step of z, shape {record.z.shape[:-1]} first; "
                f"got {a.shape}."
            )
    options = None if is_traced((filt, state, record, extra)) else xla_options()
    try:
        return _program(filt, record, save, extra, besides, options)(state, record, extra)
    except InputError as error:  # without JAX's notes on tracing
        raise InputError(str(error)) from None


def _program(
    filt: Filter,
    record: checks.Record,
    save: Save | None,
    extra: Any,
    besides: Besides = "nothing",
    options: Any = None,
) -> Callable[..., tuple[Any, Any]]:
    """The compiled program for a record of this size."""
    arrays, rest = separated(filt)
    shapes = tuple(None if a is None else a.shape for a in record)
    shapes += tuple(a.shape for a in jax.tree.leaves(extra))
    try:
        program = _programs(rest, save, besides)(shapes, options)
    except (TypeError, ValueError):  # a field that cannot be hashed: compile at every call
        program = _programs.__wrapped__(rest, save, besides)(shapes, options)
    return partial(program, arrays)


@lru_cache(maxsize=64)
def _programs(
    rest: Rest, save: Save | None, besides: Besides
) -> Callable[[Any, Any], Callable[..., tuple[Any, Any]]]:
    """The programs, by record size, of all filters that differ only in their arrays' values."""

    @lru_cache(maxsize=SIZES)
    def of_size(shapes: Any, options: Any) -> Callable[..., tuple[Any, Any]]:
        @partial(jax.jit, compiler_options=None if options is None else dict(options))
        def compiled(arrays: Any, state: Any, record: checks.Record, extra: Any) -> tuple[Any, Any]:
            return _run_record(together(arrays, rest), state, record, save, extra, besides)

        return compiled

    return of_size


def _run_record(
    filt: Filter,
    state: Any,
    record: checks.Record,
    save: Save | None,
    extra: Any,
    besides: Besides,
) -> tuple[Any, Any]:
    z, u, dt, mask = record
    *batch, T, _ = z.shape
    arrived = jnp.isfinite(z) if mask is None else jnp.isfinite(z) & mask
    z = jnp.where(arrived, z, 0.0)
    if u is not None:
        u = jnp.broadcast_to(u, (*batch, T, u.shape[-1]))
    one_u = None if u is None else jax.ShapeDtypeStruct(u.shape[-1:], u.dtype)
    checks.model_shapes(filt, one_u, jax.ShapeDtypeStruct((), dt.dtype))
    if isinstance(state, Start):
        state = filt.init(*state)
    several = dt.ndim == 2
    one_dt = None if several else jnp.broadcast_to(dt, (T,))

    def of_piece(state: Any, given: Any) -> tuple[Any, Any]:
        z, u, arrived, extra, dts = given
        return _scan(filt, state, z, u, dts if several else one_dt, arrived, extra, save, besides)

    given = (z, u, arrived, extra, dt if several else None)
    return in_pieces(filt, of_piece, state, given) if batch else of_piece(state, given)


def _scan(
    filt: Filter,
    state: Any,
    z: Any,
    u: Any,
    dt: Any,
    arrived: Any,
    extra: Any,
    save: Save | None,
    besides: Besides,
) -> tuple[Any, Any]:
    """The steps of a record or a batch."""
    *batch, T, _ = z.shape
    if batch:  # from here on it is the last axis
        z, u, arrived, extra = batch_last((z, u, arrived, extra))
        dt = dt.T if dt.ndim == 2 else dt
    history = besides != "nothing"
    selected = save or estimate_of
    state, values = scan(
        filt, state, z, u, dt, arrived, selected, extra, history=history, use="run"
    )
    others = {}
    if history:
        values, kept = values
        others = {"history": kept}
        if besides == "smoothed":
            others = {"smoothed": _smoothed(filt, values.x, values.P, values.restarts, kept)}
    if batch:
        values, others = batch_first((values, others))
    if save is not None:
        return state, values
    return state, (fill_nominal_noise(filt, values, (*batch, T)), others)
