"""The features of a channel and of a state: dimensionless, independent of sign, running means."""

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
from sagewing.shapes import Errors, Measurements


def running_means(means: Rows, values: Sequence[Rows], count: Rows, arrived: Rows) -> Rows:
    """The running means of every value at all rates, with the new values."""
    weight = weight_of_new(jnp.asarray(RATES, count.dtype), count, arrived)
    new = [mean + weight * (value - mean) for mean, value in zip(means, values, strict=True)]
    return jax.lax.stop_gradient(jnp.stack(new))


def joint_regression(
    means: Rows, count: Channels, info: StepInfo, expected: Measurements, weight: Measurements
) -> tuple[Channels, Rows]:
    """The count of steps with a measurement, and the regression of all innovations on `expected`.

    `weight` is the share of each innovation that remains after the inflation of r.
    """
    # Clipped and weighted by channel, before whitening: the order of channels must not matter
    root, limit = jnp.sqrt(weight), LARGEST_INNOVATION * jnp.sqrt(diagonal(info.S))
    white = whiten(info.L, root * jnp.clip(info.nu, -limit, limit))
    by_gain = whiten(info.L, root * jnp.where(info.arrived, expected, 0.0))
    any_arrived = jnp.any(info.arrived, axis=0)
    count = count + any_arrived
    values = [jnp.sum(a * by_gain, axis=0) for a in (white, by_gain)]
    return count, running_means(means, values, count[0], any_arrived)


def gain_error(means: Rows, count: Rows) -> list[Rows]:
    """At each rate: the relative error of the gain, and its significance; both in -1..1."""
    cross, power = means[0], means[1] + LEAST_SENSITIVITY
    weight = weight_of_new(jnp.asarray(RATES, means.dtype), count, jnp.ones_like(count, bool))
    significance = cross / jnp.sqrt(power * weight)
    return [*(cross / (jnp.abs(cross) + power)), *(significance / (2.0 + jnp.abs(significance)))]


def square_and_product(
    x: Channels, last: Channels, variance: Channels
) -> tuple[Channels, Channels]:
    """x^2 and x times the last one, both limited."""
    limit = LARGEST_SQUARE * variance
    return jnp.minimum(x**2, limit), jnp.clip(x * last, -limit, limit)


def regressed(x: Channels, expected: Channels, variance: Channels) -> tuple[Channels, Channels]:
    """x times the expected change by a larger gain, and the square of that change, both limited."""
    limit = LARGEST_SQUARE * variance
    return jnp.clip(x * expected, -limit, limit), jnp.minimum(expected**2, limit)


def slopes(cross: Table, power: Table, squares: Table, variance: Channels) -> Rows:
    """The regression of x on its expected change: correlations and slopes, both in -1..1."""
    floor = LEAST_SENSITIVITY * variance + LEAST
    power = power + floor
    correlation = cross / jnp.sqrt((squares + floor) * power)
    return jnp.concatenate([correlation, cross / (jnp.abs(cross) + power)])


def limited(a: Errors, limit: Errors) -> Errors:
    """`a`, limited in size; zero where it is NaN."""
    a = jnp.clip(a, -limit, limit)
    return jnp.where(jnp.isnan(a), 0.0, a)


def contrast(a: jax.Array, b: jax.Array) -> jax.Array:
    """tanh(log(a / b) / 2), for positive numbers."""
    return (a - b) / (a + b + TINY)


def novelty(count: Channels) -> Channels:
    """1 / sqrt(k + 1), after k measurements."""
    return jnp.maximum(1.0 / jnp.sqrt(count + 1.0), LEAST_NOVELTY)


def clipped(a: Rows) -> Rows:
    """A feature, clipped because it is otherwise unbounded."""
    return jnp.clip(a, -CLIP, CLIP)


def stacked(names: tuple[str, ...], rows: Sequence[Rows]) -> Rows:
    """The features with these names, stacked; gradients stop here."""
    assert len(names) == len(rows), (len(names), len(rows))
    return jax.lax.stop_gradient(jnp.stack(rows))
