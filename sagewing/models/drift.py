"""Measurement errors that are correlated in time, as states of the model."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import block_diag

from sagewing.errors import InputError
from sagewing.models.model import Model
from sagewing.models.wrapper import Wrapper
from sagewing.shapes import DX, XX, ZX, Duration, Input, X, Z


class WithDrift(Wrapper):
    """A model whose measured channels have drifts, which are the last states: see `with_drift`."""

    channels: tuple[int, ...] = eqx.field(static=True)
    std: tuple[float, ...] = eqx.field(static=True)
    time_constant: tuple[float, ...] = eqx.field(static=True)

    @property
    def n_x(self) -> int | None:
        """The model's and the drifts."""
        return None if self.model.n_x is None else self.model.n_x + len(self.channels)

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """The process noise of the drifts, and the model's."""
        return True, self.model.own_noise[1]

    @property
    def own_variances(self) -> tuple[float, ...]:
        """Of the drifts, which start at zero."""
        return (*self.model.own_variances, *(s**2 for s in self.std))

    @property
    def constants(self) -> int:
        """None: the last states are the drifts."""
        return 0

    def _parts(self, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The model's own, and the drifts."""
        cut = a.shape[0] - len(self.channels)
        return a[:cut], a[cut:]

    def _remains(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """The share of a drift that remains after dt."""
        return jnp.exp(-dt / jnp.asarray(self.time_constant, dtype))

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Drifts decay toward zero."""
        own, drift = self._parts(x)
        moved = self.model.transition(own, u, dt)
        return jnp.concatenate([moved, self._remains(dt, x.dtype) * drift])

    def observe(self, x: X, u: Input) -> Z:
        """The model's, with the drifts added."""
        own, drift = self._parts(x)
        return self.model.observe(own, u).at[jnp.array(self.channels)].add(drift)

    def process_noise(self, x: X, u: Input, dt: Duration) -> DX | XX:
        """That of the model, and what keeps a drift's standard deviation; NaN is Q0's."""
        own, drift = self._parts(x)
        noise = jnp.asarray(self.std, x.dtype) ** 2 * (1.0 - self._remains(dt, x.dtype) ** 2)
        given = self.model.process_noise(own, u, dt)
        if given is None:
            given = jnp.full(self._errors(x) - len(drift), jnp.nan, x.dtype)
        return (
            jnp.concatenate([given, noise])
            if given.ndim == 1
            else block_diag(given, jnp.diag(noise))
        )

    def measurement_noise(self, x: X, u: Input) -> Z | None:
        """That of the model."""
        return self.model.measurement_noise(self._parts(x)[0], u)

    def _errors(self, x: X) -> int:
        return eqx.filter_eval_shape(self.minus, x, x).shape[0]

    def plus(self, x: X, dx: DX) -> X:
        """That of the model, and addition."""
        (own, drift), (own_dx, drift_dx) = self._parts(x), self._parts(dx)
        return jnp.concatenate([self.model.plus(own, own_dx), drift + drift_dx])

    def minus(self, a: X, b: X) -> DX:
        """That of the model, and subtraction."""
        (own_a, drift_a), (own_b, drift_b) = self._parts(a), self._parts(b)
        return jnp.concatenate([self.model.minus(own_a, own_b), drift_a - drift_b])

    def normalize(self, x: X) -> X:
        """That of the model."""
        own, drift = self._parts(x)
        return jnp.concatenate([self.model.normalize(own), drift])

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """That of the model, and the drifts' decay."""
        F = self.model.transition_jacobian(self._parts(x)[0], u, dt)
        return None if F is None else block_diag(F, jnp.diag(self._remains(dt, x.dtype)))

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """That of the model, and 1 for each drift."""
        H = self.model.observe_jacobian(self._parts(x)[0], u)
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
    try:
        places = tuple(int(channel) for channel in channels)
    except (TypeError, ValueError):
        raise InputError(
            f"channels must be indices of z, such as (0, 1); got {channels!r}."
        ) from None
    if not places or min(places) < 0 or len(set(places)) < len(places):
        raise InputError(f"channels must be different indices of z, from 0 on; got {channels!r}.")
    return WithDrift(
        model,
        places,
        _each("std", std, len(places)),
        _each("time_constant", time_constant, len(places)),
    )


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
