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
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.filters.kernels import diagonal, matmul, matvec, whiten
from sagewing.filters.protocols import GainNoise
from sagewing.filters.step import Attenuation, Linearization, StepInfo
from sagewing.policy.filter_settings import Inside, TrainedIn
from sagewing.policy.ndr.architecture import DEEPEST
from sagewing.policy.noise import Noise
from sagewing.policy.storage import number
from sagewing.policy.universal import cusum as doubts
from sagewing.policy.universal.cusum import Doubt
from sagewing.policy.universal.features import (
    LARGEST_SQUARE,
    RATES,
    TINY,
    averaged,
    clipped,
    contrast,
    evidence,
    observed,
    regressed,
    slopes,
    square_and_product,
    together,
    within,
    youth,
)
from sagewing.policy.universal.network import Banks, Channels, Network, Rows, Said
from sagewing.shapes import Arrived, Measurements, States

MOST_SWAY = 10.0  # standard deviations
MOST_BEND = 0.5  # standard deviations
LARGEST = 1e15  # times the base noise that a variance counts
SMALL = 0.01  # of a normalised square: less is no news
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
        if not 1 <= len(hidden) <= DEEPEST:
            raise InputError(f"hidden must be the sizes of 1..{DEEPEST} layers; got {len(hidden)}.")
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

    def __call__(
        self, memory: Memories, info: StepInfo
    ) -> tuple[Attenuation, Memories, Measurements]:
        """Shares, factors and inflation of every channel; what did not arrive changes nothing.

        Training is shown the logarithm of the inflation.
        """
        of_r, of_q, sway, of_all, doubt = memory
        linear = info.linear
        if linear is None:
            raise InputError("The universal policy needs the step of a filter: use sw.NDRSageHusa.")
        if linear.mode_changed is not None:
            changed = linear.mode_changed
            of_r = jax.tree.map(lambda a: jnp.where(changed, 0.0, a), of_r)
            doubt = doubt._replace(alone=jnp.where(changed, 0.0, doubt.alone))
        ahead = matvec(linear.F, sway)
        bent = bend(linear, self.reach, sway, ahead, info.arrived) if self.reach > 0.0 else None
        sway = within(ahead, MOST_SWAY * jnp.sqrt(diagonal(linear.P_pred)))
        S = diagonal(info.S)
        expected = within(matvec(linear.H, sway), MOST_SWAY * jnp.sqrt(S))
        by_gain = whiten(info.L, jnp.where(info.arrived, expected, 0.0))
        doubt = doubts.weighed(doubt, self.proof, info.white, by_gain, info.nu**2 / S, info.arrived)
        proven = doubt.proven > 0.0
        of_doubt = observed([*(doubt.together / doubts.MOST)])
        (d_r, up, step_r), of_r = self._measured(of_r, info, linear, expected, of_doubt)
        inflate = 1.0 + jnp.exp(jnp.minimum(up + CALM_INFLATION, MOST_INFLATION))
        inflate = jnp.where(proven, inflate, 1.0)
        inflation = jnp.log(inflate)
        heard = S / (S + info.r * (inflate - 1.0))
        times, of_all = together(of_all, of_q.times, info, expected, heard)
        common = observed([*of_doubt, *evidence(of_all, times[0])])
        (d_q, step_q), of_q = self._states(
            of_q._replace(times=times), info, linear, inflation, matvec(info.K, expected), common
        )
        sway = jax.lax.stop_gradient(sway + matvec(info.K, heard * (info.nu - expected)))
        decision = Attenuation(
            q=jax.nn.sigmoid(d_q + CALM_D),
            r=jax.nn.sigmoid(d_r + CALM_D),
            scale_q=_factor(STEP_Q, step_q, info.q, linear.q0 + TINY),
            scale_r=_factor(STEP_R, step_r, info.r, linear.r0),
            inflate_r=inflate,
            curvature=bent,
        )
        return decision.where(proven), Memories(of_r, of_q, sway, of_all, doubt), inflation

    def _measured(
        self,
        memory: Memory,
        info: StepInfo,
        linear: Linearization,
        expected: Measurements,
        common: Rows,
    ) -> tuple[Said, Memory]:
        """Is a channel noisier than its r says, or does the filter not follow it?"""
        r, r0, S = info.r / linear.r0, linear.r0, diagonal(info.S)
        x, s = info.nu / jnp.sqrt(r0), jnp.minimum(S / r0, LARGEST)
        assert memory.last is not None
        surprise = jnp.log(x**2 / s + SMALL)
        count = memory.times + info.arrived
        values = [
            *square_and_product(x, memory.last, s),
            jnp.maximum(s - r, 0.0),
            *regressed(x, expected / jnp.sqrt(r0), s),
        ]
        changed = jnp.log((info.r + TINY) / r0)
        known = averaged(memory.means, [*values, surprise, changed], count, info.arrived)
        squares, products, predicted, cross, own, surprises, usual = known
        y = [
            clipped(surprise),
            values[1] / (jnp.abs(values[1]) + s),
            *contrast(squares, predicted + r),
            *clipped(products / (squares + TINY)),
            *slopes(cross, own, squares, s),
            *contrast(jnp.maximum(squares - predicted, 0.0), r),
            clipped(surprises[1]),
            clipped(changed),
            clipped(jnp.log(S / info.r)),
            youth(count),
            *clipped(changed - usual[1:]),
        ]
        said, bank = self.measured(observed(y), memory.bank, count, info.arrived, common)
        last = jnp.where(info.arrived, x, memory.last)
        return said, Memory(last, count, known, bank)

    def _states(
        self,
        memory: Memory,
        info: StepInfo,
        linear: Linearization,
        refused: Measurements,
        expected: States,
        common: Rows,
    ) -> tuple[Said, Memory]:
        """Is a state corrected more than its q explains, and again and again the same way?"""
        q0 = linear.q0 + TINY
        KL = matmul(info.K, info.L)
        moved = sum(jnp.moveaxis(KL**2, 1, 0), jnp.zeros_like(q0)) + TINY  # diag K S K^T
        x = matvec(info.K, info.nu) / jnp.sqrt(q0)
        s = jnp.minimum(moved / q0, LARGEST)
        # How much of what moves this state was refused as an outlier, channel by channel.
        pull = info.K**2 * diagonal(info.S)[None]
        of_outliers = matvec(pull, refused) / (matvec(pull, jnp.ones_like(refused)) + TINY)
        heard = jnp.broadcast_to(jnp.any(info.arrived, axis=0), x.shape)
        times = memory.times
        count = jnp.broadcast_to(times, x.shape)
        values = [
            jnp.minimum(x**2, LARGEST_SQUARE * s),
            s,
            *regressed(x, expected / jnp.sqrt(q0), s),
        ]
        changed = 0.5 * jnp.log((info.q + TINY) / q0)
        known = averaged(memory.means, [*values, changed], count, heard)
        squares, predicted, cross, own, usual = known
        propagated = jnp.maximum(diagonal(linear.FPF), 0.0)
        corrected = moved / (diagonal(linear.P_pred) + TINY)
        of_others = jnp.sum(corrected * changed, axis=0) / (jnp.sum(corrected, axis=0) + TINY)
        y = [
            clipped(jnp.log(x**2 / s + SMALL)),
            values[2] / (jnp.abs(values[2]) + s),
            *contrast(squares, predicted),
            *slopes(cross, own, squares, s),
            clipped(changed),
            clipped(0.5 * jnp.log((info.q + TINY) / (propagated + TINY))),
            clipped(0.5 * jnp.log(moved / (info.q + TINY))),
            clipped(0.5 * jnp.log(corrected)),
            clipped(of_outliers),
            youth(count),
            clipped(changed - of_others),
            *clipped(changed - usual[1:]),
        ]
        said, bank = self.state(observed(y), memory.bank, count, heard, common)
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


def bend(
    linear: Linearization, reach: float, sway: States, ahead: States, arrived: Arrived
) -> States:
    """How far f takes the estimate from where F does, within the estimate's own uncertainty.

    Along the sway, of which F makes `ahead`, as far as takes one state to `reach` standard
    deviations; only where something arrives, which keeps P from growing by its own size.
    """
    longest = jnp.max(jnp.abs(sway) / jnp.sqrt(diagonal(linear.P) + TINY), axis=0)
    scale = reach / (longest + TINY)
    bent = linear.nonlinear_offset(scale * sway) - scale * ahead
    bent = within(bent, MOST_BEND * jnp.sqrt(diagonal(linear.P_pred)))
    return jax.lax.stop_gradient(jnp.where(jnp.any(arrived, axis=0), bent, 0.0))


def _factor(largest: float, step: Channels, now: Channels, base: Channels) -> Channels:
    """What the head says, and a little of the way back to the base."""
    back = RELAXATION * jnp.log((now + TINY) / base)
    return jnp.exp(largest * jax.nn.soft_sign(step) - back)
