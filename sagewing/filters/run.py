"""A filter over whole records: one compiled program for a record, or for a batch of them."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.parts import Rest, separated, together
from sagewing.filters.recursion import Estimate
from sagewing.shapes import Numbers

# A filter keeps the programs of so many sizes of records, those used last: each takes 10 MB.
SIZES = 16


class Result(NamedTuple):
    """The estimates of a run, batch (if any) and time first; `run_from` goes on from `state`.

    `x`, `P` are corrected estimates, `q`, `r` the noise variances after each step, `d` the shares
    [d_q, d_r] by which they were adapted, `nis` the normalised innovation squared, `loglik` the
    log-likelihood of each measurement. `ok` is False at a step whose arithmetic failed or whose
    measurement was not plausible: the filter did without, as where nothing arrives. `restarts`
    counts how often it has had to go back to the last state that was known to be good.
    """

    x: Float[Array, "*batch T n_x"]
    P: Float[Array, "*batch T n_x n_x"]
    q: Float[Array, "*batch T n_x"]
    r: Float[Array, "*batch T n_z"]
    d: Float[Array, "*batch T n_d"]
    nis: Float[Array, "*batch T"]
    loglik: Float[Array, "*batch T"]
    ok: Bool[Array, "*batch T"]
    restarts: Float[Array, "*batch T"]
    state: Any


def run(
    filt: Any,
    x0: Numbers,
    P0: Numbers,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
) -> Result:
    """Filter one record z [T, n_z], or a batch of them [B, T, n_z] in one compiled program.

    `x0`, `P0`, `u` and `dt` may be shared by the batch or have one entry for each record. A channel
    is absent where `mask` is False or z is not finite; a step without any is a prediction.

    Example: `sw.run(filt, x0, P0, z, dt=0.01).x`
    """
    record = checks.record(filt.n_z, z, u, dt, mask)
    state = filt.init(*checks.start(filt.n_x, x0, P0, record.batch))
    return _result(filt, state, record)


def run_from(
    filt: Any,
    state: Any,
    z: Numbers,
    u: Numbers | None = None,
    dt: Numbers = 0.01,
    mask: Numbers | None = None,
) -> Result:
    """Go on from `result.state`: a long record in pieces gives the numbers of the whole."""
    record = checks.record(filt.n_z, z, u, dt, mask)
    checks.state_fits(filt, state, record.batch)
    return _result(filt, state, record)


def _result(filt: Any, state: Any, record: checks.Record) -> Result:
    try:
        state, estimates = _program(filt, record)(state, record)
    except InputError as error:  # without the notes on tracing that JAX adds to it
        raise InputError(str(error)) from None
    return Result(*estimates[:-1], state=state)


def _program(filt: Any, record: checks.Record) -> Callable[..., tuple[Any, Any]]:
    """What runs a record of this size through the filter."""
    arrays, rest = separated(filt)
    shapes = tuple(None if a is None else a.shape for a in record)
    try:
        made = _programs(rest)(shapes)
    except (TypeError, ValueError):  # a field that cannot be compared: a program for every call
        made = _programs.__wrapped__(rest)(shapes)
    return partial(made, arrays)


@lru_cache(maxsize=64)
def _programs(rest: Rest) -> Callable[[Any], Callable[..., tuple[Any, Any]]]:
    """The programs of all filters that differ in their numbers only, by the sizes of a record."""

    @lru_cache(maxsize=SIZES)
    def of_size(shapes: Any) -> Callable[..., tuple[Any, Any]]:
        @jax.jit
        def compiled(arrays: Any, state: Any, record: checks.Record) -> tuple[Any, Any]:
            return _scan(together(arrays, rest), state, record)

        return compiled

    return of_size


def _scan(filt: Any, state: Any, record: checks.Record) -> tuple[Any, Any]:
    z, u, dt, mask = record
    *batch, T, _ = z.shape
    arrived = jnp.isfinite(z) if mask is None else jnp.isfinite(z) & mask
    z = jnp.where(arrived, z, 0.0)
    if u is not None:
        u = jnp.broadcast_to(u, (*batch, T, u.shape[-1]))
    one_u = None if u is None else jax.ShapeDtypeStruct(u.shape[-1:], u.dtype)
    checks.model_shapes(filt.model, filt.n_x, filt.n_z, one_u, jax.ShapeDtypeStruct((), dt.dtype))
    if batch:  # from here on it is the last axis
        z, u, arrived = jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), (z, u, arrived))
    dt = dt.T if dt.ndim == 2 else jnp.broadcast_to(dt, (T,))
    state, estimates = scan(filt, state, z, u, dt, arrived)
    estimates = estimates._replace(trace=None)  # that is training's
    if batch:
        estimates = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), estimates)
    return state, complete(filt, estimates, (*batch, T))


def complete(filt: Any, estimates: Estimate, leading: tuple[int, ...]) -> Estimate:
    """The base noise, and no attenuation, where the filter says nothing of them."""
    silent = {"q": filt.q0, "r": filt.r0, "d": jnp.zeros(filt.n_x + filt.n_z, filt.q0.dtype)}
    return estimates._replace(
        **{
            name: jnp.broadcast_to(base, (*leading, base.size))
            for name, base in silent.items()
            if getattr(estimates, name) is None
        }
    )


def scan(filt: Any, state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> tuple[Any, Any]:
    """The steps of a record, time first and batch last: what `run` compiles, training derives."""

    def step(state: Any, inputs: Any) -> tuple[Any, Any]:
        return filt.step(state, *inputs)

    return jax.lax.scan(step, state, (z, u, dt, arrived))
