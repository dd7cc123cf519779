"""One policy for models of any size: a network for a measured channel, and one for a state.

Every channel is judged by the same network from dimensionless numbers, so the order, the number,
the units and the signs of channels and states make no difference. What it remembers are running
means, which forget at known rates, and sums of tests, which are bounded: nothing can run away
however long the record, and a flight computer needs no exponentials for it.

What tells a Q that is too large from one that is too small is the derivative of the prediction by
the gain, as in the recursive prediction error method. Had every gain been larger by a small share,
the estimate would lie elsewhere by that share of the `sway` psi, which follows the filter's own
error dynamics: psi+ = psi + K (nu - H psi), then F psi+. Where innovations go with H psi, the gain
was too small; where they go against it, too large; and their regression on it says by how much.
A channel and a state see that regression of their own, and a state also that of all channels
together: what one channel hardly knows, all of them may. Each also sees how its r or q stands
beside what it usually was: what has long been much the same need not follow every doubt.

Until something is proven wrong (`doubt.py`) the filter is the nominal EKF. From then on its P also
holds what a curved f adds to it: how far f bends within the estimate's uncertainty, along the sway.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.filters.kernels import diagonal, matmul, matvec, whiten
from sagewing.filters.recursion import GainNoise
from sagewing.filters.rules import Around, Attenuation, Seen
from sagewing.policy import doubt as doubts
from sagewing.policy.channel_network import (
    Banks,
    Channels,
    Network,
    Rows,
    Said,
    Table,
    share_of_now,
)
from sagewing.policy.doubt import Doubt
from sagewing.policy.noise import Noise
from sagewing.policy.storage import number
from sagewing.policy.trained_in import Inside, TrainedIn
from sagewing.shapes import Arrived, Measurements, States

RATES = (0.1, 0.015, 0.002)  # of the running means of squares and of products
LARGEST_SQUARE = 16.0  # times its variance that a square counts in a mean
MOST_SWAY = 10.0  # standard deviations
MOST_BEND = 0.5  # standard deviations
MOST_TOGETHER = 3.0  # standard deviations of an innovation, in the regression of all channels
LEAST_SWAY = 1e-4  # of the variance: a smaller square says nothing
LARGEST = 1e15  # times the base noise that a variance counts
LEAST = 1e-12  # whose square is still a number
TINY = 1e-30  # keeps a quotient of nothing by nothing a number
SMALL = 0.01  # of a normalised square: less is no news
CLIP = 8.0  # of a feature that is not bounded by itself
LEAST_YOUTH = 0.03  # 1 / sqrt(k) falls no further: what is learned at 1,000 steps holds for ever
MEASURED, STATE = 23, 20  # features of a channel and of a state
OF_DOUBT = len(doubts.TOGETHER)  # those that all channels have in common
COMMON = OF_DOUBT + 2 * len(RATES)  # those that all states have
STEP_R, STEP_Q = 0.5, 0.3  # the largest change of log r and log q in a step
RELAXATION = 0.0005  # of log q and log r toward their base in a step: without news they go back
MOST_INFLATION = 12.0  # of log r, for a step
CALM_D, CALM_INFLATION = -6.0, -5.0  # added to what the head says: at first, hardly anything
MOST_SIZE = 512


class Memory(NamedTuple):
    """Of every channel: what it said last, how often it has spoken, and the running means.

    The learned ones stand channel by channel, so that in C they are one vector each. States speak
    all at once, so that one count is enough, and their last word is part of the sway.
    """

    last: Channels | None
    times: Channels
    means: Float[Array, "values rates n *batch"]
    bank: Banks


class Memories(NamedTuple):
    """Those of channels and of states, and how a larger gain would have moved the estimate.

    `of_all` are the running means of the regression of all channels together; `doubt` is what
    speaks against the nominal noise.
    """

    of_r: Memory
    of_q: Memory
    sway: States
    of_all: Float[Array, "values rates *batch"]
    doubt: Doubt


class Universal(TrainedIn):
    """The policy that adapts Q and R of any model; see docs/universal.md.

    It adapts nothing until the evidence that something is wrong comes to `proof`, a logarithm of
    likelihoods. `reach` is at how many standard deviations the bend of f is taken; 0: not at all.

    Example: `sw.NDRSageHusa(model, Q0, R0, policy=sw.Policy.pretrained("universal"))`
    """

    kind: ClassVar[str] = "universal"
    bank: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    proof: float = eqx.field(static=True)
    reach: float = eqx.field(static=True)
    measured: Network
    state: Network

    def __init__(
        self,
        bank: int = 8,
        hidden: tuple[int, ...] = (16, 8),
        bounds: tuple[float, float] = (1e-5, 1e4),
        gain_noise: GainNoise = "posterior",
        nominal: Noise | None = None,
        gate: float | None = None,
        adapts_in: tuple[int, ...] | None = None,
        proof: float = 0.0,
        reach: float = 0.0,
        *,
        key: PRNGKeyArray,
    ):
        super().__init__(Inside(bounds, gain_noise, nominal, gate, adapts_in))
        if not hidden:
            raise InputError("The universal policy needs a hidden layer; got none.")
        for size in (bank, *hidden):
            if type(size) is not int or not 1 <= size <= MOST_SIZE:
                raise InputError(f"A layer has 1..{MOST_SIZE} neurons; got {size!r}.")
        if proof != 0.0 and not doubts.LEAST_PROOF < proof < doubts.MOST:
            raise InputError(
                f"A proof is 0, for none, or between {doubts.LEAST_PROOF:g} and {doubts.MOST:g}; "
                f"got {proof!r}."
            )
        if not 0.0 <= reach < math.inf:
            raise InputError(f"The reach of a bend is not negative; got {reach!r}.")
        k_measured, k_state = jax.random.split(key)
        self.bank = bank
        self.hidden = hidden
        self.proof, self.reach = proof, reach
        self.measured = Network(MEASURED, bank, hidden, 3, OF_DOUBT, key=k_measured)
        self.state = Network(STATE, bank, hidden, 2, COMMON, key=k_state)

    def init(self, q: States, r: Measurements) -> Memories:
        """Nothing seen yet."""

        def means(v: jax.Array, values: int) -> tuple[jax.Array, jax.Array]:
            known = jnp.zeros((values, len(RATES), *v.shape), v.dtype)
            return known, jnp.zeros((len(v), self.bank, *v.shape[1:]), v.dtype)

        none_r, none_q = jnp.zeros_like(r), jnp.zeros_like(q)
        of_q = Memory(None, none_q[:1], *means(q, 5))
        of_all = jnp.zeros((2, len(RATES), *q.shape[1:]), q.dtype)
        of_r = Memory(none_r, none_r, *means(r, 7))
        return Memories(of_r, of_q, none_q, of_all, doubts.none_yet(r))

    def __call__(self, memory: Memories, seen: Seen) -> tuple[Attenuation, Memories, Measurements]:
        """Shares, factors and inflation of every channel; what did not arrive changes nothing.

        Training is shown the logarithm of the inflation.
        """
        (of_r, of_q, sway, of_all, doubt), around = memory, seen.around
        if around is None:
            raise InputError(
                "The universal policy must see the filter around it: use sw.NDRSageHusa."
            )
        switched = around.switched
        if switched is not None:
            of_r = jax.tree.map(lambda a: jnp.where(switched, 0.0, a), of_r)
            doubt = doubt._replace(alone=jnp.where(switched, 0.0, doubt.alone))
        ahead = matvec(around.F, sway)
        bent = bend(around, self.reach, sway, ahead, seen.arrived) if self.reach > 0.0 else None
        sway = _within(ahead, MOST_SWAY * jnp.sqrt(around.P))
        S = diagonal(seen.S)
        expected = _within(matvec(around.H, sway), MOST_SWAY * jnp.sqrt(S))
        by_gain = whiten(seen.L, jnp.where(seen.arrived, expected, 0.0))
        doubt = doubts.weighed(doubt, self.proof, seen.white, by_gain, seen.nu**2 / S, seen.arrived)
        proven = doubt.proven > 0.0
        of_doubt = _observed([*(doubt.together / doubts.MOST)])
        (d_r, up, step_r), of_r = self._measured(of_r, seen, around, expected, of_doubt)
        inflate = 1.0 + jnp.exp(jnp.minimum(up + CALM_INFLATION, MOST_INFLATION))
        inflate = jnp.where(proven, inflate, 1.0)
        inflation = jnp.log(inflate)
        heard = S / (S + seen.r * (inflate - 1.0))
        times, of_all = _together(of_all, of_q.times, seen, expected, heard)
        common = _observed([*of_doubt, *_evidence(of_all, times[0])])
        (d_q, step_q), of_q = self._states(
            of_q._replace(times=times),
            seen,
            around,
            inflation,
            matvec(seen.K, expected),
            common,
        )
        sway = jax.lax.stop_gradient(sway + matvec(seen.K, heard * (seen.nu - expected)))
        decision = Attenuation(
            q=jnp.where(proven, jax.nn.sigmoid(d_q + CALM_D), 0.0),
            r=jnp.where(proven, jax.nn.sigmoid(d_r + CALM_D), 0.0),
            scale_q=jnp.where(proven, _factor(STEP_Q, step_q, seen.q, around.q0 + TINY), 1.0),
            scale_r=jnp.where(proven, _factor(STEP_R, step_r, seen.r, around.r0), 1.0),
            inflate_r=inflate,
            bend=None if bent is None else jnp.where(proven, bent, 0.0),
        )
        return decision, Memories(of_r, of_q, sway, of_all, doubt), inflation

    def _measured(
        self,
        memory: Memory,
        seen: Seen,
        around: Around,
        expected: Measurements,
        common: Rows,
    ) -> tuple[Said, Memory]:
        """Is a channel noisier than its r says, or does the filter not follow it?"""
        r, r0, S = seen.r / around.r0, around.r0, diagonal(seen.S)
        x, s = seen.nu / jnp.sqrt(r0), jnp.minimum(S / r0, LARGEST)
        assert memory.last is not None
        surprise = jnp.log(x**2 / s + SMALL)
        count = memory.times + seen.arrived
        values = [
            *_squares(x, memory.last, s),
            jnp.maximum(s - r, 0.0),
            *_regressed(x, expected / jnp.sqrt(r0), s),
        ]
        changed = jnp.log((seen.r + TINY) / r0)
        known = _averaged(memory.means, [*values, surprise, changed], count, seen.arrived)
        squares, products, predicted, cross, own, surprises, usual = known
        y = [
            _clipped(surprise),
            values[1] / (jnp.abs(values[1]) + s),
            *_contrast(squares, predicted + r),
            *_clipped(products / (squares + TINY)),
            *_slopes(cross, own, squares, s),
            *_contrast(jnp.maximum(squares - predicted, 0.0), r),
            _clipped(surprises[1]),
            _clipped(changed),
            _clipped(jnp.log(S / seen.r)),
            _youth(count),
            *_clipped(changed - usual[1:]),
        ]
        said, bank = self.measured(_observed(y), memory.bank, count, seen.arrived, common)
        last = jnp.where(seen.arrived, x, memory.last)
        return said, Memory(last, count, known, bank)

    def _states(
        self,
        memory: Memory,
        seen: Seen,
        around: Around,
        refused: Measurements,
        expected: States,
        common: Rows,
    ) -> tuple[Said, Memory]:
        """Is a state corrected more than its q explains, and again and again the same way?"""
        q0 = around.q0 + TINY
        KL = matmul(seen.K, seen.L)
        moved = sum(jnp.moveaxis(KL**2, 1, 0), jnp.zeros_like(q0)) + TINY  # diag K S K^T
        x = matvec(seen.K, seen.nu) / jnp.sqrt(q0)
        s = jnp.minimum(moved / q0, LARGEST)
        # How much of what moves this state was refused as an outlier, channel by channel.
        pull = seen.K**2 * diagonal(seen.S)[None]
        of_outliers = matvec(pull, refused) / (matvec(pull, jnp.ones_like(refused)) + TINY)
        heard = jnp.broadcast_to(jnp.any(seen.arrived, axis=0), x.shape)
        times = memory.times
        count = jnp.broadcast_to(times, x.shape)
        values = [
            jnp.minimum(x**2, LARGEST_SQUARE * s),
            s,
            *_regressed(x, expected / jnp.sqrt(q0), s),
        ]
        changed = 0.5 * jnp.log((seen.q + TINY) / q0)
        known = _averaged(memory.means, [*values, changed], count, heard)
        squares, predicted, cross, own, usual = known
        corrected = moved / (around.P + TINY)
        of_others = jnp.sum(corrected * changed, axis=0) / (jnp.sum(corrected, axis=0) + TINY)
        y = [
            _clipped(jnp.log(x**2 / s + SMALL)),
            values[2] / (jnp.abs(values[2]) + s),
            *_contrast(squares, predicted),
            *_slopes(cross, own, squares, s),
            _clipped(changed),
            _clipped(0.5 * jnp.log((seen.q + TINY) / (jnp.maximum(around.FPF, 0.0) + TINY))),
            _clipped(0.5 * jnp.log(moved / (seen.q + TINY))),
            _clipped(0.5 * jnp.log(corrected)),
            jnp.minimum(of_outliers, CLIP),
            _youth(count),
            _clipped(changed - of_others),
            *_clipped(changed - usual[1:]),
        ]
        said, bank = self.state(_observed(y), memory.bank, count, heard, common)
        return said, Memory(None, times, known, bank)

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Any will do."""

    def card(self) -> dict[str, Any]:
        """The sizes, and the filter that the policy was trained in."""
        sizes = {"bank": self.bank, "hidden": list(self.hidden)}
        sizes |= {"proof": self.proof, "reach": self.reach}
        return {"architecture": sizes, **super().card()}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Universal":
        """A policy of these sizes."""
        sizes, own = card["architecture"], Inside.from_card(card)
        more = (number(sizes["proof"]), number(sizes["reach"]))
        return cls(sizes["bank"], tuple(sizes["hidden"]), *own, *more, key=jax.random.key(0))


