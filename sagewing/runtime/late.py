"""Measurements with time stamps that come late and out of order: a buffer in C, and one for JAX."""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from sagewing.errors import InputError
from sagewing.filters.step import Estimate
from sagewing.runtime.compiled import CompiledFilter, CompiledRecord

REFUSED = -1  # SW_REFUSED


class Event(NamedTuple):
    """A measurement; NaN in `z` did not arrive, without `u` the inputs are those of before."""

    t: float
    z: np.ndarray
    u: np.ndarray | None


class Events(NamedTuple):
    """A buffer's events, and what was before them.

    `state`, `t` and `u` are those of the event before the first of these. `late` counts the events
    that were refused because they are older than the buffer.
    """

    state: Any
    t: float
    u: np.ndarray | None = None
    events: tuple[Event, ...] = ()
    late: int = 0


class Stepped(Protocol):
    """A filter that is stepped by dt, and whose state can be set."""

    state: Any
    estimate: Estimate | None

    def step(self, z: np.ndarray, u: np.ndarray | None, dt: float) -> tuple[Any, Any]:
        """One step."""
        ...


class LateRecord:
    """A filter with a buffer of `size` events, the C of `sagewing_late.c` in Python."""

    def __init__(self, record: Stepped, n_u: int, size: int, held: Events, said: tuple[Any, Any]):
        self._record, self._size, self._n_u, self._said = record, size, n_u, said
        self._t, self._u, self.late = held.t, held.u, 0
        self._events: list[Event] = []
        self._before: list[Any] = []  # the state before each event
        record.state = held.state
        for event in held.events:
            self.step(event.z, event.u, event.t)
        self.late = held.late

    @property
    def state(self) -> Any:
        """The state after all events."""
        return self._record.state

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of the latest event."""
        return self._record.estimate

    @property
    def t(self) -> float:
        """The time of the latest event."""
        return self._time_before(len(self._events))

    @property
    def reach(self) -> float:
        """The earliest time that is not too late."""
        return self._t

    def held(self, last: int | None = None) -> Events:
        """What is in the buffer: all events, or the last ones."""
        i = 0 if last is None else max(len(self._events) - last, 0)
        state = self._before[i] if i < len(self._events) else self._record.state
        before = (state, self._time_before(i), self._inputs_before(i))
        return Events(*before, tuple(self._events[i:]), self.late)

    def step(self, z: np.ndarray, u: np.ndarray | None, t: float) -> tuple[Any, Any]:
        """Put a measurement into its place in time, unless it is too late; x and P after it."""
        if t < self._t:
            self.late += 1
        else:
            self._take(z, u, t)
        last = self._record.estimate
        return self._said if last is None else (last.x, last.P)

    def _take(self, z: np.ndarray, u: np.ndarray | None, t: float) -> None:
        i, events, before = len(self._events), self._events, self._before
        while i and events[i - 1].t > t:
            i -= 1
        inputs = self._inputs_before(i) if u is None else u
        last = t if math.isnan(self._t) else self._time_before(i)
        if self._n_u and inputs is None:
            raise _no_inputs(t)
        if t - last > _most(z.dtype):
            raise _too_far(t, z.dtype)
        if math.isnan(self._t):
            self._t = t
        if i < len(events):
            self._record.state = before[i]
        if i == 0 and len(events) == self._size:  # it leaves the buffer at once
            self._record.step(z, inputs, t - last)
            self._leave(t, u)
            self._replay(0)
            return
        if len(events) == self._size:
            oldest = events.pop(0)
            before.pop(0)
            self._leave(oldest.t, oldest.u)
            i -= 1
        events.insert(i, Event(t, z.copy(), None if u is None else u.copy()))
        before.insert(i, None)
        self._replay(i)

    def _replay(self, i: int) -> None:
        """Filter the events from i on again, from the present state."""
        inputs = self._inputs_before(i)
        for k in range(i, len(self._events)):
            t, z, u = self._events[k]
            inputs = inputs if u is None else u
            self._before[k] = self._record.state
            self._record.step(z, inputs, t - self._time_before(k))

    def _leave(self, t: float, u: np.ndarray | None) -> None:
        self._t, self._u = t, self._u if u is None else u.copy()

    def _time_before(self, i: int) -> float:
        return self._events[i - 1].t if i else self._t

    def _inputs_before(self, i: int) -> np.ndarray | None:
        given = (e.u for e in reversed(self._events[:i]) if e.u is not None)
        return next(given, self._u)


class CompiledLateRecord(CompiledRecord):
    """A compiled filter with the buffer of `sagewing_late.c`."""

    kind = "sw_late_record"
    state_in = ("late", "state")

    def __init__(self, filt: CompiledFilter, size: int, held: Events, said: tuple[Any, Any]):
        super().__init__(filt, held.state)
        self._x[...], self._P[...] = said
        self._late, self._has_estimate = self._c.late, False
        self._events = filt.ffi.new("sw_event[]", max(size, 1))
        self._late.events, self._late.size, self._late.t = self._events, size, held.t
        if held.u is not None:
            self._late.has_u = 1
            self._numbers(self._late.u)[: filt.n_u] = held.u
        for event in held.events:
            self.step(event.z, event.u, event.t)
        self._late.late = held.late

    def _numbers(self, array: Any) -> np.ndarray:
        return np.frombuffer(self._filt.ffi.buffer(array), self._filt.dtype)

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of the latest event."""
        return super().estimate if self._has_estimate else None

    @property
    def t(self) -> float:
        """The time of the latest event."""
        return self._filt.library.sw_late_time(self._filt.ffi.addressof(self._late))

    @property
    def late(self) -> int:
        """How many events were refused."""
        return int(self._late.late)

    @property
    def reach(self) -> float:
        """The earliest time that is not too late."""
        return self._late.t

    def held(self, last: int | None = None) -> Events:
        """What is in the buffer: all events, or the last ones."""
        late, ffi = self._late, self._filt.ffi
        each = [self._events[(late.first + i) % late.size] for i in range(late.count)]
        i = 0 if last is None else max(len(each) - last, 0)
        given = (inputs for e in reversed(each[:i]) if (inputs := self._inputs(e)) is not None)
        u = next(given, self._inputs(late))
        state = self.state
        if i < len(each):
            state = self._state(self._views(ffi.addressof(each[i], "before"), "sw_state"))
        events = tuple(Event(e.t, self._numbers(e.z).copy(), self._inputs(e)) for e in each[i:])
        return Events(state, each[i - 1].t if i else late.t, u, events, self.late)

    def _inputs(self, struct: Any) -> np.ndarray | None:
        """The inputs in a struct, if it has any."""
        return self._numbers(struct.u)[: self._filt.n_u].copy() if struct.has_u else None

    def step(self, z: np.ndarray, u: np.ndarray | None, t: float) -> tuple[Any, Any]:
        """Put a measurement into its place in time, unless it is too late; x and P after it."""
        self._z[...] = z
        if u is not None:
            self._u[...] = u
        said = self._step(self._c, t, u is not None)
        if said == REFUSED:
            too_far = t - self._late.t > _most(z.dtype)
            raise _too_far(t, z.dtype) if too_far else _no_inputs(t)
        self._has_estimate |= said >= 0
        return self._x.copy(), self._P.copy()


def _no_inputs(t: float) -> InputError:
    return InputError(
        f"u must be given: no event before t = {t:.9g} has inputs that could hold on."
    )


def _most(real: np.dtype) -> float:
    return float(np.finfo(real).max)


def _too_far(t: float, real: np.dtype) -> InputError:
    return InputError(
        f"t must be at most {_most(real):.2g} s after the event before it; got {t:.9g}."
    )
