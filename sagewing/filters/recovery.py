"""How a filter that was led astray finds its way back.

A step refuses what cannot be true: a measurement that is not plausible under S, a prediction that
is not finite, a dt that is far beyond all before it. What it refused is its `Verdict`. Between two
steps `recover` acts on that. A channel that stays implausible widens P until it is plausible again,
because then the filter is what is wrong. A filter whose arithmetic keeps failing starts anew from
the last state that was known to be good. And a gap without measurements in which P has grown beyond
all measure is followed by some measurements from which no noise is learned: what they correct is
the doing of the gap.

While all is well a step costs one count and one comparison more; `recover` is called after a step
that was not, and every `PERIOD` steps to note the state.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.guards import every, some
from sagewing.filters.kernels import diagonal_matrix
from sagewing.shapes import Arrived, Covariances, Flags, Inputs, Measurements, States, Steps, Values

# So many failures in a row, or refused measurements of a channel, are borne.
PATIENCE = 5.0
# After these P is widened at every refusal, so that its deviations double, this often at most.
WIDENINGS = 64.0
# A dt that is this many times the longest one before it is an error of the clock.
LONGEST_RATIO = 1e4
# The state is noted every so many steps, and known to be good when as many good ones followed.
PERIOD = 32.0
# The deviations after a restart, in those of the state that it goes back to.
RESTART_SIGMAS = 10.0
# A variance that is so many times the one of the last good state says that the state is unknown;
# after that the noise is what it was at the start for so many measurements.
UNKNOWN_RATIO = 1e8
SETTLING = 100.0


class Verdict(NamedTuple):
    """What came of a step.

    `arrived` are the channels that were measured, `kept` those whose measurement was plausible.
    `finite` is False where the prediction or the correction failed.
    """

    arrived: Arrived
    kept: Arrived
    finite: Flags

    @property
    def ok(self) -> Flags:
        """Whether nothing failed and nothing was refused."""
        return self.finite & every(self.kept | ~self.arrived)


class Recovery(NamedTuple):
    """What a filter remembers of its troubles.

    `steps` counts those since the state was noted, `longest_dt` the longest dt so far (0:
    none yet), `restarts` the number of restarts. `alert` is 1 from a refusal or failure until all
    channels and the arithmetic are well again; `refused` counts for each channel the implausible
    measurements in a row, `failed` the failed steps in a row, `settling` the measurements to come
    from which no noise is learned. `safe_x` is the last state that is known to be good, `next_x`
    one that will be if the steps since stay `clean`; both have their variances.
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
    safe_variances: States
    next_x: States
    next_variances: States

    def after_step(self, dt: Steps) -> "Recovery":
        """What changes with every step."""
        longer = clock_ok(self, dt) & (dt > self.longest_dt)
        longest = jnp.where(longer, dt, self.longest_dt)
        return self._replace(steps=self.steps + 1.0, longest_dt=longest)

    def due(self, ok: Flags) -> Flags:
        """Whether there is anything to do for `recover` after a step."""
        return ~ok | (self.alert > 0.0) | (self.steps >= PERIOD)


def begin(x0: States, P0: Covariances, r: Measurements) -> Recovery:
    """Before the first step; the start is what one can go back to."""
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
    """Whether a dt is no error of the clock."""
    return (dt <= LONGEST_RATIO * recovery.longest_dt) | (recovery.longest_dt == 0.0)


def largest(dtype: Any) -> float:
    """The product of two numbers beyond this overflows."""
    return float(jnp.finfo(dtype).max) ** 0.5


class Recovering(eqx.Module):
    """A filter that recovers: its step is a `plain_step`, and `recover` where that is due."""

    @abstractmethod
    def init(self, x0: States, P0: Covariances) -> Any:
        """The filter before its first measurement; its `recovery` is what `begin` gives."""

    @abstractmethod
    def plain_step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any, Verdict]:
        """One step, and what came of it; the new state's `recovery` is that of `after_step`."""

    def step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        state, said, verdict = self.plain_step(state, z, u, dt, arrived)
        return self.recovered(state, verdict), said

    def recovered(self, state: Any, verdict: Verdict) -> Any:
        """The state after `recover`, for the records where that is due."""
        due = state.recovery.due(verdict.ok)
        constant, given = _without_derivatives((self, state))

        def recover(given: tuple[Any, Any]) -> tuple[Any, Any]:
            old = given[0]
            return _where(due, constant.recover(old, verdict), old), jnp.zeros((), bool)

        # A loop of one turn or none: unlike a branch, it copies no state that stays as it is
        given = given, jnp.any(due)
        new, _ = jax.lax.while_loop(lambda given: given[1], recover, given)
        return _followed(state, new, new.recovery.restarts == state.recovery.restarts)

    def recover(self, state: Any, verdict: Verdict) -> Any:
        """Count, note a good state, widen and bound P, forget the noise, or start anew."""
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
        counts = _noted(counts, verdict, x, variances)
        x = jnp.clip(x, -most, most)
        nominal = self.restarted(state, x, P)._replace(recovery=counts)
        state = _where(counts.settling > 0.0, nominal, state._replace(x=x, P=P, recovery=counts))

        safe_P = diagonal_matrix(jnp.minimum(RESTART_SIGMAS**2 * counts.safe_variances, most))
        begun = begin(counts.safe_x, safe_P, counts.refused)
        begun = begun._replace(steps=counts.steps, restarts=counts.restarts + 1.0)
        anew = self.restarted(state, counts.safe_x, safe_P)._replace(recovery=begun)
        restart = counts.failed > PATIENCE
        return _where(restart, anew, state)

    def restarted(self, state: Any, x: States, P: Covariances) -> Any:
        """The state of a filter that starts anew at x and P."""
        return self.init(x, P)


def _variances(P: Covariances) -> States:
    """The diagonal of P, in one operation: this compiles fast, and is fast outside of `jit`."""
    return jnp.moveaxis(jnp.diagonal(P), -1, 0)


def _where(flag: Flags, new: Any, old: Any) -> Any:
    """`new` for the flagged records, `old` for the others; what is the same for both stays."""
    return jax.tree.map(lambda a, b: b if a is b else jnp.where(flag, a, b), new, old)


def _counted(recovery: Recovery, verdict: Verdict, variances: States) -> Recovery:
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


def _noted(recovery: Recovery, verdict: Verdict, x: States, variances: States) -> Recovery:
    """At the end of a period the state noted before is safe, if all went well since.

    A state that nothing was measured of is not noted.
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
def _followed(state: Any, recovered: Any, went_on: Flags) -> Any:
    """The recovered state; derivatives pass by `recover`, and end where a filter started anew."""
    return recovered


def _followed_backward(went_on: Flags, bar: Any) -> tuple[Any, None, None]:
    def ended(b: Any) -> Any:
        return b if b.dtype == jax.dtypes.float0 else jnp.where(went_on, b, 0.0)

    return jax.tree.map(ended, bar), None, None


_followed.defvjp(lambda state, recovered, went_on: (recovered, went_on), _followed_backward)
