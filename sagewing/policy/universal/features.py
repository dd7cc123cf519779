"""What a channel or a state is judged by: running means and numbers without units and signs."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from sagewing.filters.kernels import diagonal, whiten
from sagewing.filters.step import StepInfo
from sagewing.policy.universal.network import Channels, Rows, Table, share_of_now
from sagewing.shapes import Measurements, States

RATES = (0.1, 0.015, 0.002)  # of the running means of squares and of products
LARGEST_SQUARE = 16.0  # times its variance that a square counts in a mean
MOST_TOGETHER = 3.0  # standard deviations of an innovation, in the regression of all channels
LEAST_SWAY = 1e-4  # of the variance: a smaller square says nothing
LEAST = 1e-12  # whose square is still a number
TINY = 1e-30  # keeps a quotient of nothing by nothing a number
CLIP = 8.0  # of a feature that is not bounded by itself
LEAST_YOUTH = 0.03  # 1 / sqrt(k) falls no further: what is learned at 1,000 steps holds for ever


def averaged(means: Rows, values: Sequence[Rows], count: Rows, heard: Rows) -> Rows:
    """The running means of every value at all rates, with what is new."""
    share = share_of_now(jnp.asarray(RATES, count.dtype), count, heard)
    new = [mean + share * (value - mean) for mean, value in zip(means, values, strict=True)]
    return jax.lax.stop_gradient(jnp.stack(new))


def together(
    means: Rows, times: Channels, info: StepInfo, expected: Measurements, heard: Measurements
) -> tuple[Channels, Rows]:
    """One more time that anything arrived, and the regression of all that did on the sway."""
    # Cut and weighed channel by channel, before whitening: their order must not matter
    weight, most = jnp.sqrt(heard), MOST_TOGETHER * jnp.sqrt(diagonal(info.S))
    white = whiten(info.L, weight * jnp.clip(info.nu, -most, most))
    by_gain = whiten(info.L, weight * jnp.where(info.arrived, expected, 0.0))
    any_arrived = jnp.any(info.arrived, axis=0)
    times = times + any_arrived
    values = [jnp.sum(a * by_gain, axis=0) for a in (white, by_gain)]
    return times, averaged(means, values, times[0], any_arrived)


def evidence(means: Rows, times: Rows) -> list[Rows]:
    """At each rate: by how much the gain is wrong, and how sure that is; between -1 and 1."""
    cross, own = means[0], means[1] + LEAST_SWAY
    share = share_of_now(jnp.asarray(RATES, means.dtype), times, jnp.ones_like(times, bool))
    sure = cross / jnp.sqrt(own * share)
    return [*(cross / (jnp.abs(cross) + own)), *(sure / (2.0 + jnp.abs(sure)))]


def square_and_product(
    x: Channels, last: Channels, variance: Channels
) -> tuple[Channels, Channels]:
    """x^2 and x times the last one, within reason."""
    most = LARGEST_SQUARE * variance
    return jnp.minimum(x**2, most), jnp.clip(x * last, -most, most)


def regressed(x: Channels, expected: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x times what a larger gain would have changed, and the square of that, within reason."""
    most = LARGEST_SQUARE * variance
    return jnp.clip(x * expected, -most, most), jnp.minimum(expected**2, most)


def slopes(cross: Table, own: Table, squares: Table, variance: Channels) -> Rows:
    """How x goes with what was expected: the correlations, and the slopes, between -1 and 1."""
    least = LEAST_SWAY * variance + LEAST
    own = own + least
    correlation = cross / jnp.sqrt((squares + least) * own)
    return jnp.concatenate([correlation, cross / (jnp.abs(cross) + own)])


def within(a: States, most: States) -> States:
    """`a`, at most so large; zero where it is no number."""
    a = jnp.clip(a, -most, most)
    return jnp.where(jnp.isnan(a), 0.0, a)


def contrast(a: jax.Array, b: jax.Array) -> jax.Array:
    """tanh(log(a / b) / 2), for positive numbers."""
    return (a - b) / (a + b + TINY)


def youth(count: Channels) -> Channels:
    """How little has been seen so far."""
    return jnp.maximum(1.0 / jnp.sqrt(count + 1.0), LEAST_YOUTH)


def clipped(a: Rows) -> Rows:
    """Not too large a number."""
    return jnp.clip(a, -CLIP, CLIP)


def observed(y: Sequence[Rows]) -> Rows:
    """The features: what a descent does not go back through."""
    return jax.lax.stop_gradient(jnp.stack(y))