def bend(around: Around, reach: float, sway: States, ahead: States, arrived: Arrived) -> States:
    """How far f takes the estimate from where F does, within the estimate's own uncertainty.

    Along the sway, of which F makes `ahead`, as far as takes one state to `reach` standard
    deviations; only where something arrives, which keeps P from growing by its own size.
    """
    longest = jnp.max(jnp.abs(sway) / jnp.sqrt(around.before + TINY), axis=0)
    scale = reach / (longest + TINY)
    bent = around.elsewhere(scale * sway) - scale * ahead
    bent = _within(bent, MOST_BEND * jnp.sqrt(around.P))
    return jax.lax.stop_gradient(jnp.where(jnp.any(arrived, axis=0), bent, 0.0))


def _averaged(means: Rows, values: Sequence[Rows], count: Rows, heard: Rows) -> Rows:
    """The running means of every value at all rates, with what is new."""
    share = share_of_now(jnp.asarray(RATES, count.dtype), count, heard)
    new = [mean + share * (value - mean) for mean, value in zip(means, values, strict=True)]
    return jax.lax.stop_gradient(jnp.stack(new))


def _together(
    means: Rows, times: Channels, seen: Seen, expected: Measurements, heard: Measurements
) -> tuple[Channels, Rows]:
    """One more time that anything arrived, and the regression of all that did on the sway."""
    # Cut and weighed channel by channel, before whitening: their order must not matter
    weight, most = jnp.sqrt(heard), MOST_TOGETHER * jnp.sqrt(diagonal(seen.S))
    white = whiten(seen.L, weight * jnp.clip(seen.nu, -most, most))
    by_gain = whiten(seen.L, weight * jnp.where(seen.arrived, expected, 0.0))
    any_arrived = jnp.any(seen.arrived, axis=0)
    times = times + any_arrived
    values = [jnp.sum(a * by_gain, axis=0) for a in (white, by_gain)]
    return times, _averaged(means, values, times[0], any_arrived)


