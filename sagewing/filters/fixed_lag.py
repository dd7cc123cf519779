"""The smoother at a fixed lag: steps are kept, and one of them is smoothed by all later ones."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sagewing.filters.smoother import Adjoint, History, Smoothed, no_later, smooth_step
from sagewing.models import Model
from sagewing.shapes import Covariances, States, Values


class KeptStep(NamedTuple):
    """What is kept of a step: its estimate, how often the filter had restarted, its history."""

    x: States
    P: Covariances
    restarts: Values
    history: History


def before_kept(model: Model, later: Adjoint, kept: KeptStep) -> Adjoint:
    """The adjoint before a step, from that after it."""
    return smooth_step(model, later, *kept)[0]


def smoothed_kept(model: Model, later: Adjoint, kept: KeptStep) -> Smoothed:
    """The estimate after a step by all later measurements, from the adjoint there."""
    return smooth_step(model, later, *kept)[1]


def smoothed_at_lag(model: Model, steps: KeptStep, lag: Any) -> Smoothed:
    """The estimate `lag` steps before the last one of `steps`, whose first axis is time."""
    last = steps.restarts.shape[0] - 1

    def ago(k: Any) -> KeptStep:
        return jax.tree.map(lambda a: a[last - k], steps)

    def back(k: Any, later: Adjoint) -> Adjoint:
        return before_kept(model, later, ago(k))

    now = ago(jnp.zeros((), int))
    later = jax.lax.fori_loop(0, lag, back, no_later(*now[:3]))
    return smoothed_kept(model, later, ago(lag))
