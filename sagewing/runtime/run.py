"""Whole records on JAX or on C: `sw.run` and `sw.run_from`."""

import contextlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, overload

import jax
import numpy as np
from jax.core import Tracer

from sagewing.codegen.refusal import NotInC
from sagewing.errors import InputError
from sagewing.filters import Bank, checks, sizes
from sagewing.filters.delayed import in_time
from sagewing.filters.loop import Save
from sagewing.filters.options import is_traced
from sagewing.filters.protocols import Filter
from sagewing.filters.reported import reported_inputs, with_reported_noise
from sagewing.filters.run import Result, Saved
from sagewing.filters.run import run as run_in_jax
from sagewing.filters.run import run_from as run_from_in_jax
from sagewing.filters.run import run_saving as run_saving_in_jax
from sagewing.runtime.compiled import CompiledFilter, compiled_filter
from sagewing.shapes import Numbers, real_dtype

RunBackend = Literal["jax", "c", "auto"]
# The records are cut into so many pieces for each core, so that a busy core can do fewer of them
PIECES_PER_CORE = 8
# From so many records on several are run at once, one in each lane of a vector
LEAST_FOR_LANES = 4


@overload
def run(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    backend: RunBackend = "jax",
    *,
    R: Numbers | None = None,
    delay: Numbers | None = None,
    save: None = None,
    extra: Any = None,
    smooth: bool = False,
    history: bool = False,
) -> Result: ...


@overload
def run(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    backend: RunBackend = "jax",
    *,
    R: Numbers | None = None,
    delay: Numbers | None = None,
    save: Save,
    extra: Any = None,
) -> Saved: ...


def run(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    backend: RunBackend = "jax",
    *,
    R: Numbers | None = None,
    delay: Numbers | None = None,
    save: Save | None = None,
    extra: Any = None,
    smooth: bool = False,
    history: bool = False,
) -> Result | Saved:
    """Filter one record z [T, n_z], or a batch of them [B, T, n_z].

    `x0`, `P0`, `u` and `dt` may be shared by the batch or have one entry for each record. A channel
    is absent where `mask` is False or z is not finite; a step without any is a prediction.

    `backend="jax"` is one compiled program, which can be differentiated. `backend="c"` is generated
    C on all cores: for long records and many of them. It is compiled for the numbers of this
    filter, once for single records and once for four or more, which are run several at once, and
    gives numpy arrays. "auto" is C for a filter of few states and so many steps that compiling it
    pays, where C can do what is asked for, and else JAX.

    `R` are the variances that the sensor itself reported, of the shape of z; a NaN is R0. A filter
    that adapts R adapts the factor between them and the truth.

    `delay` says how many seconds late z is, as a number or one for each channel: each sample goes
    to the row of the time at which it was taken. It must be a whole number of rows; the rest is
    for `sw.models.with_delay`. Samples from before the first row are left out.

    With `save` (in JAX) a function of your own says what is kept of a step: `save(step, extra)`
    gets the `Step`, with all that it computed, and the step's part of the arrays in `extra`
    ([T, ...] or [B, T, ...], such as a truth). A batch is the last axis of what it gets and
    returns. A function is compiled once: give the same one again, and no new lambda at each call.

    With `smooth` the result has `smoothed`, the estimates by all measurements of the record, by
    the noise that the filter used. `history` keeps what `sw.smooth` needs to compute them later.

    Example: `sw.run(filt, x0, P0, z, dt=0.01).x`
    """
    if delay is not None:
        z, mask, R = in_time(filt, z, u, dt, mask, R, delay)
    if R is not None:
        filt, u = with_reported_noise(filt), reported_inputs(z, u, R)
    if save is not None and (smooth or history):
        raise InputError("save= keeps what it returns: give it without smooth= and history=.")
    if _checked(backend) == "auto":
        plain = save is None and extra is None and not (smooth or history)
        made = _in_c_if_faster(filt, x0, P0, z, u, dt, mask) if plain else None
        if made is not None:
            return made
    if backend != "c":
        if save is None and extra is not None:
            raise InputError("extra= is given to save=: give both, or none.")
        if save is None:
            besides = "smoothed" if smooth else "history" if history else "nothing"
            return run_in_jax(filt, x0, P0, z, u, dt, mask, besides)
        return run_saving_in_jax(filt, x0, P0, z, u, dt, mask, save=save, extra=extra)
    if save is not None:
        raise InputError('save= needs backend="jax": generated C keeps what `Result` has.')
    if smooth or history:
        raise InputError('smooth= and history= need backend="jax".')
    checks.is_filter(filt)
    record = checks.record(filt.n_z, z, u, dt, mask)
    state = filt.init(*checks.start(filt, x0, P0, record.batch))
    return _in_c(filt, state, record)