def _evidence(means: Rows, times: Rows) -> list[Rows]:
    """At each rate: by how much the gain is wrong, and how sure that is; between -1 and 1."""
    cross, own = means[0], means[1] + LEAST_SWAY
    share = share_of_now(jnp.asarray(RATES, means.dtype), times, jnp.ones_like(times, bool))
    sure = cross / jnp.sqrt(own * share)
    return [*(cross / (jnp.abs(cross) + own)), *(sure / (2.0 + jnp.abs(sure)))]


def _squares(x: Channels, last: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x^2 and x times the last one, within reason."""
    most = LARGEST_SQUARE * variance
    return jnp.minimum(x**2, most), jnp.clip(x * last, -most, most)


def _regressed(x: Channels, expected: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x times what a larger gain would have changed, and the square of that, within reason."""
    most = LARGEST_SQUARE * variance
    return jnp.clip(x * expected, -most, most), jnp.minimum(expected**2, most)


def _slopes(cross: Table, own: Table, squares: Table, variance: Channels) -> Rows:
    """How x goes with what was expected: the correlations, and the slopes, between -1 and 1."""
    least = LEAST_SWAY * variance + LEAST
    own = own + least
    correlation = cross / jnp.sqrt((squares + least) * own)
    return jnp.concatenate([correlation, cross / (jnp.abs(cross) + own)])


def _within(a: States, most: States) -> States:
    """`a`, at most so large; zero where it is no number."""
    a = jnp.clip(a, -most, most)
    return jnp.where(jnp.isnan(a), 0.0, a)


def _contrast(a: jax.Array, b: jax.Array) -> jax.Array:
    """tanh(log(a / b) / 2), for positive numbers."""
    return (a - b) / (a + b + TINY)


def _factor(largest: float, step: Channels, now: Channels, base: Channels) -> Channels:
    """What the head says, and a little of the way back to the base."""
    back = RELAXATION * jnp.log((now + TINY) / base)
    return jnp.exp(largest * jax.nn.soft_sign(step) - back)


def _youth(count: Channels) -> Channels:
    return jnp.maximum(1.0 / jnp.sqrt(count + 1.0), LEAST_YOUTH)


def _clipped(a: Rows) -> Rows:
    """Not too large a number."""
    return jnp.clip(a, -CLIP, CLIP)


def _observed(y: Sequence[Rows]) -> Rows:
    """The features: what a descent does not go back through."""
    return jax.lax.stop_gradient(jnp.stack(y))
