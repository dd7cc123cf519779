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
from sagewing.filters import checks
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.protocols import Filter
from sagewing.filters.step import Estimate
from sagewing.processes import check_not_forked
from sagewing.runtime.compiled import CompiledRecord, compiled_filter
from sagewing.shapes import Numbers, real_dtype

Backend = Literal["auto", "c", "jax"]
# A thread that steps pops this from a list and appends it again: faster than a lock.
TURN = "turn"
POLL_SECONDS = 2e-5  # between two attempts to take the turn


class Online:
    """A filter that is stepped by hand; its estimates are those of `run`.

    Threads may share it: their steps are done one after the other. A pickled or copied filter
    continues independently from the same state.

    The first step compiles it: to C with `backend="c"`, by JAX with "jax"; "auto" uses C if there
    is a C compiler. C is compiled for the filter's own numbers; in JAX all filters that differ only
    in numbers share a program.

    Example: `online = sw.Online(filt, x0, P0); x, P = online.step(z_k, u_k, dt)`
    """

    def __init__(self, filt: Filter, x0: Numbers, P0: Numbers, backend: Backend = "auto"):
        if backend not in ("auto", "c", "jax"):
            raise InputError(f'backend must be "auto", "c" or "jax"; got {backend!r}.')
        checks.is_filter(filt)
        self._filt, self._backend, self._real = filt, backend, real_dtype()
        self._nothing = np.full(filt.n_z, np.nan, self._real)
        self._shape = self._nothing.shape
        self._start = filt.init(*checks.start(filt, x0, P0, ()))
        self._engine: CompiledRecord | _JaxRecord | None = None
        self._last_estimate: Estimate | None = None  # before there is an engine, in a copy
        self._n_u = 0
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
            own = {"_engine": None, "_start": self._state(), "_last_estimate": self._estimate()}
            return self.__dict__ | own | {"_turns": [TURN]}

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

    def _state(self) -> Any:
        return self._start if self._engine is None else self._engine.state

    def _estimate(self) -> Estimate | None:
        return self._last_estimate if self._engine is None else self._engine.estimate

    def step(
        self,
        z: Numbers | None,
        u: Numbers | None = None,
        dt: float = 0.01,
        mask: Numbers | None = None,
    ) -> tuple[
        Float[Array | np.ndarray, "n_x"],
        Float[Array | np.ndarray, "n_dx n_dx"],
    ]:
        """The estimate `dt` seconds after the last one; with `z=None` nothing was measured."""
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
        if type(dt) is not float or not 0.0 <= dt < math.inf:
            dt = _seconds(dt, real)
        if u is not None:
            if type(u) is not ndarray or u.dtype is not real:
                u = _array("u", u, real)
            n_u = u.size
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

    def _compiled(self, u: np.ndarray | None) -> "CompiledRecord | _JaxRecord":
        """The compiled filter for inputs of this size, in the present state."""
        if u is not None and u.ndim != 1:
            raise InputError(f"u must be one row of numbers; got shape {u.shape}.")
        state, n_u = self._state(), 0 if u is None else u.size
        if self._backend == "jax":
            return _JaxRecord(self._filt, state)
        try:
            return CompiledRecord(compiled_filter(self._filt, n_u, self._real), state)
        except NotInC as error:
            if self._backend == "c":
                raise InputError(str(error)) from None
            _warn_once(str(error))
            return _JaxRecord(self._filt, state)


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
        checks.model_shapes(filt, u, dt)
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


def _array(name: str, value: Any, dtype: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {value!r}.") from error
