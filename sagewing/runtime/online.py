"""A filter in a control loop: one measurement in, one estimate out."""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from sagewing.codegen.refusal import NotInC
from sagewing.errors import InputError
from sagewing.filters import checks, model_checks
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.filters.step import Estimate
from sagewing.processes import check_not_forked
from sagewing.runtime.compiled import CompiledFilter, CompiledRecord, compiled_filter
from sagewing.runtime.late import CompiledLateRecord, Events, LateRecord
from sagewing.shapes import Numbers, real_dtype

Backend = Literal["auto", "c", "jax"]
# A thread that steps pops this from a list and appends it again: faster than a lock.
TURN = "turn"
POLL_SECONDS = 2e-5  # between two attempts to take the turn
DT = 0.01  # seconds of a step that is given neither dt nor t
MOST = 1_000_000  # events in a buffer
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
    ):
        if backend not in ("auto", "c", "jax"):
            raise InputError(f'backend must be "auto", "c" or "jax"; got {backend!r}.')
        if isinstance(buffer, bool) or not isinstance(buffer, int) or not 0 <= buffer <= MOST:
            raise InputError(f"buffer must be a number of events, 0 to {MOST}; got {buffer!r}.")
        checks.is_filter(filt)
        self._filt, self._backend, self._real = filt, backend, real_dtype()
        self._nothing = np.full(filt.n_z, np.nan, self._real)
        self._shape = self._nothing.shape
        self._x0_P0 = checks.start(filt, x0, P0, ())
        self._start = filt.init(*self._x0_P0)
        self._engine: CompiledRecord | _JaxRecord | None = None
        self._buffered: CompiledLateRecord | LateRecord | None = None  # where steps have times
        self._last_estimate: Estimate | None = None  # before there is an engine, in a copy
        self._n_u = 0
        self._timed: bool | None = None  # whether steps have times; None before the first one
        self._size, self._said_late = buffer, False
        self._events = Events(self._start, math.nan if t0 is None else _time("t0", t0))
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
        return self._events if self._buffered is None else self._buffered.held

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
            z = _array("z", z, real)
        if z.shape != self._shape:
            raise InputError(f"z must have shape {self._shape}, as R0 says; got {z.shape}.")
        if mask is not None:
            z = _masked(z, mask)
        if u is not None:
            if type(u) is not ndarray or u.dtype is not real:
                u = _array("u", u, real)
            n_u = u.size
        if t is not None:
            return self._step_at(z, u, dt, t)
        if type(dt) is not float or not 0.0 <= dt < math.inf:
            dt = DT if dt is None else _seconds(dt, real)
        try:
            turn = self._turns.pop()
        except IndexError:
            turn = self._take_turn()
        try:
            if n_u != self._n_u or self._engine is None:
                self._engine, self._n_u = self._compiled(u), n_u
            return self._engine.step(z, u, dt)
        finally:
            self._turns.append(turn)

    def _step_at(
        self, z: np.ndarray, u: np.ndarray | None, dt: float | None, t: float
    ) -> tuple[Any, Any]:
        """A step at the time `t`."""
        t = _time("t", t)
        if dt is not None:
            raise InputError(f"Give dt or t, not both; got dt = {dt} and t = {t:.9g}.")
        with self._turn_taken():
            if self._timed is False:
                raise InputError(MIXED.format("dt", "t"))
            if self._buffered is None:
                self._buffered = self._with_buffer(u)
                self._timed = True
            if u is not None and u.shape != (self._n_u,):
                raise InputError(f"u must have shape ({self._n_u},), as before; got {u.shape}.")
            made = self._buffered.step(z, u, t)
            if self._buffered.late > 0 and not self._said_late:
                self._said_late = True
                said = TOO_LATE.format(t, self._size, self._buffered.reach)
                warnings.warn(said, RuntimeWarning, stacklevel=3)
            return made

    def _with_buffer(self, u: np.ndarray | None) -> CompiledLateRecord | LateRecord:
        """The compiled filter with its buffer, in the present state."""
        if self._timed is None:
            one_u = None if u is None else jax.ShapeDtypeStruct(u.shape, u.dtype)
            model_checks.model_shapes(self._filt, one_u, jax.ShapeDtypeStruct((), self._real))
            self._n_u = _size(u)
        last = self._estimate()
        arguments = (self._size, self._events, self._x0_P0 if last is None else last[:2])
        made = self._in_c(self._n_u)
        if made is None:
            return LateRecord(_JaxRecord(self._filt, self._events.state), self._n_u, *arguments)
        return CompiledLateRecord(made, *arguments)

    def _compiled(self, u: np.ndarray | None) -> "CompiledRecord | _JaxRecord":
        """The compiled filter for inputs of this size, in the present state."""
        if self._timed:
            raise InputError(MIXED.format("t", "dt"))
        state, made = self._state(), self._in_c(_size(u))
        self._timed = False
        return _JaxRecord(self._filt, state) if made is None else CompiledRecord(made, state)

    def _in_c(self, n_u: int) -> CompiledFilter | None:
        """The filter in C, for so many inputs; None where it runs on JAX."""
        if self._backend == "jax":
            return None
        try:
            return compiled_filter(self._filt, n_u, self._real)
        except NotInC as error:
            if self._backend == "c":
                raise InputError(str(error)) from None
            _warn_once(str(error))
            return None


