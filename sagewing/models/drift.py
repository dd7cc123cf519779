"""Measurement errors that are correlated in time, as states of the model."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.models.augmented import Augmented
from sagewing.models.model import Model
from sagewing.shapes import ZX, Duration, Input, X, Z


class WithDrift(Augmented):
    """A model whose measured channels have drifts, which are the last states: see `with_drift`."""

    channels: tuple[int, ...] = eqx.field(static=True)
    std: tuple[float, ...] = eqx.field(static=True)
    time_constant: tuple[float, ...] = eqx.field(static=True)

    @property
    def added(self) -> int:
        """A drift for each channel."""
        return len(self.channels)

    @property
    def own_variances(self) -> tuple[float, ...]:
        """Of the drifts, which start at zero."""
        return (*self.model.own_variances, *(s**2 for s in self.std))

    def own_factors(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """The share of a drift that remains after dt."""
        return jnp.exp(-dt / jnp.asarray(self.time_constant, dtype))

    def own_noise_variances(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """What keeps a drift's standard deviation."""
        return jnp.asarray(self.std, dtype) ** 2 * (1.0 - self.own_factors(dt, dtype) ** 2)

    def observe(self, x: X, u: Input) -> Z:
        """The model's, with the drifts added."""
        own, drift = self.parts(x)
        return self.model.observe(own, u).at[jnp.array(self.channels)].add(drift)

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """That of the model, and 1 for each drift."""
        H = self.model.observe_jacobian(self.parts(x)[0], u)
        if H is None:
            return None
        drifts = jnp.eye(H.shape[0], dtype=x.dtype)[:, jnp.array(self.channels)]
        return jnp.concatenate([H, drifts], axis=1)


def with_drift(
    model: Model,
    channels: Sequence[int],
    std: float | Sequence[float],
    time_constant: float | Sequence[float],
) -> WithDrift:
    """The model with a slowly moving error in some channels of z: coloured noise, or a bias.

    A drift has the standard deviation `std` and is forgotten within `time_constant` seconds: errors
    a time t apart correlate by exp(-t / time_constant). It is one more state for each channel, at
    the end. Q0, x0 and P0 stay those of `model`: the noise and the start of a drift follow from
    `std`.

    Example: `sw.models.with_drift(Car(), channels=(0, 1), std=2.0, time_constant=60.0)`, a GPS that
    wanders
    """
    places = channel_indices(channels)
    return WithDrift(
        model,
        places,
        _each("std", std, len(places)),
        _each("time_constant", time_constant, len(places)),
    )


def channel_indices(channels: Sequence[int]) -> tuple[int, ...]:
    """The channels as different indices of z."""
    try:
        places = tuple(int(channel) for channel in channels)
    except (TypeError, ValueError):
        raise InputError(
            f"channels must be indices of z, such as (0, 1); got {channels!r}."
        ) from None
    if not places or min(places) < 0 or len(set(places)) < len(places):
        raise InputError(f"channels must be different indices of z, from 0 on; got {channels!r}.")
    return places


def _each(name: str, value: float | Sequence[float], count: int) -> tuple[float, ...]:
    try:
        values = (
            tuple(float(v) for v in value)
            if isinstance(value, Sequence)
            else (float(value),) * count
        )
    except (TypeError, ValueError):
        values = ()
    if len(values) != count or not all(0.0 < v < math.inf for v in values):
        raise InputError(
            f"{name} must be a positive number, or one for each of {count} channels; got {value!r}."
        )
    return values
