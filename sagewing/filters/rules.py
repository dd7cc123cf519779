"""Attenuation rules: who chooses how fast the noise estimates forget.

A rule sees what a step knows (`Seen`) and its own memory, and decides (`Attenuation`). The
recursion does the rest, the same for every rule.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.kernels import SHUT, diagonal
from sagewing.filters.recovery import PATIENCE
from sagewing.shapes import (
    Arrived,
    Covariances,
    Flags,
    Gains,
    Innovations,
    Jacobians,
    Measurements,
    States,
)


class Around(NamedTuple):
    """What a step knows besides: F, H, the diagonals of F P F^T and the predicted P, base noise.

    `switched` is where the kind of measurement is another than before; None in a model with one.
    `before` is the diagonal of P before the prediction, and `elsewhere` says for an estimate that
    was off by so much how far off the prediction would be.
    """

    F: Covariances
    H: Jacobians
    FPF: States
    P: States
    q0: States
    r0: Measurements
    switched: Flags | None
    before: States
    elsewhere: Callable[[States], States]


class Seen(NamedTuple):
    """What a rule may look at: the innovation and the gain that the noise estimates so far give.

    A channel that did not arrive has zero in `nu`, in `white` and in its column of `K`, and a unit
    variance in `S`. `around` is None where a rule is asked outside of the recursion.
    """

    nu: Measurements
    white: Measurements
    S: Innovations
    L: Innovations
    K: Gains
    q: States
    r: Measurements
    arrived: Arrived
    around: Around | None = None


class Attenuation(NamedTuple):
    """What a rule decides at one step; `None` leaves things as they are.

    `q` and `r` are the shares of the empirical estimates taken into the remembered ones, the d_k of
    the paper. `scale_q` and `scale_r` multiply what is remembered; `inflate_r` multiplies the noise
    used in this step's gain and is forgotten. By `bend` a curved f takes the prediction from where
    F does: the step's P has bend bend^T besides.
    """

    q: States | None = None
    r: Measurements | None = None
    scale_q: States | None = None
    scale_r: Measurements | None = None
    inflate_r: Measurements | None = None
    bend: States | None = None

    def where(self, heard: Flags) -> "Attenuation":
        """This decision for the records in which the rule is heard; for the others, none."""

        def kept(value: jax.Array | None, neutral: float) -> jax.Array | None:
            return None if value is None else jnp.where(heard, value, neutral)

        neutral = (0.0, 0.0, 1.0, 1.0, 1.0, 0.0)
        return Attenuation(*(kept(*pair) for pair in zip(self, neutral, strict=True)))


@runtime_checkable
class Rule(Protocol):
    """The interface of an attenuation rule."""

    def init(self, q: States, r: Measurements) -> Any:
        """The memory before the first step, for noise of these shapes."""
        ...

    def __call__(self, memory: Any, seen: Seen) -> tuple[Attenuation, Any, Any]:
        """The decision, the memory after it, and what training wants to see of the step."""
        ...


class Frozen(eqx.Module):
    """d = 0: the noise stays what the user said. The EKF."""

    def init(self, q: States, r: Measurements) -> None:
        """Nothing to remember."""
        return None

    def __call__(self, memory: None, seen: Seen) -> tuple[Attenuation, None, None]:
        """Nothing to decide."""
        return Attenuation(), None, None


class Fading(eqx.Module):
    """d = (1 - b) / (1 - b^(k+1)) for all channels, k = 1 at the first measurement. Sage-Husa."""

    b: jax.Array

    def init(self, q: States, r: Measurements) -> jax.Array:
        """k, the number of measurements so far."""
        return jnp.zeros_like(q[0])

    def __call__(self, memory: jax.Array, seen: Seen) -> tuple[Attenuation, jax.Array, None]:
        """One more measurement, if one came."""
        k = memory + jnp.any(seen.arrived, axis=0)
        d = (1.0 - self.b) / (1.0 - self.b ** (jnp.maximum(k, 1.0) + 1.0))
        return Attenuation(q=d + jnp.zeros_like(seen.q), r=d + jnp.zeros_like(seen.r)), k, None


class Learned(eqx.Module):
    """d = policy(what is seen). The NDR-SHKF.

    A policy has `init(q, r)` and `__call__(memory, seen)` like a rule.
    """

    policy: Any

    def init(self, q: States, r: Measurements) -> Any:
        """The policy's memory."""
        return self.policy.init(q, r)

    def __call__(self, memory: Any, seen: Seen) -> tuple[Attenuation, Any, Any]:
        """The policy's decision."""
        return self.policy(memory, seen)


class Gated(eqx.Module):
    """Another rule, behind a gate: no say for a channel that is off by more than `sigmas`.

    Neither the state nor r hears it. A channel that stays off for more than `PATIENCE`
    measurements is heard until it is back: the filter may be what is wrong.
    """

    rule: Any
    sigmas: jax.Array

    def init(self, q: States, r: Measurements) -> tuple[Measurements, Any]:
        """For how many measurements each channel has been off, and the inner rule's memory."""
        return jnp.zeros_like(r), self.rule.init(q, r)

    def __call__(
        self, memory: tuple[Measurements, Any], seen: Seen
    ) -> tuple[Attenuation, Any, Any]:
        """The noise of such a channel is as good as infinite in this step."""
        count, inner = memory
        d, inner, trace = self.rule(inner, seen)
        off = seen.nu**2 > self.sigmas**2 * diagonal(seen.S)
        count = jnp.where(seen.arrived, jnp.where(off, count + 1.0, 0.0), count)
        shut = off & (count <= PATIENCE)
        inflate = jnp.where(shut, SHUT, 1.0 if d.inflate_r is None else d.inflate_r)
        share = None if d.r is None else jnp.where(shut, 0.0, d.r)
        scale = None if d.scale_r is None else jnp.where(shut, 1.0, d.scale_r)
        return d._replace(r=share, scale_r=scale, inflate_r=inflate), (count, inner), trace

    @property
    def policy(self) -> Any:
        """The inner rule's."""
        return self.rule.policy


class Spread(eqx.Module):
    """Another rule, in a filter that predicts `steps` times from one measurement to the next.

    What a correction says of q is the doing of all those steps, and so is only that part of it
    that of one: q takes d / steps of it. What it says of r is that of one measurement, as ever.
    """

    rule: Any
    steps: jax.Array

    def init(self, q: States, r: Measurements) -> Any:
        """The inner rule's memory."""
        return self.rule.init(q, r)

    def __call__(self, memory: Any, seen: Seen) -> tuple[Attenuation, Any, Any]:
        """The inner rule's decision, with less for q."""
        d, memory, trace = self.rule(memory, seen)
        return d._replace(q=None if d.q is None else d.q / self.steps), memory, trace

    @property
    def policy(self) -> Any:
        """The inner rule's."""
        return self.rule.policy
