"""A filter in a control loop: one measurement in, one estimate out."""

import contextlib
import math
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from sagewing.codegen.refusal import NotInC
from sagewing.errors import InputError
from sagewing.filters import checks, model_checks
from sagewing.filters.fixed_lag import KeptStep
from sagewing.filters.protocols import Filter
from sagewing.filters.step import Estimate
from sagewing.runtime import arguments
from sagewing.runtime.compiled import CompiledFilter, CompiledRecord, compiled_filter
from sagewing.runtime.in_jax import JaxRecord
from sagewing.runtime.lag import CompiledLagRecord, JaxLagRecord, Smoothing
from sagewing.runtime.late import CompiledLateRecord, Events, LateRecord
from sagewing.shapes import Numbers, real_dtype

Record = CompiledRecord | JaxRecord
Backend = Literal["auto", "c", "jax"]
# A thread that steps pops this from a list and appends it again: faster than a lock.
TURN = "turn"
POLL_SECONDS = 2e-5  # between two attempts to take the turn
DT = 0.01  # seconds of a step that is given neither dt nor t
MIXED = "Give t at every step, or at none: this filter has had steps with {}, and now one with {}."
TOO_LATE = (
    "The measurement of t = {:.9g} came too late and is left out: the buffer of {} events reaches "
    "back to t = {:.9g}. Give a larger buffer=; `late` counts what is left out from now on."
)


