"""One record that is filtered step by step in JAX."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from sagewing.errors import InputError
from sagewing.filters import model_checks
from sagewing.filters.fixed_lag import KeptStep
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.filters.smoother import history_of
from sagewing.filters.step import Estimate
from sagewing.processes import check_not_forked


class JaxRecord:
    """One record that a filter is filtering in JAX; where it `keeps` steps, they have histories."""

    keeps = False

    def __init__(self, filt: Filter, state: Any):
        # A compiled program takes a tuple of arrays much faster than a module
        self._arrays, self._rest = separated(filt)
        self._step = hashed(_jax_step, self._rest, self.keeps)
        self.state = state
        self.estimate: Estimate | None = None

    def step(self, z: np.ndarray, u: np.ndarray | None, dt: float) -> tuple[Any, Any]:
        """One step; NaN in `z` is a channel that did not arrive."""
        estimate, _ = self._stepped(z, u, dt)
        return estimate.x, estimate.P

    def _stepped(
        self, z: np.ndarray, u: np.ndarray | None, dt: float
    ) -> tuple[Estimate, KeptStep | None]:
        check_not_forked()
        arrived, real = np.isfinite(z), z.dtype.type
        try:
            self.state, estimate, kept = self._step(
                self._arrays, self.state, np.where(arrived, z, real(0.0)), u, real(dt), arrived
            )
        except InputError as error:  # without the notes on tracing that JAX adds to it
            raise InputError(str(error)) from None
        self.estimate = estimate
        return estimate, kept


def hashed(program: Any, rest: Rest, *settings: Any) -> Any:
    """The cached program of all filters that differ only in numbers."""
    try:
        return program(rest, *settings)
    except (TypeError, ValueError):  # a field that cannot be hashed: a program of its own
        return program.__wrapped__(rest, *settings)


@lru_cache(maxsize=64)
def _jax_step(rest: Rest, keeps: bool) -> Callable[..., tuple[Any, Estimate, KeptStep | None]]:
    """The jitted step."""

    @jax.jit
    def step(arrays: Any, state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        filt = together(arrays, rest)
        model_checks.model_shapes(filt, u, dt)
        state, step = filt.step(state, z, u, dt, arrived)
        kept = KeptStep(step.x, step.P, step.restarts, history_of(filt, step)) if keeps else None
        return state, fill_nominal_noise(filt, step.estimate, ()), kept

    return step