def _in_c_if_faster(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None,
    dt: Numbers,
    mask: Numbers | None,
) -> Result | None:
    """The run in C, where that is faster and possible."""
    checks.is_filter(filt)
    record = checks.record(filt.n_z, z, u, dt, mask)
    small = filt.q0.size <= sizes.STATES_IN_C
    if not small or record.z[..., 0].size < sizes.STEPS_IN_C or is_traced((filt, x0, P0, record)):
        return None
    state = filt.init(*checks.start(filt, x0, P0, record.batch))
    with contextlib.suppress(InputError):  # what JAX cannot do either it says itself
        return _in_c(filt, state, record)
    return None


def run_from(
    filt: Filter,
    state: Any,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
    backend: RunBackend = "jax",
) -> Result:
    """Continue from `result.state`: a record in pieces gives the estimates of the whole record."""
    if _checked(backend) != "c":
        return run_from_in_jax(filt, state, z, u, dt, mask)
    record = checks.record(filt.n_z, z, u, dt, mask)
    checks.state_fits(filt, state, record.batch)
    return _in_c(filt, state, record)


def _checked(backend: str) -> str:
    if backend not in ("jax", "c", "auto"):
        raise InputError(f'backend must be "jax", "c" or "auto"; got {backend!r}.')
    return backend


def _in_c(filt: Filter, state: Any, record: checks.Record) -> Result:
    """Compiled for one record, or for many of them."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((filt, state, record))):
        raise InputError('backend="c" knows no transformation of JAX; use backend="jax" there.')
    n_u = 0 if record.u is None else record.u.shape[-1]
    try:
        made = _compiled(filt, n_u, math.prod(record.batch) >= LEAST_FOR_LANES)
    except NotInC as error:
        raise InputError(str(error)) from None
    return run_compiled(made, state, record)


def _compiled(filt: Filter, n_u: int, lanes: bool) -> CompiledFilter:
    """The compiled filter; with `lanes` for many records, if the compiler has GNU C's vectors.

    The members of a bank are many already.
    """
    if lanes and not isinstance(filt, Bank):
        with contextlib.suppress(NotInC):
            return compiled_filter(filt, n_u, real_dtype(), lanes=True)
    return compiled_filter(filt, n_u, real_dtype())


def run_compiled(made: CompiledFilter, state: Any, record: checks.Record) -> Result:
    """Run the records on all cores, in threads: C runs without Python's global lock."""
    z, dt = (np.asarray(a, order="C") for a in (record.z, record.dt))
    if record.mask is not None:
        z = np.where(record.mask, z, z.dtype.type(np.nan))
    u = np.zeros(1, z.dtype) if record.u is None else np.asarray(record.u, order="C")
    *batch, T, _ = z.shape
    B, n_u, ffi = int(np.prod(batch)), made.n_u, made.ffi

    states = ffi.new("sw_state[]", B)
    fields = list(made.views(states, "sw_state", made.layout.state).values())
    given = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    # What all records share, such as an oracle's count of steps, has no batch axis
    batched = [bool(batch) and a.ndim == v.ndim for a, v in zip(given, fields, strict=True)]
    for view, leaf, each in zip(fields, given, batched, strict=True):
        view[...] = np.moveaxis(leaf, -1, 0) if each else leaf
    # At least one, because an array over members needs a first struct
    estimates = np.empty(max(B * T, 1) * ffi.sizeof("sw_estimate"), np.uint8)

    arguments = ffi.new("sw_records *")
    arguments.steps, arguments.states = T, states
    # A shared u or dt has as many axes as one record has.
    arguments.u_record = T * n_u if u.ndim == 3 else 0
    arguments.dt_record, arguments.dt_step = T if dt.ndim == 2 else 0, int(dt.ndim > 0)
    for name, array in {"z": z, "u": u, "dt": dt, "estimates": estimates}.items():
        kind = "sw_estimate *" if name == "estimates" else "sw_real *"
        setattr(arguments, name, ffi.cast(kind, array.ctypes.data))

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    together = made.library.sw_records_together()
    cuts = np.ceil(np.linspace(0, B, (cores or 1) * PIECES_PER_CORE + 1) / together) * together
    cuts = np.unique(np.minimum(cuts, B)).astype(int).tolist()
    run_piece = made.library.sw_records_run
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda a, b: run_piece(arguments, a, b), cuts[:-1], cuts[1:]))

    last = [
        np.array(np.moveaxis(view, 0, -1) if each else view[0, ...], leaf.dtype)  # a flag is an int
        for view, leaf, each in zip(fields, given, batched, strict=True)
    ]
    end = jax.tree.unflatten(made.structure, last)
    views = made.views(estimates, "sw_estimate", made.layout.estimate)
    out: dict[str, Any] = {
        name: view[: B * T].reshape(*batch, T, *view.shape[1:]) for name, view in views.items()
    }
    return Result(**out | {"ok": out["ok"] != 0}, state=end)
