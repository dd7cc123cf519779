"""One policy for models of any size: a network for a measured channel, and one for a state.

Every channel goes through the same network as dimensionless numbers, so the order, the number, the
units and the signs of channels and states make no difference. Its memory consists of running means
at known rates and of sums of tests. Both are bounded, so that it is stable on records of any
length, and a flight computer needs no exponentials for it.

The derivative of the prediction by the gain shows whether Q is too large or too small, as in the
recursive prediction error method. If every gain had been larger by a small factor 1 + e, the
estimate would differ by e psi, where the gain sensitivity psi follows the filter's own error
dynamics: psi+ = psi + K (nu - H psi), then F psi+. A positive correlation of innovations with H psi
means that the gain was too small, a negative one that it was too large; the regression on H psi
gives the amount. Every channel and every state has its own regression, and a state also has that of
all channels together, which may be more sensitive than one channel. Each also has the ratio of
its r or q to its running mean, so that a long steady noise estimate need not follow fluctuations.

Until a test raises an alarm (`cusum.py`) the filter is the nominal EKF. After it, P also includes
the curvature of f: the error of its linearisation within the estimate's uncertainty, along the gain
sensitivity.
"""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from sagewing.errors import InputError
from sagewing.filters.kernels import diagonal, matmul, matvec, whiten
from sagewing.filters.protocols import Dense, GainNoise
from sagewing.filters.step import Attenuation, Linearization, StepInfo
from sagewing.policy.filter_settings import FilterSettings, StoredPolicy
from sagewing.policy.ndr.architecture import DEEPEST
from sagewing.policy.noise import Noise
from sagewing.policy.storage import number
from sagewing.policy.universal import cusum, settings
from sagewing.policy.universal.curvature import curvature
from sagewing.policy.universal.features import (
    clipped,
    contrast,
    gain_error,
    joint_regression,
    limited,
    novelty,
    regressed,
    running_means,
    slopes,
    square_and_product,
    stacked,
)
from sagewing.policy.universal.memory import ChannelMemory, UniversalMemory
from sagewing.policy.universal.network import ChannelNetwork, Channels, Outputs, Rows
from sagewing.policy.universal.settings import (
    BIAS_INFLATION,
    BIAS_SHARE,
    CHANNEL_FEATURES,
    COMMON_FEATURES,
    JOINT_FEATURES,
    LARGEST_INFLATION,
    LARGEST_RATIO,
    LARGEST_SENSITIVITY,
    LARGEST_SQUARE,
    LARGEST_SUM,
    LEAST_RATIO,
    LEAST_THRESHOLD,
    RATES,
    RELAXATION,
    STATE_FEATURES,
    STEP_Q,
    STEP_R,
    TINY,
)
from sagewing.shapes import Errors, Measurements

LARGEST_LAYER = 512
# The names of settings in the cards of earlier versions
EARLIER_NAMES = {"alarm_threshold": "proof", "probe_sigmas": "reach"}


