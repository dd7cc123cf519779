"""One measurement in, one estimate out: the filter in a control loop."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.recursion import Estimate
from sagewing.filters.running import complete
from sagewing.shapes import Numbers, real_dtype


class Online:
    """A filter that is fed by hand; it gives the numbers that `run` gives.

    Example: `online = sw.Online(filt, x0, P0); x, P = online.step(z_k, u_k, dt)`
    """

    def __init__(self, filt: Any, x0: Numbers, P0: Numbers):
        self._n_z = filt.n_z
        arrays, static = eqx.partition(filt, eqx.is_array)
        # A plain tuple of arrays crosses into the compiled program much faster than a module does.
        leaves, structure = jax.tree.flatten(arrays)
        self._arrays, self._step = tuple(leaves), _compiled(static, structure)
        self.state = filt.init(*checks.start(filt.n_x, x0, P0, ()))
        self.estimate: Estimate | None = None

    def step(
        self,
        z: Numbers | None,
        u: Numbers | None = None,
        dt: float = 0.01,
        mask: Numbers | None = None,
    ) -> tuple[Float[Array, "n_x"], Float[Array, "n_x n_x"]]:
        """The estimate `dt` seconds after the last one; `z=None` says that nothing was measured.

        `online.estimate` has the rest: the noise variances, the NIS, the log-likelihood.
        """
        real = real_dtype()
        seen = np.full(self._n_z, np.nan, real) if z is None else _array("z", z, real)
        if seen.shape != (self._n_z,):
            raise InputError(f"z must have shape ({self._n_z},), as R0 says; got {seen.shape}.")
        arrived = np.isfinite(seen)
        if mask is not None:
            flags = _array("mask", mask, bool)
            if flags.shape not in ((), arrived.shape):
                raise InputError(f"mask must have shape {arrived.shape}; got {flags.shape}.")
            arrived = arrived & flags
        seconds = _array("dt", dt, real)
        if seconds.shape != () or not 0.0 <= seconds < np.inf:
            raise InputError(
                "dt must be one number, finite and not negative; "
                f"got {dt} of shape {seconds.shape}."
            )
        try:
            self.state, self.estimate = self._step(
                self._arrays,
                self.state,
                np.where(arrived, seen, real.type(0.0)),
                None if u is None else _array("u", u, real),
                seconds,
                arrived,
            )
        except InputError as error:  # without the notes on tracing that JAX adds to it
            raise InputError(str(error)) from None
        return self.estimate.x, self.estimate.P


def _array(name: str, value: Any, dtype: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {value!r}.") from error


@lru_cache(maxsize=64)
def _compiled(static: Any, structure: Any) -> Callable[..., tuple[Any, Estimate]]:
    """The jitted step of all filters that differ in their numbers only."""

    @jax.jit
    def step(arrays: Any, state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        filt = eqx.combine(jax.tree.unflatten(structure, arrays), static)
        checks.model_shapes(filt.model, filt.n_x, filt.n_z, u, dt)
        state, estimate = filt.step(state, z, u, dt, arrived)
        return state, complete(filt, estimate._replace(trace=None), ())

    return step