class Online:
    """A filter that is stepped by hand; its estimates are those of `run`.

    Threads may share it: their steps are done one after the other. A pickled or copied filter
    continues independently from the same state.

    The first step compiles it: to C with `backend="c"`, by JAX with "jax"; "auto" uses C if there
    is a C compiler. C is compiled for the filter's own numbers; in JAX all filters that differ only
    in numbers share a program.

    Measurements with times (`step(z, t=...)`) may come late and out of order. The last `buffer` of
    them are kept, with the states before them; `t0` is the time of x0, by default that of the
    measurement that comes first.

    With `lag` the last `lag` steps are kept, and `smoothed` gives their estimates by all later
    measurements, too. Where steps have times, the buffer has to reach back as far.

    Example: `online = sw.Online(filt, x0, P0); x, P = online.step(z_k, u_k, dt)`
    """

    def __init__(
        self,
        filt: Filter,
        x0: Numbers,
        P0: Numbers,
        backend: Backend = "auto",
        *,
        t0: float | None = None,
        buffer: int = 100,
        lag: int = 0,
    ):
        if backend not in ("auto", "c", "jax"):
            raise InputError(f'backend must be "auto", "c" or "jax"; got {backend!r}.')
        arguments.number("buffer", buffer, "events")
        arguments.number("lag", lag, "steps")
        checks.is_filter(filt)
        self._filt, self._backend, self._real = filt, backend, real_dtype()
        self._nothing = np.full(filt.n_z, np.nan, self._real)
        self._shape = self._nothing.shape
        self._x0_P0 = checks.start(filt, x0, P0, ())
        self._start = filt.init(*self._x0_P0)
        self._engine: Record | None = None
        self._buffered: CompiledLateRecord | LateRecord | None = None  # where steps have times
        self._last_estimate: Estimate | None = None  # before there is an engine, in a copy
        self._n_u = 0
        self._timed: bool | None = None  # whether steps have times; None before the first one
        self._size, self._lag, self._said_late = buffer, lag, False
        self._kept: tuple[KeptStep, ...] = ()  # before there is an engine, in a copy
        self._events = Events(self._start, math.nan if t0 is None else arguments.time("t0", t0))
        self._turns = [TURN]

    def _take_turn(self) -> str:
        """Wait until no other thread is stepping, and take the turn."""
        while True:
            with contextlib.suppress(IndexError):
                return self._turns.pop()
            time.sleep(POLL_SECONDS)

    @contextlib.contextmanager
    def _turn_taken(self) -> Iterator[None]:
        """Hold the turn, so that no thread steps meanwhile."""
        turn = self._take_turn()
        try:
            yield
        finally:
            self._turns.append(turn)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: everything but the compiled program, which the copy builds again."""
        with self._turn_taken():
            own = {"_engine": None, "_buffered": None, "_turns": [TURN], "_start": self._state()}
            own |= {"_last_estimate": self._estimate(), "_events": self._held()}
            own |= {"_kept": self._steps_kept()}
            return self.__dict__ | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The same filter at the same step."""
        self.__dict__.update(state)
        self._real = np.dtype(self._real.char)  # the very one that arrays have

    @property
    def state(self) -> Any:
        """The filter's state."""
        with self._turn_taken():
            return self._state()

    @property
    def estimate(self) -> Estimate | None:
        """The estimate of the last step, with the noise variances, the NIS, the log-likelihood."""
        with self._turn_taken():
            return self._estimate()

    @property
    def late(self) -> int:
        """How many measurements with times were refused, because the buffer did not reach back."""
        with self._turn_taken():
            return self._events.late if self._buffered is None else self._buffered.late

    @property
    def t(self) -> float:
        """The time of the estimate, where measurements have times; NaN before the first one."""
        with self._turn_taken():
            if self._buffered is not None:
                return self._buffered.t
            return self._events.events[-1].t if self._events.events else self._events.t

    def _state(self) -> Any:
        engine = self._engine or self._buffered
        return self._start if engine is None else engine.state

    def _estimate(self) -> Estimate | None:
        engine = self._engine or self._buffered
        return (None if engine is None else engine.estimate) or self._last_estimate

    def _held(self) -> Events:
        return self._events if self._buffered is None else self._buffered.held()

    def _steps_kept(self) -> tuple[KeptStep, ...]:
        return self._engine.kept if isinstance(self._engine, Smoothing) else self._kept

    def step(
        self,
        z: Numbers | None,
        u: Numbers | None = None,
        dt: float | None = None,
        mask: Numbers | None = None,
        *,
        t: float | None = None,
    ) -> tuple[
        Float[Array | np.ndarray, "n_x"],
        Float[Array | np.ndarray, "n_dx n_dx"],
    ]:
        """The estimate `dt` (0.01) seconds after the last one; with `z=None` nothing was measured.

        With `t` in seconds instead of `dt` measurements may come in any order: the estimate is that
        of all of them in the order of their times, to the bit. One that is older than the buffer
        reaches is left out, `late` counts it, and the first one is a warning. Without `u` the
        inputs before `t` hold on.
        """
        # Written out for speed: this is called a thousand times a second.
        real, n_u = self._real, 0
        if z is None:
            z = self._nothing
        elif type(z) is not ndarray or z.dtype is not real:
            z = arguments.array("z", z, real)
        if z.shape != self._shape:
            raise InputError(f"z must have shape {self._shape}, as R0 says; got {z.shape}.")
        if mask is not None:
            z = arguments.masked(z, mask)
        if u is not None:
            if type(u) is not ndarray or u.dtype is not real:
                u = arguments.array("u", u, real)
            n_u = u.size
        if t is not None:
            return self._step_at(z, u, dt, t)
        if type(dt) is not float or not 0.0 <= dt < math.inf:
            dt = DT if dt is None else arguments.seconds(dt, real)
        try:
            turn = self._turns.pop()
        except IndexError:
            turn = self._take_turn()
        try:
            if n_u != self._n_u or self._engine is None:
                self._engine, self._n_u = self._compiled(arguments.size(u)), n_u
            return self._engine.step(z, u, dt)
        finally:
            self._turns.append(turn)

    def smoothed(
        self, lag: int
    ) -> tuple[
        Float[Array | np.ndarray, "n_x"],
        Float[Array | np.ndarray, "n_dx n_dx"],
    ]:
        """x and P after the step `lag` steps ago, given all measurements up to now.

        They are those of `run(..., smooth=True)` on these measurements. Steps with times are
        counted in the order of their times.
        """
        arguments.number("lag", lag, "steps")
        with self._turn_taken():
            last = self._estimate()
            if last is None:
                raise InputError("There is nothing to smooth yet: this filter has had no step.")
            if lag == 0:
                return last.x, last.P
            if lag > self._lag:
                raise InputError(
                    f"A lag of {lag} steps needs sw.Online(..., lag={lag}); got lag={self._lag}."
                )
            record = self._again(lag + 1) if self._timed else self._engine
            if record is None:  # in a copy
                record = self._record(self._state(), self._n_u, self._kept)
            assert isinstance(record, Smoothing)
            if lag >= record.count:
                raise InputError(
                    f"lag must be less than the number of steps that are there, {record.count}; "
                    f"got {lag}."
                )
            return record.smoothed(lag)

    def _again(self, events: int) -> Record:
        """A record of the last events in the buffer, in the order of their times."""
        if self._buffered is None:  # in a copy
            self._buffered = self._with_buffer()
        held = self._buffered.held(events)
        record, last, u = self._record(held.state, self._n_u), held.t, held.u
        for event in held.events:
            u = u if event.u is None else event.u
            record.step(event.z, u, event.t - last)
            last = event.t
        return record

    def _step_at(
        self, z: np.ndarray, u: np.ndarray | None, dt: float | None, t: float
    ) -> tuple[Any, Any]:
        """A step at the time `t`."""
        t = arguments.time("t", t)
        if dt is not None:
            raise InputError(f"Give dt or t, not both; got dt = {dt} and t = {t:.9g}.")
        with self._turn_taken():
            if self._timed is False:
                raise InputError(MIXED.format("dt", "t"))
            if self._buffered is None:
                if self._timed is None:
                    one_u = None if u is None else jax.ShapeDtypeStruct(u.shape, u.dtype)
                    model_checks.model_shapes(
                        self._filt, one_u, jax.ShapeDtypeStruct((), self._real)
                    )
                    self._n_u = arguments.size(u)
                self._buffered = self._with_buffer()
                self._timed = True
            if u is not None and u.shape != (self._n_u,):
                raise InputError(f"u must have shape ({self._n_u},), as before; got {u.shape}.")
            made = self._buffered.step(z, u, t)
            if self._buffered.late > 0 and not self._said_late:
                self._said_late = True
                said = TOO_LATE.format(t, self._size, self._buffered.reach)
                warnings.warn(said, RuntimeWarning, stacklevel=3)
            return made

    def _with_buffer(self) -> CompiledLateRecord | LateRecord:
        """The compiled filter with its buffer, in the present state."""
        last = self._estimate()
        given = (self._size, self._events, self._x0_P0 if last is None else last[:2])
        made = self._in_c(self._n_u)
        if made is None:
            return LateRecord(JaxRecord(self._filt, self._events.state), self._n_u, *given)
        return CompiledLateRecord(made, *given)

    def _compiled(self, n_u: int) -> Record:
        """The compiled filter for so many inputs, in the present state."""
        if self._timed:
            raise InputError(MIXED.format("t", "dt"))
        record = self._record(self._state(), n_u, self._steps_kept())
        self._timed = False
        return record

    def _record(self, state: Any, n_u: int, kept: tuple[KeptStep, ...] = ()) -> Record:
        """The compiled filter in a state, after the steps that it has kept."""
        made, size = self._in_c(n_u), self._lag + 1
        if self._lag and made is None:
            return JaxLagRecord(self._filt, state, size, kept)
        if self._lag and made is not None:
            return CompiledLagRecord(made, state, size, kept)
        return JaxRecord(self._filt, state) if made is None else CompiledRecord(made, state)

    def _in_c(self, n_u: int) -> CompiledFilter | None:
        """The filter in C, for so many inputs; None where it runs on JAX."""
        if self._backend == "jax":
            return None
        try:
            return compiled_filter(self._filt, n_u, self._real, lag=self._lag > 0)
        except NotInC as error:
            if self._backend == "c":
                raise InputError(str(error)) from None
            _warn_once(str(error))
            return None


@lru_cache(maxsize=64)
def _warn_once(why: str) -> None:
    """Warn that a filter runs on JAX, once for each reason."""
    warnings.warn(f"The online filter runs on JAX, not on C. {why}", RuntimeWarning, stacklevel=4)