class Universal(StoredPolicy):
    """The policy that adapts Q and R of any model; see docs/universal.md.

    It does not adapt until a test's log-likelihood ratio reaches `alarm_threshold` (0: from the
    start). The curvature of f is evaluated at `probe_sigmas` standard deviations (0: not at all).

    Example: `sw.NDRSageHusa(model, Q0, R0, policy=sw.Policy.pretrained("universal"))`
    """

    kind: ClassVar[str] = "universal"
    bank: int = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    alarm_threshold: float = eqx.field(static=True)
    probe_sigmas: float = eqx.field(static=True)
    measured: ChannelNetwork
    state: ChannelNetwork

    def __init__(
        self,
        bank: int = 8,
        hidden: tuple[int, ...] = (16, 8),
        bounds: tuple[float, float] = (1e-5, 1e4),
        gain_noise: GainNoise = "posterior",
        nominal: Noise | None = None,
        gate: float | None = None,
        adapts_in: tuple[int, ...] | None = None,
        dense: Dense = False,
        alarm_threshold: float = 0.0,
        probe_sigmas: float = 0.0,
        *,
        key: PRNGKeyArray,
    ):
        super().__init__(FilterSettings(bounds, gain_noise, nominal, gate, adapts_in, dense))
        if not 1 <= len(hidden) <= DEEPEST:
            raise InputError(f"hidden must be the sizes of 1..{DEEPEST} layers; got {len(hidden)}.")
        for size in (bank, *hidden):
            if type(size) is not int or not 1 <= size <= LARGEST_LAYER:
                raise InputError(f"A layer has 1..{LARGEST_LAYER} neurons; got {size!r}.")
        if alarm_threshold != 0.0 and not LEAST_THRESHOLD < alarm_threshold < LARGEST_SUM:
            raise InputError(
                f"alarm_threshold must be 0, for no tests, or between {LEAST_THRESHOLD:g} and "
                f"{LARGEST_SUM:g}; got {alarm_threshold!r}."
            )
        if not 0.0 <= probe_sigmas < math.inf:
            raise InputError(f"probe_sigmas must not be negative; got {probe_sigmas!r}.")
        k_measured, k_state = jax.random.split(key)
        self.bank = bank
        self.hidden = hidden
        self.alarm_threshold, self.probe_sigmas = alarm_threshold, probe_sigmas
        sizes = (len(CHANNEL_FEATURES), bank, hidden, 3, len(JOINT_FEATURES))
        self.measured = ChannelNetwork(*sizes, key=k_measured)
        sizes = (len(STATE_FEATURES), bank, hidden, 2, len(COMMON_FEATURES))
        self.state = ChannelNetwork(*sizes, key=k_state)

    def init(self, q: Errors, r: Measurements) -> UniversalMemory:
        """The memory before the first measurement."""

        def means(v: jax.Array, values: int) -> tuple[jax.Array, jax.Array]:
            empty = jnp.zeros((values, len(RATES), *v.shape), v.dtype)
            return empty, jnp.zeros((len(v), self.bank, *v.shape[1:]), v.dtype)

        none_r, none_q = jnp.zeros_like(r), jnp.zeros_like(q)
        states = ChannelMemory(None, none_q[:1], *means(q, 5))
        joint_means = jnp.zeros((2, len(RATES), *q.shape[1:]), q.dtype)
        channels = ChannelMemory(none_r, none_r, *means(r, 7))
        return UniversalMemory(channels, states, none_q, joint_means, cusum.begin(r))

    def __call__(
        self, memory: UniversalMemory, info: StepInfo
    ) -> tuple[Attenuation, UniversalMemory, Measurements]:
        """The shares, factors and inflation of every channel; a missing channel changes nothing.

        The trace for training is the logarithm of the inflation.
        """
        channels, states, sensitivity, joint_means, tests = memory
        linear = info.linear
        if linear is None:
            raise InputError("The universal policy needs the step of a filter: use sw.NDRSageHusa.")
        if linear.mode_changed is not None:
            changed = linear.mode_changed
            channels = jax.tree.map(lambda a: jnp.where(changed, 0.0, a), channels)
            tests = tests._replace(channels=jnp.where(changed, 0.0, tests.channels))

        # The predicted gain sensitivity, and the change of the innovation that it implies
        propagated = matvec(linear.F, sensitivity)
        curvature_term = None
        if self.probe_sigmas > 0.0:
            curvature_term = curvature(
                linear, self.probe_sigmas, sensitivity, propagated, info.arrived
            )
        sensitivity = limited(propagated, LARGEST_SENSITIVITY * jnp.sqrt(diagonal(linear.P_pred)))
        S = diagonal(info.S)
        expected = limited(matvec(linear.H, sensitivity), LARGEST_SENSITIVITY * jnp.sqrt(S))
        by_gain = whiten(info.L, jnp.where(info.arrived, expected, 0.0))

        # The tests of the nominal noise
        squares = info.nu**2 / S
        tests = cusum.update(
            tests, self.alarm_threshold, info.white, by_gain, squares, info.arrived
        )
        alarm = tests.alarm > 0.0
        sums = stacked(JOINT_FEATURES, [*(tests.joint / LARGEST_SUM)])

        # Channels, then states
        (d_r, log_inflation, step_r), channels = self._channels(
            channels, info, linear, expected, sums
        )
        inflate = 1.0 + jnp.exp(jnp.minimum(log_inflation + BIAS_INFLATION, LARGEST_INFLATION))
        inflate = jnp.where(alarm, inflate, 1.0)
        inflation = jnp.log(inflate)
        weight = S / (S + info.r * (inflate - 1.0))
        count, joint_means = joint_regression(joint_means, states.times, info, expected, weight)
        common = stacked(COMMON_FEATURES, [*sums, *gain_error(joint_means, count[0])])
        expected_correction = matvec(info.K, expected)
        states = states._replace(times=count)
        (d_q, step_q), states = self._states(
            states, info, linear, inflation, expected_correction, common
        )

        correction = matvec(info.K, weight * (info.nu - expected))
        sensitivity = jax.lax.stop_gradient(sensitivity + correction)
        decision = Attenuation(
            q=jax.nn.sigmoid(d_q + BIAS_SHARE),
            r=jax.nn.sigmoid(d_r + BIAS_SHARE),
            scale_q=_factor(STEP_Q, step_q, info.q, linear.q0 + TINY),
            scale_r=_factor(STEP_R, step_r, info.r, linear.r0),
            inflate_r=inflate,
            curvature=curvature_term,
        )
        memory = UniversalMemory(channels, states, sensitivity, joint_means, tests)
        return decision.where(alarm), memory, inflation

    def _channels(
        self,
        memory: ChannelMemory,
        info: StepInfo,
        linear: Linearization,
        expected: Measurements,
        common: Rows,
    ) -> tuple[Outputs, ChannelMemory]:
        """The decision for channels: is r wrong, or does the filter not follow the channel?"""
        r, r0, S = info.r / linear.r0, linear.r0, diagonal(info.S)
        x, s = info.nu / jnp.sqrt(r0), jnp.minimum(S / r0, LARGEST_RATIO)
        assert memory.last is not None
        log_square = jnp.log(x**2 / s + LEAST_RATIO)
        count = memory.times + info.arrived
        values = [
            *square_and_product(x, memory.last, s),
            jnp.maximum(s - r, 0.0),
            *regressed(x, expected / jnp.sqrt(r0), s),
        ]
        changed = jnp.log((info.r + TINY) / r0)
        means = [*values, log_square, changed]
        means = running_means(memory.means, means, count, info.arrived)
        squares, products, predicted, cross, power, log_squares, mean_changes = means
        y = [
            clipped(log_square),
            values[1] / (jnp.abs(values[1]) + s),
            *contrast(squares, predicted + r),
            *clipped(products / (squares + TINY)),
            *slopes(cross, power, squares, s),
            *contrast(jnp.maximum(squares - predicted, 0.0), r),
            clipped(log_squares[1]),
            clipped(changed),
            clipped(jnp.log(S / info.r)),
            novelty(count),
            *clipped(changed - mean_changes[1:]),
        ]
        y = stacked(CHANNEL_FEATURES, y)
        out, bank = self.measured(y, memory.bank, count, info.arrived, common)
        last = jnp.where(info.arrived, x, memory.last)
        return out, ChannelMemory(last, count, means, bank)

    def _states(
        self,
        memory: ChannelMemory,
        info: StepInfo,
        linear: Linearization,
        inflation: Measurements,
        expected: Errors,
        common: Rows,
    ) -> tuple[Outputs, ChannelMemory]:
        """The decision for states: are corrections larger than q explains, or systematic?"""
        q0 = linear.q0 + TINY
        KL = matmul(info.K, info.L)
        variance = sum(jnp.moveaxis(KL**2, 1, 0), jnp.zeros_like(q0)) + TINY  # diag K S K^T
        x = matvec(info.K, info.nu) / jnp.sqrt(q0)
        s = jnp.minimum(variance / q0, LARGEST_RATIO)
        # The share of this state's correction that the inflation of r removes, by channel.
        weights = info.K**2 * diagonal(info.S)[None]
        outliers = matvec(weights, inflation) / (matvec(weights, jnp.ones_like(inflation)) + TINY)
        arrived = jnp.broadcast_to(jnp.any(info.arrived, axis=0), x.shape)
        count = jnp.broadcast_to(memory.times, x.shape)
        values = [
            jnp.minimum(x**2, LARGEST_SQUARE * s),
            s,
            *regressed(x, expected / jnp.sqrt(q0), s),
        ]
        changed = 0.5 * jnp.log((info.q + TINY) / q0)
        means = running_means(memory.means, [*values, changed], count, arrived)
        squares, predicted, cross, power, mean_changes = means
        propagated = jnp.maximum(diagonal(linear.FPF), 0.0)
        corrected = variance / (diagonal(linear.P_pred) + TINY)
        mean_change = jnp.sum(corrected * changed, axis=0) / (jnp.sum(corrected, axis=0) + TINY)
        y = [
            clipped(jnp.log(x**2 / s + LEAST_RATIO)),
            values[2] / (jnp.abs(values[2]) + s),
            *contrast(squares, predicted),
            *slopes(cross, power, squares, s),
            clipped(changed),
            clipped(0.5 * jnp.log((info.q + TINY) / (propagated + TINY))),
            clipped(0.5 * jnp.log(variance / (info.q + TINY))),
            clipped(0.5 * jnp.log(corrected)),
            clipped(outliers),
            novelty(count),
            clipped(changed - mean_change),
            *clipped(changed - mean_changes[1:]),
        ]
        y = stacked(STATE_FEATURES, y)
        out, bank = self.state(y, memory.bank, count, arrived, common)
        return out, ChannelMemory(None, memory.times, means, bank)

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Accepts any sizes."""

    def card(self) -> dict[str, Any]:
        """The sizes, the settings that the weights depend on, and those of the filter."""
        sizes = {"bank": self.bank, "hidden": list(self.hidden)}
        sizes |= {name: getattr(self, name) for name in EARLIER_NAMES}
        return {"architecture": sizes, "settings": settings.card(), **super().card()}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Universal":
        """A policy of these sizes; refuses one that was trained with other settings."""
        sizes, filter_settings = card["architecture"], FilterSettings.from_card(card)
        if "settings" in card:
            settings.check(card["settings"])
        options = (
            number(sizes[name] if name in sizes else sizes[earlier])
            for name, earlier in EARLIER_NAMES.items()
        )
        return cls(
            sizes["bank"], tuple(sizes["hidden"]), *filter_settings, *options, key=jax.random.key(0)
        )


def _factor(largest: float, step: Channels, variance: Channels, base: Channels) -> Channels:
    """The network's change of a variance, with a small return toward the base."""
    decay = RELAXATION * jnp.log((variance + TINY) / base)
    return jnp.exp(largest * jax.nn.soft_sign(step) - decay)
