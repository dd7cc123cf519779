"""Recovery after wrong measurements, failed arithmetic and long gaps.

A step refuses a measurement that is implausible under S, a prediction that is not finite, and a dt
much longer than all before it; its `Verdict` says which. Between two steps `recover` acts on the
verdict. If a channel stays implausible, P is widened until the channel is plausible again, because
then the filter is probably wrong. If the arithmetic keeps failing, the filter restarts from the
last state known to be good. After a gap without measurements in which P has grown very large, the
first measurements do not adapt the noise, because their corrections come from the gap.

A normal step costs one more count and comparison. `recover` is called after a step that refused
something or failed, and every `PERIOD` steps to save the state.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.guards import every, some
from sagewing.filters.kernels import diagonal_matrix
from sagewing.shapes import (
    Arrived,
    Covariances,
    Errors,
    Flags,
    Inputs,
    Measurements,
    States,
    Steps,
    Values,
)

# The tolerated number of failed steps in a row, and of refused measurements of a channel in a row.
PATIENCE = 5.0
# After these, every refusal doubles the standard deviations of P, at most this often.
WIDENINGS = 64.0
# A dt of more than this many times the longest one before is an error of the clock.
LONGEST_RATIO = 1e4
# The state is saved at this interval of steps; it is known to be good after as many good steps.
PERIOD = 32.0
# The factor on the standard deviations of the saved state at a restart.
RESTART_SIGMAS = 10.0
# A state counts as unknown if its variance is this many times that of the last good state. After
# that the noise is the initial one for this number of measurements.
UNKNOWN_RATIO = 1e8
SETTLING = 100.0


class Verdict(NamedTuple):
    """The outcome of a step.

    `arrived` are the measured channels, `kept` those with a plausible measurement. `finite` is
    False if the prediction or the correction failed.
    """

    arrived: Arrived
    kept: Arrived
    finite: Flags

    @property
    def ok(self) -> Flags:
        """True if nothing failed and nothing was refused."""
        return self.finite & every(self.kept | ~self.arrived)


class Recovery(NamedTuple):
    """A filter's memory for its recovery.

    `steps` counts the steps since the state was saved, `longest_dt` the longest dt so far (0:
    none yet), `restarts` the number of restarts. `alert` is 1 from a refusal or failure until no
    channel is refused and no step fails; `refused` counts the implausible measurements in a row by
    channel, `failed` the failed steps in a row, `settling` the next measurements that do not adapt
    the noise. `safe_x` is the last state known to be good, `next_x` the next one, if the steps
    since are `clean`; both have their variances.
    """

    steps: Values
    longest_dt: Values
    restarts: Values
    alert: Values
    clean: Values
    refused: Measurements
    failed: Values
    settling: Values
    safe_x: States
    safe_variances: Errors
    next_x: States
    next_variances: Errors

    def after_step(self, dt: Steps) -> "Recovery":
        """The recovery memory after a step."""
        longer = clock_ok(self, dt) & (dt > self.longest_dt)
        longest = jnp.where(longer, dt, self.longest_dt)
        return self._replace(steps=self.steps + 1.0, longest_dt=longest)

    def due(self, ok: Flags) -> Flags:
        """Whether `recover` must be called after a step."""
        return ~ok | (self.alert > 0.0) | (self.steps >= PERIOD)


def begin(x0: States, P0: Covariances, r: Measurements) -> Recovery:
    """The memory before the first step, with the initial state as the last good one."""
    zero = jnp.zeros_like(x0[0])
    variances = _variances(P0)
    return Recovery(
        steps=zero,
        longest_dt=zero,
        restarts=zero,
        alert=zero,
        clean=jnp.ones_like(zero),
        refused=jnp.zeros_like(r),
        failed=zero,
        settling=zero,
        safe_x=x0,
        safe_variances=variances,
        next_x=x0,
        next_variances=variances,
    )


def clock_ok(recovery: Recovery, dt: Steps) -> Flags:
    """Whether a dt is plausible, i.e. no error of the clock."""
    return (dt <= LONGEST_RATIO * recovery.longest_dt) | (recovery.longest_dt == 0.0)


def largest(dtype: Any) -> float:
    """The largest number whose square does not overflow."""
    return float(jnp.finfo(dtype).max) ** 0.5


class Recovering(eqx.Module):
    """A filter with recovery: a step is a `plain_step`, and `recover` if it is due."""

    @abstractmethod
    def init(self, x0: States, P0: Covariances) -> Any:
        """The state before the first measurement; its `recovery` is that of `begin`."""

    @abstractmethod
    def plain_step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any, Verdict]:
        """One step and its verdict; the new state's `recovery` is that of `after_step`."""

    def step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        state, step, verdict = self.plain_step(state, z, u, dt, arrived)
        return self.recovered(state, verdict), step

    def due(self, state: Any, verdict: Verdict) -> Flags:
        """Whether `recover` must be called after a step."""
        return state.recovery.due(verdict.ok)

    def recovered(self, state: Any, verdict: Verdict) -> Any:
        """The state after `recover`, for the records where that is due."""
        due = self.due(state, verdict)
        constant, given = _without_derivatives((self, state))

        def recover(given: tuple[Any, Any]) -> tuple[Any, Any]:
            old = given[0]
            return _where(due, constant.recover(old, verdict), old), jnp.zeros((), bool)

        # A loop of at most one iteration: unlike a branch, it does not copy an unchanged state
        given = given, jnp.any(due)
        new, _ = jax.lax.while_loop(lambda given: given[1], recover, given)
        return _bypass_derivative(state, new, new.recovery.restarts == state.recovery.restarts)

    def recover(self, state: Any, verdict: Verdict) -> Any:
        """Count, save a good state, widen and bound P, reset the noise, or restart."""
        x, P = state.x, state.P
        variances = _variances(P)
        counts = _counted(state.recovery, verdict, variances)
        refused = verdict.arrived & ~verdict.kept & (counts.refused > PATIENCE)
        refused = refused & (counts.refused <= PATIENCE + WIDENINGS)
        widen = (counts.failed > 0.0) | some(refused)

        most = 1e-3 * largest(x.dtype) / x.shape[0]  # of a state, or a variance
        shrink = jnp.sqrt(jnp.minimum(most / jnp.maximum(variances, most), 1.0))
        P = shrink[:, None] * P * shrink[None]
        # Four times the variances and twice the covariances: positive definite after some of these
        P = jnp.where(widen, 2.0 * (P + diagonal_matrix(_variances(P))), P)
        counts = _saved(counts, verdict, x, variances)
        x = jnp.clip(x, -most, most)
        root = self.root_after(state, shrink, widen)
        nominal = self.restarted(state, x, P)._replace(recovery=counts, **root)
        state = state._replace(x=x, P=P, recovery=counts, **root)
        state = _where(counts.settling > 0.0, nominal, state)

        safe_P = diagonal_matrix(jnp.minimum(RESTART_SIGMAS**2 * counts.safe_variances, most))
        fresh = begin(counts.safe_x, safe_P, counts.refused)
        fresh = fresh._replace(steps=counts.steps, restarts=counts.restarts + 1.0)
        restarted_state = self.restarted(state, counts.safe_x, safe_P)._replace(recovery=fresh)
        restart = counts.failed > PATIENCE
        return _where(restart, restarted_state, state)

    def root_after(self, state: Any, shrink: Errors, widen: Flags) -> dict[str, Any]:
        """The state's root of P after the same change of P, by its name; nothing if it has none."""
        return {}

    def restarted(self, state: Any, x: States, P: Covariances) -> Any:
        """The state of a filter that restarts at x and P."""
        return self.init(x, P)