class _JaxRecord:
    """One record that a filter is filtering in JAX."""

    def __init__(self, filt: Filter, state: Any):
        # A compiled program takes a tuple of arrays much faster than a module
        self._arrays, rest = separated(filt)
        try:
            self._step = _jax_step(rest)
        except (TypeError, ValueError):  # a field that cannot be hashed: a program of its own
            self._step = _jax_step.__wrapped__(rest)
        self.state, self.estimate = state, None

    def step(self, z: np.ndarray, u: np.ndarray | None, dt: float) -> tuple[Any, Any]:
        """One step; NaN in `z` is a channel that did not arrive."""
        check_not_forked()
        arrived, real = np.isfinite(z), z.dtype.type
        try:
            self.state, self.estimate = self._step(
                self._arrays, self.state, np.where(arrived, z, real(0.0)), u, real(dt), arrived
            )
        except InputError as error:  # without the notes on tracing that JAX adds to it
            raise InputError(str(error)) from None
        return self.estimate.x, self.estimate.P


@lru_cache(maxsize=64)
def _jax_step(rest: Rest) -> Callable[..., tuple[Any, Estimate]]:
    """The jitted step of all filters that differ only in numbers."""

    @jax.jit
    def step(arrays: Any, state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        filt = together(arrays, rest)
        model_checks.model_shapes(filt, u, dt)
        state, step = filt.step(state, z, u, dt, arrived)
        return state, fill_nominal_noise(filt, step.estimate, ())

    return step


@lru_cache(maxsize=64)
def _warn_once(why: str) -> None:
    """Warn that a filter runs on JAX, once for each reason."""
    warnings.warn(f"The online filter runs on JAX, not on C. {why}", RuntimeWarning, stacklevel=4)


def _masked(seen: np.ndarray, mask: Numbers) -> np.ndarray:
    flags = _array("mask", mask, bool)
    if flags.shape not in ((), seen.shape):
        raise InputError(f"mask must have shape {seen.shape}; got {flags.shape}.")
    return np.where(flags, seen, seen.dtype.type(np.nan))


def _seconds(dt: Any, real: np.dtype) -> float:
    seconds = _array("dt", dt, real)
    if seconds.shape != () or not 0.0 <= seconds < np.inf:
        raise InputError(
            f"dt must be one number, finite and not negative; got {dt} of shape {seconds.shape}."
        )
    return float(seconds)


def _size(u: np.ndarray | None) -> int:
    """The number of inputs."""
    if u is not None and u.ndim != 1:
        raise InputError(f"u must be one row of numbers; got shape {u.shape}.")
    return 0 if u is None else u.size


def _time(name: str, t: Any) -> float:
    try:
        seconds = float(t)
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(f"{name} must be one finite number of seconds; got {t!r}.")
    return seconds


def _array(name: str, value: Any, dtype: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {value!r}.") from error
