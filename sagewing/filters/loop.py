"""The loop over the steps of a record, used by `run`, training and the studies."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sagewing.filters import checks
from sagewing.filters.batches import (
    batch_axes,
    batch_first,
    batch_last,
    each_by_itself,
    for_each,
)
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.sizes import Use
from sagewing.filters.smoother import History, history_of
from sagewing.filters.step import Estimate, Step
from sagewing.shapes import Numbers, real_dtype

# Selects what is saved of a step, from the step and the extra input of its measurement.
Save = Callable[[Step, Any], Any]


def estimate_of(step: Step, extra: Any) -> Estimate:
    """The public part of a step: what `run` keeps by default."""
    return step.estimate


def fill_nominal_noise(filt: Filter, estimates: Estimate, leading: tuple[int, ...]) -> Estimate:
    """Fill in the base noise and zero attenuation for a filter that returns none."""
    nominal = {"q": filt.q0, "r": filt.r0, "d": jnp.zeros(filt.q0.size + filt.n_z, filt.q0.dtype)}
    missing = {
        name: jnp.broadcast_to(nominal[name], (*leading, nominal[name].size))
        for name, given in estimates._asdict().items()
        if given is None
    }
    return estimates._replace(**missing)


def scan(
    filt: Filter,
    state: Any,
    z: Float[Array, "T n_z *batch"],
    u: Float[Array, "T n_u *batch"] | None,
    dt: Float[Array, "T *each"],
    arrived: Bool[Array, "T n_z *batch"],
    save: Save = estimate_of,
    extra: Any = None,
    *,
    predict_between: bool = False,
    unroll: bool = False,
    history: bool = False,
    use: Use = "training",
) -> tuple[Any, Any]:
    """Run all steps of a record, time first and batch last; the final state, and the saved values.

    With `predict_between` a step of one record in which nothing arrives only predicts, without
    calling an adaptive filter's rule; its `Step` has no S, K and H, so `save` cannot keep them.
    With `history` the saved values are pairs of what `save` returns and a `History`. `use` says
    from how many states on the records of a batch are computed each by itself.
    """
    if z.ndim == 3 and each_by_itself(filt, use):
        given = z, u, dt, arrived
        return _scan_each(filt, state, given, extra, save, unroll=unroll, history=history)
    if history:
        save = partial(_with_history, filt, save)

    def measured(state: Any, z: Any, u: Any, dt: Any, arrived: Any, extra: Any) -> Any:
        state, step = filt.step(state, z, u, dt, arrived)
        return state, save(step, extra)

    def body(state: Any, given: Any) -> tuple[Any, Any]:
        if not predict_between or not isinstance(filt, AdaptiveFilter):
            return measured(state, *given)
        unmeasured = partial(_unmeasured, filt, save)
        return jax.lax.cond(jnp.any(given[3]), measured, unmeasured, state, *given)

    return jax.lax.scan(body, state, (z, u, dt, arrived, extra), unroll=unroll)


def _scan_each(
    filt: Filter,
    state: Any,
    given: Any,
    extra: Any,
    save: Save,
    *,
    unroll: bool,
    history: bool,
) -> tuple[Any, Any]:
    """`scan` of a batch whose records are computed each by itself."""
    z, u, dt, arrived = given
    axes = batch_axes(filt, state)

    def of_one(*given: Any) -> Any:
        state, step = filt.step(*given)
        return state, (step, history_of(filt, step) if history else None)

    step_each = for_each(of_one, axes, dt.ndim == 2)

    def body(state: Any, given: Any) -> tuple[Any, Any]:
        *given, extra = given
        state, (step, kept) = step_each(state, *given)
        saved = batch_first(save(batch_last(step), extra))
        return state, ((saved, kept) if history else saved)

    def moved(state: Any, source: int, to: int) -> Any:
        def of(axis: int | None, a: Any) -> Any:
            return a if axis is None else jnp.moveaxis(a, source, to)

        return jax.tree.map(of, axes, state, is_leaf=lambda axis: axis is None)

    z, u, arrived = batch_first((z, u, arrived), 1)
    end, values = jax.lax.scan(body, moved(state, -1, 0), (z, u, dt, arrived, extra), unroll=unroll)
    return moved(end, 0, -1), batch_last(values, 1)


def _with_history(filt: Filter, save: Save, step: Step, extra: Any) -> tuple[Any, History]:
    return save(step, extra), history_of(filt, step)


def _unmeasured(
    filt: AdaptiveFilter, save: Save, state: Any, z: Any, u: Any, dt: Any, arrived: Any, extra: Any
) -> tuple[Any, Any]:
    state, step = filt.predict_only(state, u, dt)
    return state, save(step, extra)


def in_chunks(
    filt: Filter,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers,
    dt: Numbers,
    save: Save,
    *,
    steps: int,
) -> Iterator[tuple[slice, Any, Any]]:
    """Run a long record in chunks of `steps`: yields the rows, the saved values and the state.

    Only one chunk is in memory. Steps without a measurement only predict (see `scan`).
    """
    real = real_dtype()
    z, u, dt = (np.asarray(a, real) for a in (z, u, dt))
    state = filt.init(*checks.start(filt, x0, P0, ()))
    for first in range(0, len(z), steps):
        last = min(first + steps, len(z))
        fill = steps - (last - first)  # steps without time or measurement complete the last chunk
        part_z = np.pad(z[first:last], ((0, fill), (0, 0)), constant_values=np.nan)
        part_u = np.pad(u[first:last], ((0, fill), (0, 0)))
        part_dt = np.pad(dt[first:last], (0, fill))
        state, values = _chunk(filt, state, part_z, part_u, part_dt, save)
        size = last - first
        yield slice(first, last), jax.tree.map(lambda a, n=size: np.asarray(a)[:n], values), state


@eqx.filter_jit
def _chunk(filt: Filter, state: Any, z: Any, u: Any, dt: Any, save: Save) -> tuple[Any, Any]:
    arrived = jnp.isfinite(z)
    z = jnp.where(arrived, z, 0.0)
    return scan(filt, state, z, u, dt, arrived, save, predict_between=True)
