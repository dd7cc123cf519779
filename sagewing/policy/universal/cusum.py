"""CUSUM tests on the innovations: is the nominal noise wrong?

If the nominal noise is right, a whitened innovation is normal with variance 1 and independent of
those before it. Each test sums, bounded below by zero, the log-likelihood ratio of another
hypothesis: the innovations have another variance, or a larger gain would have predicted them, or
both. Under the nominal noise, a test that starts at zero reaches `alarm_threshold` on average at
most every exp(alarm_threshold) steps (Lorden 1971); one that starts at `first` reaches it before it
returns to zero with a probability of at most exp(first - alarm_threshold). The tests of single
channels share that probability: each starts lower by the logarithm of the number of channels.

An alarm is permanent: after it the innovations are those of the adapted filter and no longer test
the nominal one.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.policy.universal.settings import CHANNEL_TESTS, JOINT_TESTS, LARGEST_SUM
from sagewing.shapes import Arrived, Measurements, Values


class CusumState(NamedTuple):
    """The sums of the tests, for each channel and jointly, and whether one has raised an alarm."""

    channels: Float[Array, "tests n_z *batch"]
    joint: Float[Array, "tests *batch"]
    alarm: Values


def begin(r: Measurements) -> CusumState:
    """The state before the first measurement."""
    log_channels = math.log(len(r))
    channels = [jnp.full_like(r, max(first - log_channels, 0.0)) for *_, first in CHANNEL_TESTS]
    joint = [jnp.full_like(r[0], first) for *_, first in JOINT_TESTS]
    return CusumState(jnp.stack(channels), jnp.stack(joint), jnp.zeros_like(r[0]))


def update(
    state: CusumState,
    alarm_threshold: float,
    white: Measurements,
    expected: Measurements,
    squares: Measurements,
    arrived: Arrived,
) -> CusumState:
    """Update by an innovation: whitened, its expectation under a larger gain, and nu^2 / S."""
    count = jnp.sum(arrived, axis=0, dtype=white.dtype)
    square, cross, power = (
        jnp.sum(a * b, axis=0) for a, b in ((white, white), (white, expected), (expected, expected))
    )
    joint = [
        0.5 * square
        - 0.5 / rho * (square - 2.0 * c * cross + c**2 * power)
        - _half_log(rho) * count
        for rho, c, _ in JOINT_TESTS
    ]
    channels = [
        0.5 * (1.0 - 1.0 / rho) * squares - _half_log(rho) * arrived for rho, _ in CHANNEL_TESTS
    ]
    channels, joint = (
        jnp.clip(sums + jnp.stack(increments), 0.0, LARGEST_SUM)
        for sums, increments in ((state.channels, channels), (state.joint, joint))
    )
    alarm = jnp.any(channels > alarm_threshold, axis=(0, 1))
    alarm = alarm | jnp.any(joint > alarm_threshold, axis=0)
    return CusumState(channels, joint, jnp.where(alarm, 1.0, state.alarm))


def _half_log(rho: float) -> float:
    return 0.5 * math.log(rho)
