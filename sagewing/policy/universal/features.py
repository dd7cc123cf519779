"""The features of a channel and of a state: running means, and numbers without units and signs."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from sagewing.filters.kernels import diagonal, whiten
from sagewing.filters.step import StepInfo
from sagewing.policy.universal.network import Channels, Rows, Table, weight_of_new
from sagewing.policy.universal.settings import (
    CLIP,
    LARGEST_INNOVATION,
    LARGEST_SQUARE,
    LEAST,
    LEAST_NOVELTY,
    LEAST_SENSITIVITY,
    RATES,
    TINY,
)
from sagewing.shapes import Measurements, States


def running_means(means: Rows, values: Sequence[Rows], count: Rows, arrived: Rows) -> Rows:
    """The running means of every value at all rates, with the new values."""
    weight = weight_of_new(jnp.asarray(RATES, count.dtype), count, arrived)
    new = [mean + weight * (value - mean) for mean, value in zip(means, values, strict=True)]
    return jax.lax.stop_gradient(jnp.stack(new))


def joint_regression(
    means: Rows, count: Channels, info: StepInfo, expected: Measurements, weight: Measurements
) -> tuple[Channels, Rows]:
    """The count of steps with a measurement, and the regression of all innovations on `expected`.

    `weight` is the part of each innovation that is not inflated away.
    """
    # Cut and weighed channel by channel, before whitening: their order must not matter
    root, most = jnp.sqrt(weight), LARGEST_INNOVATION * jnp.sqrt(diagonal(info.S))
    white = whiten(info.L, root * jnp.clip(info.nu, -most, most))
    by_gain = whiten(info.L, root * jnp.where(info.arrived, expected, 0.0))
    any_arrived = jnp.any(info.arrived, axis=0)
    count = count + any_arrived
    values = [jnp.sum(a * by_gain, axis=0) for a in (white, by_gain)]
    return count, running_means(means, values, count[0], any_arrived)


def gain_error(means: Rows, count: Rows) -> list[Rows]:
    """At each rate: how wrong the gain is, and how significant that is; between -1 and 1."""
    cross, own = means[0], means[1] + LEAST_SENSITIVITY
    weight = weight_of_new(jnp.asarray(RATES, means.dtype), count, jnp.ones_like(count, bool))
    significance = cross / jnp.sqrt(own * weight)
    return [*(cross / (jnp.abs(cross) + own)), *(significance / (2.0 + jnp.abs(significance)))]


def square_and_product(
    x: Channels, last: Channels, variance: Channels
) -> tuple[Channels, Channels]:
    """x^2 and x times the last one, both limited."""
    most = LARGEST_SQUARE * variance
    return jnp.minimum(x**2, most), jnp.clip(x * last, -most, most)


def regressed(x: Channels, expected: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x times what a larger gain would have changed, and the square of that, both limited."""
    most = LARGEST_SQUARE * variance
    return jnp.clip(x * expected, -most, most), jnp.minimum(expected**2, most)


def slopes(cross: Table, own: Table, squares: Table, variance: Channels) -> Rows:
    """How x goes with what was expected: the correlations, and the slopes, between -1 and 1."""
    least = LEAST_SENSITIVITY * variance + LEAST
    own = own + least
    correlation = cross / jnp.sqrt((squares + least) * own)
    return jnp.concatenate([correlation, cross / (jnp.abs(cross) + own)])


def limited(a: States, most: States) -> States:
    """`a`, limited in size; zero where it is NaN."""
    a = jnp.clip(a, -most, most)
    return jnp.where(jnp.isnan(a), 0.0, a)


def contrast(a: jax.Array, b: jax.Array) -> jax.Array:
    """tanh(log(a / b) / 2), for positive numbers."""
    return (a - b) / (a + b + TINY)


def novelty(count: Channels) -> Channels:
    """1 / sqrt(k + 1): how few measurements there have been."""
    return jnp.maximum(1.0 / jnp.sqrt(count + 1.0), LEAST_NOVELTY)


def clipped(a: Rows) -> Rows:
    """A feature that is not bounded by itself."""
    return jnp.clip(a, -CLIP, CLIP)


def stacked(names: tuple[str, ...], rows: Sequence[Rows]) -> Rows:
    """The features of these names; a gradient does not go back through them."""
    assert len(names) == len(rows), (len(names), len(rows))
    return jax.lax.stop_gradient(jnp.stack(rows))
