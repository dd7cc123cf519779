"""The last steps of an online filter, kept in C or for JAX, and the smoothed estimate of one."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from sagewing.filters.fixed_lag import KeptStep, smoothed_at_lag
from sagewing.filters.parts import Rest, together
from sagewing.filters.protocols import Filter
from sagewing.filters.smoother import History, Smoothed
from sagewing.runtime.compiled import CompiledFilter, CompiledRecord
from sagewing.runtime.in_jax import JaxRecord, hashed


class JaxLagRecord(JaxRecord):
    """One record in JAX that keeps its last `size` steps."""

    keeps = True

    def __init__(self, filt: Filter, state: Any, size: int, kept: tuple[KeptStep, ...]):
        super().__init__(filt, state)
        self._kept = deque(kept, maxlen=size)
        self._smoothed = hashed(_jax_smoothed, self._rest)

    @property
    def count(self) -> int:
        """How many steps are kept."""
        return len(self._kept)

    @property
    def kept(self) -> tuple[KeptStep, ...]:
        """The steps, the oldest first."""
        return tuple(self._kept)

    def step(self, z: np.ndarray, u: np.ndarray | None, dt: float) -> tuple[Any, Any]:
        """One step; NaN in `z` is a channel that did not arrive."""
        estimate, kept = self._stepped(z, u, dt)
        assert kept is not None
        self._kept.append(kept)
        return estimate.x, estimate.P

    def smoothed(self, lag: int) -> tuple[Any, Any]:
        """x and P after the step `lag` steps before the last one, by all measurements."""
        steps = self.kept
        # One program for all lags: the first of fewer steps stands for those that are not there
        steps = (steps[0],) * ((self._kept.maxlen or 0) - len(steps)) + steps
        stacked = jax.tree.map(lambda *each: np.stack(each), *steps)
        made = self._smoothed(self._arrays, stacked, lag)
        return made.x, made.P


@lru_cache(maxsize=64)
def _jax_smoothed(rest: Rest) -> Callable[..., Smoothed]:
    """The jitted smoother."""

    @jax.jit
    def smoothed(arrays: Any, steps: KeptStep, lag: Any) -> Smoothed:
        return smoothed_at_lag(together(arrays, rest).model, steps, lag)

    return smoothed


class CompiledLagRecord(CompiledRecord):
    """A compiled filter with the ring of `sagewing_lag.c`, of `size` steps."""

    kind = "sw_lag_record"
    state_in = ("lag", "state")

    def __init__(self, filt: CompiledFilter, state: Any, size: int, kept: tuple[KeptStep, ...]):
        super().__init__(filt, state)
        ffi, made = filt.ffi, filt.layout
        self._ring = ffi.new("sw_kept[]", size)
        self._lag = self._c.lag
        self._lag.kept, self._lag.size = self._ring, size
        self._lag.count, self._lag.last = len(kept), (len(kept) or size) - 1
        square = (made.n_dx, made.n_dx)
        places = {
            ("estimate", "x"): (made.n_x,),
            ("estimate", "P"): square,
            ("estimate", "restarts"): (),
            ("A",): square,
            ("gradient",): (made.n_dx,),
            ("hessian",): square,
        }
        views: list[Any] = [self._of_each(place, shape) for place, shape in places.items()]
        self._steps = KeptStep(views[0], views[1], views[2], History(views[3], views[4], views[5]))
        for i, step in enumerate(kept):
            for view, leaf in zip(views, jax.tree.leaves(step), strict=True):
                view[i] = np.asarray(leaf)

    def _of_each(self, place: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
        """A member of all kept steps."""
        ffi, dtype = self._filt.ffi, self._filt.dtype
        inner, size = np.empty(shape, dtype).strides, ffi.sizeof("sw_kept")
        offset = ffi.offsetof("sw_kept", *place)
        each = (len(self._ring), *shape)
        return np.ndarray(each, dtype, ffi.buffer(self._ring), offset, (size, *inner))

    @property
    def count(self) -> int:
        """How many steps are kept."""
        return self._lag.count

    @property
    def kept(self) -> tuple[KeptStep, ...]:
        """The steps, the oldest first."""
        places = [(self._lag.last - k) % self._lag.size for k in reversed(range(self.count))]
        return tuple(jax.tree.map(lambda a, i=i: a[i].copy(), self._steps) for i in places)

    def smoothed(self, lag: int) -> tuple[np.ndarray, np.ndarray]:
        """x and P after the step `lag` steps before the last one, by all measurements."""
        ffi = self._filt.ffi
        x, P = np.empty_like(self._x), np.empty_like(self._P)
        self._filt.library.sw_lag_smoothed(
            ffi.addressof(self._lag),
            lag,
            ffi.from_buffer("sw_real[]", x),
            ffi.from_buffer("sw_real[]", P),
        )
        return x, P


# A record that keeps its last steps
Smoothing = CompiledLagRecord | JaxLagRecord
