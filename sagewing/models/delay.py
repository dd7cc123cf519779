"""Sensors that report what they measured a while ago."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.models.augmented import Augmented
from sagewing.models.drift import channel_indices
from sagewing.models.model import Model
from sagewing.models.wrapper import Wrapper
from sagewing.shapes import ZX, Duration, Input, X, Z


def _observed(model: Model, channels: tuple[int, ...], x: X, u: Input, delay: Duration) -> Z:
    """The measurement in the state x; of the late channels, in the state `delay` seconds before."""
    z, late = model.observe(x, u), model.observe(model.transition(x, u, -delay), u)
    if max(channels) >= len(z):
        raise InputError(f"channels of a delay must be below {len(z)}; got {channels}.")
    is_late = jnp.array([i in channels for i in range(len(z))])
    return jnp.where(is_late, late, z)


class KnownDelay(Wrapper):
    """A model some of whose channels are late by a known time: see `with_delay`."""

    channels: tuple[int, ...] = eqx.field(static=True)
    delay: float

    def observe(self, x: X, u: Input) -> Z:
        """That of the model, in the past for late channels."""
        return _observed(self.model, self.channels, x, u, self.delay)

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """None: filters differentiate `observe`."""
        return None


class UnknownDelay(Augmented):
    """A model some of whose channels are late by a time that is estimated: see `with_delay`."""

    channels: tuple[int, ...] = eqx.field(static=True)
    delay: float
    std: float = eqx.field(static=True)

    @property
    def added(self) -> int:
        """What has to be added to `delay`."""
        return 1

    @property
    def own_variances(self) -> tuple[float, ...]:
        """Of the delay's error, which starts at zero."""
        return (*self.model.own_variances, self.std**2)

    @property
    def constants(self) -> int:
        """The model's, and the delay."""
        return self.model.constants + 1

    def own_factors(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """The delay is constant."""
        return jnp.ones(1, dtype)

    def own_noise_variances(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """None."""
        return jnp.zeros(1, dtype)

    def observe(self, x: X, u: Input) -> Z:
        """That of the model, in the past for late channels."""
        own, error = self.parts(x)
        return _observed(self.model, self.channels, own, u, self.delay + error[0])

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """None: filters differentiate `observe`."""
        return None


def with_delay(
    model: Model, channels: Sequence[int], delay: float, std: float | None = None
) -> KnownDelay | UnknownDelay:
    """The model with channels of z that report what they measured `delay` seconds ago.

    With `std`, the standard deviation of the delay, it is estimated: one more state at the end,
    which is constant and is what has to be added to `delay`. Q0, x0 and P0 stay those of `model`.

    The state at that time is `transition(x, u, -delay)`, so the model's transition must hold for
    negative times, and its input is taken as constant for so long. All models of sagewing can run
    backwards. The process noise within the delay is not taken into account: where that matters,
    give `sw.Online` the times of the measurements.

    Example: `sw.models.with_delay(Car(), channels=(0, 1), delay=0.1, std=0.05)`, a GPS
    """
    places = channel_indices(channels)
    seconds = _seconds("delay", delay, zero=True)
    if std is None:
        return KnownDelay(model, places, seconds)
    return UnknownDelay(model, places, seconds, _seconds("std", std, zero=False))


def _seconds(name: str, value: float, *, zero: bool) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0.0 <= seconds < math.inf or (seconds == 0.0 and not zero):
        what = "not negative" if zero else "positive"
        raise InputError(f"{name} must be a number of seconds, {what}; got {value!r}.")
    return seconds
