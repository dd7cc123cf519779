"""How a filter that was led astray finds its way back.

A step refuses what cannot be true: a measurement that is not plausible under S, a prediction that
is not finite, a dt that is far beyond all before it. It also counts how often that happened in a
row (`Recovery`). Between two steps `recover` acts on these counts. A channel that stays implausible
widens P until it is plausible again, because then the filter is what is wrong. A filter whose
arithmetic keeps failing starts anew from the last state that was known to be good.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.kernels import diagonal, diagonal_matrix
from sagewing.shapes import Arrived, Covariances, Flags, Inputs, Measurements, States, Steps, Values

# So many failures in a row, or refused measurements of a channel, are borne.
PATIENCE = 5.0
# After these P is widened at every step, so that its deviations double, this often at most.
WIDENINGS = 64.0
# A dt that is this many times the longest one before it is an error of the clock.
LONGEST_RATIO = 1e4
# A state is known to be good when so many good steps have followed it.
GOOD_STEPS = 16.0
# The deviations after a restart, in those of the state that it goes back to.
RESTART_SIGMAS = 10.0


class Recovery(NamedTuple):
    """What a filter remembers of its troubles.

    `refused` counts for each channel the implausible measurements in a row, `failed` the failed
    steps in a row, `restarts` all restarts so far. `longest_dt` is the longest dt that is believed
    (0: any). `safe_x` is the last state that is known to be good, `next_x` one that will be when
    `good` is `GOOD_STEPS`; both have their variances. `due` is whether `recover` has anything
    to do.
    """

    refused: Measurements
    failed: Values
    good: Values
    restarts: Values
    longest_dt: Values
    due: Flags
    safe_x: States
    safe_variances: States
    next_x: States
    next_variances: States


def largest(dtype: Any) -> float:
    """Beyond this neither states nor variances grow: their products would overflow."""
    return float(jnp.finfo(dtype).max) ** 0.5


def begin(x0: States, P0: Covariances, r: Measurements) -> Recovery:
    """Before the first step; the start is what one can go back to."""
    zero, variances = jnp.zeros_like(x0[0]), diagonal(P0)
    due = jnp.zeros_like(x0[0], bool)
    known = (x0, variances, x0, variances)
    return Recovery(jnp.zeros_like(r), zero, zero, zero, zero, due, *known)


def clock_ok(recovery: Recovery, dt: Steps) -> Flags:
    """Whether a dt is no error of the clock."""
    return (dt <= recovery.longest_dt) | (recovery.longest_dt == 0.0)


def after_step(
    recovery: Recovery, dt: Steps, arrived: Arrived, kept: Arrived, finite: Flags
) -> tuple[Recovery, Flags]:
    """The counts after a step, and whether all was well with it.

    `arrived` and `kept` are the channels that were measured and those that were used; `finite` is
    False where the prediction or the correction failed.
    """
    refused = jnp.where(kept, 0.0, recovery.refused + 1.0)
    refused = jnp.where(arrived, refused, recovery.refused)
    ok = finite & jnp.all(kept | ~arrived, axis=0)
    good = jnp.where(ok, recovery.good + 1.0, -GOOD_STEPS)
    due = (good == 0.0) | (good >= GOOD_STEPS) | ~finite
    recovery = recovery._replace(
        refused=refused,
        failed=jnp.where(finite, 0.0, recovery.failed + 1.0),
        good=good,
        longest_dt=jnp.where(
            finite, jnp.maximum(recovery.longest_dt, LONGEST_RATIO * dt), recovery.longest_dt
        ),
        due=due | jnp.any(refused > PATIENCE, axis=0),
    )
    return recovery, ok


class Recovering(eqx.Module):
    """A filter that recovers: its step is a `plain_step`, after which its state is looked after."""

    @abstractmethod
    def init(self, x0: States, P0: Covariances) -> Any:
        """The filter before its first measurement; its `recovery` is what `begin` gives."""

    @abstractmethod
    def plain_step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any]:
        """One step, of which `after_step` keeps the counts."""

    def step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Any]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        state, said = self.plain_step(state, z, u, dt, arrived)
        return self.recovered(state), said

    def recovered(self, state: Any) -> Any:
        """`recover`, where it is due."""
        return jax.lax.cond(
            jnp.any(state.recovery.due), lambda s: self.recover(s), lambda s: s, state
        )

    def recover(self, state: Any) -> Any:
        """Note a good state, widen or bound P, or start anew, as the counts say."""
        counts, x, P = state.recovery, state.x, state.P
        variances = diagonal(P)
        promote = counts.good >= GOOD_STEPS
        note = promote | (counts.good == 0.0)
        tried = (counts.refused > PATIENCE) & (counts.refused <= PATIENCE + WIDENINGS)
        widen = (counts.failed > 0.0) | jnp.any(tried, axis=0)
        restart = counts.failed > PATIENCE

        most = 1e-3 * largest(x.dtype) / x.shape[0]
        shrink = jnp.sqrt(jnp.minimum(most / jnp.maximum(variances, most), 1.0))
        P = shrink[:, None] * P * shrink[None]
        # Four times the variances and twice the covariances: positive definite after some of these
        P = jnp.where(widen, 2.0 * (P + diagonal_matrix(diagonal(P))), P)
        counts = counts._replace(
            good=jnp.where(promote, 0.0, counts.good),
            due=jnp.zeros_like(counts.due),
            safe_x=jnp.where(promote, counts.next_x, counts.safe_x),
            safe_variances=jnp.where(promote, counts.next_variances, counts.safe_variances),
            next_x=jnp.where(note, x, counts.next_x),
            next_variances=jnp.where(note, variances, counts.next_variances),
        )
        state = state._replace(x=jnp.clip(x, -most, most), P=P, recovery=counts)
        P = diagonal_matrix(jnp.minimum(RESTART_SIGMAS**2 * counts.safe_variances, most))
        counts = begin(counts.safe_x, P, counts.refused)._replace(restarts=counts.restarts + 1.0)
        anew = self.restarted(state, counts.safe_x, P)._replace(recovery=counts)
        return jax.tree.map(lambda a, b: jnp.where(restart, a, b), anew, state)

    def restarted(self, state: Any, x: States, P: Covariances) -> Any:
        """The state of a filter that starts anew at x and P."""
        return self.init(x, P)