def _variances(P: Covariances) -> Errors:
    """The diagonal of P in one operation: fast to compile, and fast outside of `jit`."""
    return jnp.moveaxis(jnp.diagonal(P), -1, 0)


def _where(flag: Flags, new: Any, old: Any) -> Any:
    """`new` for the flagged records, `old` for the others; an unchanged leaf is not selected."""
    return jax.tree.map(lambda a, b: b if a is b else jnp.where(flag, a, b), new, old)


def _counted(recovery: Recovery, verdict: Verdict, variances: Errors) -> Recovery:
    refused = jnp.where(verdict.kept, 0.0, recovery.refused + 1.0)
    refused = jnp.where(verdict.arrived, refused, recovery.refused)
    failed = jnp.where(verdict.finite, 0.0, recovery.failed + 1.0)
    unknown = ~some(verdict.arrived) & some(variances > UNKNOWN_RATIO * recovery.safe_variances)
    left = jnp.where(
        some(verdict.arrived & verdict.kept), recovery.settling - 1.0, recovery.settling
    )
    settling = jnp.where(unknown, SETTLING, jnp.maximum(left, 0.0))
    alert = (failed > 0.0) | some(refused > 0.0) | (settling > 0.0)
    alert = alert.astype(failed.dtype)
    return recovery._replace(refused=refused, failed=failed, settling=settling, alert=alert)


def _saved(recovery: Recovery, verdict: Verdict, x: States, variances: Errors) -> Recovery:
    """Save the state at the end of a period; the one saved before is safe if all steps were good.

    A state without measurements since is not saved.
    """
    clean = jnp.where(verdict.ok, recovery.clean, 0.0)
    over = (recovery.steps >= PERIOD) & some(verdict.arrived)
    safe = over & (clean > 0.0)
    return recovery._replace(
        steps=jnp.where(recovery.steps >= PERIOD, 0.0, recovery.steps),
        clean=jnp.where(over, verdict.ok.astype(clean.dtype), clean),
        safe_x=jnp.where(safe, recovery.next_x, recovery.safe_x),
        safe_variances=jnp.where(safe, recovery.next_variances, recovery.safe_variances),
        next_x=jnp.where(over, x, recovery.next_x),
        next_variances=jnp.where(over, variances, recovery.next_variances),
    )


def _without_derivatives(tree: Any) -> Any:
    real, others = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(real), others)


@jax.custom_vjp
def _bypass_derivative(state: Any, recovered: Any, not_restarted: Flags) -> Any:
    """The recovered state; derivatives bypass `recover`, and are zero across a restart."""
    return recovered


def _bypass_derivative_backward(not_restarted: Flags, bar: Any) -> tuple[Any, None, None]:
    def ended(b: Any) -> Any:
        return b if b.dtype == jax.dtypes.float0 else jnp.where(not_restarted, b, 0.0)

    return jax.tree.map(ended, bar), None, None


_bypass_derivative.defvjp(
    lambda state, recovered, not_restarted: (recovered, not_restarted), _bypass_derivative_backward
)
