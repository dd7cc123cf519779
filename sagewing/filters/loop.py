"""The loop over the steps of a record, used by `run`, training and the studies."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.smoother import History, history_of
from sagewing.filters.step import Estimate, Step
from sagewing.shapes import Arrived, Inputs, Measurements, Steps

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
) -> tuple[Any, Any]:
    """Run all steps of a record, time first and batch last; the final state, and the saved values.

    With `predict_between` a step of one record in which nothing arrives only predicts, without
    calling an adaptive filter's rule; its `Step` has no S, K and H, so `save` cannot keep them.
    With `history` the saved values are pairs of what `save` returns and a `History`.
    """
    if history:
        save = partial(_with_history, filt, save)

    def body(state: Any, given: Any) -> tuple[Any, Any]:
        z, u, dt, arrived, extra = given
        use = partial(_saved, save, extra)
        return one_step(filt, state, z, u, dt, arrived, use, predict_between=predict_between)

    return jax.lax.scan(body, state, (z, u, dt, arrived, extra), unroll=unroll)


def one_step(
    filt: Filter,
    state: Any,
    z: Measurements,
    u: Inputs,
    dt: Steps,
    arrived: Arrived,
    use: Callable[[Step], Any],
    *,
    predict_between: bool,
) -> tuple[Any, Any]:
    """One step: the new state, and what `use` makes of the `Step`; see `scan`."""

    def measured(state: Any) -> tuple[Any, Any]:
        state, step = filt.step(state, z, u, dt, arrived)
        return state, use(step)

    if not predict_between or not isinstance(filt, AdaptiveFilter):
        return measured(state)

    def unmeasured(state: Any) -> tuple[Any, Any]:
        state, step = filt.predict_only(state, u, dt)
        return state, use(step)

    return jax.lax.cond(jnp.any(arrived), measured, unmeasured, state)


def _saved(save: Save, extra: Any, step: Step) -> Any:
    return save(step, extra)


def _with_history(filt: Filter, save: Save, step: Step, extra: Any) -> tuple[Any, History]:
    return save(step, extra), history_of(filt, step)
