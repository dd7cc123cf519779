"""The paths of a simulated quadrotor: random ones with steps, and circles.

A path is a function of time that returns the flat outputs [x, y, z, yaw]; the controller needs
them and their derivatives.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing.shapes import Scalar, real_dtype

Flat = Float[Array, "4"]  # x, y, z in metres, yaw in radians

# With less optimisation these programs compile in half the time and run as fast.
FAST_COMPILE = {"xla_backend_optimization_level": 1}

HEIGHT = 2.0  # m, mean height of every path
# A random path is a sum of waves in x, y, z and yaw, within a hall of 8 m x 8 m x 4 m.
WAVES = 3
LARGEST_WAVE = (1.6, 1.6, 0.35, 0.5)  # amplitude of the slowest wave
WAVE_RATE = (0.8, 2.7)  # rad/s
# The factors of the waves, one for each stretch of time, in this order from a random first one.
LEVELS = (0.05, 0.7, 0.2, 1.0, 0.4, 0.85)
STRETCH = 8.0  # s
STRETCHES = 2 * len(LEVELS)  # after these the path keeps its last level
# Steps of the set-point: a new offset every few seconds, in x, y, z and yaw at different times.
LARGEST_OFFSET = (0.6, 0.6, 0.3, 1.0)
STEP_PERIOD = (6.0, 11.0)  # s
STEPS = 20  # after these the set-point keeps its last offset
# The held-out circles: radius in m, period in s, whether the heading follows the circle.
CIRCLES = ((0.8, 3.2, True), (1.2, 4.2, False), (1.8, 4.6, True))


class Goal(NamedTuple):
    """The flat outputs at one time, and their first three derivatives."""

    place: Flat
    velocity: Flat
    acceleration: Flat
    jerk: Flat


def goal(path: Callable[[Scalar], Flat], t: Scalar) -> Goal:
    """The path and its derivatives at t; steps of the set-point are not differentiated."""

    def derivative(f: Callable[[Scalar], Flat]) -> Callable[[Scalar], Flat]:
        return lambda t: jax.jvp(f, (t,), (jnp.ones_like(t),))[1]

    first = derivative(path)
    second = derivative(first)
    return Goal(path(t), first(t), second(t), derivative(second)(t))


class RandomPath(eqx.Module):
    """Waves whose amplitude changes from stretch to stretch, and steps of the set-point."""

    amplitude: Float[Array, "4 waves"]
    rate: Float[Array, "4 waves"]
    phase: Float[Array, "4 waves"]
    level: Float[Array, "stretches"]
    offset: Float[Array, "4 steps"]
    step_period: Float[Array, "4"]

    def __call__(self, t: Scalar) -> Flat:
        """The flat outputs at t."""
        waves = jnp.sum(self.amplitude * jnp.sin(self.rate * t + self.phase), axis=1)
        middle = jnp.array([0.0, 0.0, HEIGHT, 0.0], waves.dtype)
        return middle + self._level(t) * waves + self._offset(t)

    def _level(self, t: Scalar) -> Scalar:
        """The level, which changes between stretches with two continuous derivatives."""
        k = jnp.clip(jnp.floor(t / STRETCH), 0, self.level.size - 2).astype(int)
        s = jnp.clip(t / STRETCH - k, 0.0, 1.0)
        blend = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        return self.level[k] + blend * (self.level[k + 1] - self.level[k])

    def _offset(self, t: Scalar) -> Flat:
        k = jnp.clip(jnp.floor(t / self.step_period), 0, STEPS - 1).astype(int)
        return self.offset[jnp.arange(4), k]


def random_path(key: PRNGKeyArray) -> RandomPath:
    """A path with waves, levels and steps drawn from the key."""
    k_wave, k_step, k_level = jax.random.split(key, 3)
    start = jax.random.uniform(k_level, (), real_dtype())
    share = jax.random.uniform(k_wave, (3, 4, WAVES), real_dtype())
    step = jax.random.uniform(k_step, (4, STEPS + 1), real_dtype())
    rate = scale_between(WAVE_RATE, share[0])
    # A faster wave has a smaller amplitude, so that all have the same largest speed.
    largest = jnp.asarray(LARGEST_WAVE, real_dtype())[:, None] * WAVE_RATE[0] / rate
    first = (len(LEVELS) * start).astype(int)
    return RandomPath(
        amplitude=largest * scale_between((0.5, 1.0), share[1]),
        rate=rate,
        phase=scale_between((0.0, 2.0 * math.pi), share[2]),
        level=jnp.asarray(LEVELS, real_dtype())[(first + jnp.arange(STRETCHES)) % len(LEVELS)],
        offset=jnp.asarray(LARGEST_OFFSET)[:, None] * scale_between((-1.0, 1.0), step[:, 1:]),
        step_period=scale_between(STEP_PERIOD, step[:, 0]),
    )


@partial(jax.jit, static_argnames="count", compiler_options=FAST_COMPILE)
def random_paths(key: PRNGKeyArray, count: int) -> RandomPath:
    """`count` random paths, stacked."""
    return jax.vmap(random_path)(jax.random.split(key, count))


def scale_between(
    limits: tuple[float, float], share: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Linear interpolation: the first limit at share 0, the second at 1."""
    return limits[0] + (limits[1] - limits[0]) * share


class Circle(eqx.Module):
    """A circle at constant height and speed; `follow` is 1 if the heading follows it, else 0."""

    radius: Scalar
    turn: Scalar  # rad/s, positive to the left
    phase: Scalar
    follow: Scalar

    def __call__(self, t: Scalar) -> Flat:
        """The flat outputs at t."""
        angle = self.turn * t + self.phase
        along = angle + jnp.sign(self.turn) * jnp.pi / 2
        return jnp.stack(
            [
                self.radius * jnp.cos(angle),
                self.radius * jnp.sin(angle),
                jnp.full_like(angle, HEIGHT),
                self.follow * along + (1.0 - self.follow) * self.phase,
            ]
        )


@partial(jax.jit, compiler_options=FAST_COMPILE)
def circles(key: PRNGKeyArray) -> Circle:
    """The circles, stacked; their starts and directions are drawn from the key."""
    k_phase, k_side = jax.random.split(key)
    radius, period, follow = jnp.asarray(CIRCLES, real_dtype()).T
    side = jnp.where(jax.random.bernoulli(k_side, shape=period.shape), 1.0, -1.0)
    phase = jax.random.uniform(k_phase, period.shape, real_dtype(), -jnp.pi, jnp.pi)
    return jax.vmap(Circle)(radius, side * 2.0 * jnp.pi / period, phase, follow)
