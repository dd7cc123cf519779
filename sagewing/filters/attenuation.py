"""Who chooses d_k: attenuation policies that are formulas, and wrappers around any policy.

A policy sees a step (`StepInfo`) and its own memory, and decides (`Attenuation`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.kernels import SHUT, diagonal
from sagewing.filters.protocols import AttenuationPolicy
from sagewing.filters.recovery import PATIENCE
from sagewing.filters.step import Attenuation, StepInfo
from sagewing.shapes import Measurements, States


class Frozen(eqx.Module):
    """d = 0: the noise stays what the user said. The EKF."""

    def init(self, q: States, r: Measurements) -> None:
        """Nothing to remember."""
        return None

    def __call__(self, memory: None, info: StepInfo) -> tuple[Attenuation, None, None]:
        """Nothing to decide."""
        return Attenuation(), None, None


class Fading(eqx.Module):
    """d = (1 - b) / (1 - b^(k+1)) for all channels, k = 1 at the first measurement. Sage-Husa."""

    b: jax.Array

    def init(self, q: States, r: Measurements) -> jax.Array:
        """k, the number of measurements so far."""
        return jnp.zeros_like(q[0])

    def __call__(self, memory: jax.Array, info: StepInfo) -> tuple[Attenuation, jax.Array, None]:
        """One more measurement, if one arrived."""
        k = memory + jnp.any(info.arrived, axis=0)
        d = (1.0 - self.b) / (1.0 - self.b ** (jnp.maximum(k, 1.0) + 1.0))
        return Attenuation(q=d + jnp.zeros_like(info.q), r=d + jnp.zeros_like(info.r)), k, None


class Gated(eqx.Module):
    """Another policy behind a gate: a channel that is off by more than `sigmas` is left out.

    Neither the state nor r takes it in. A channel that stays off for more than `PATIENCE`
    measurements is taken in until it is back within the gate: the filter may be what is wrong.
    """

    policy: AttenuationPolicy
    sigmas: jax.Array

    def init(self, q: States, r: Measurements) -> tuple[Measurements, Any]:
        """For how many measurements each channel has been off, and the inner policy's memory."""
        return jnp.zeros_like(r), self.policy.init(q, r)

    def __call__(
        self, memory: tuple[Measurements, Any], info: StepInfo
    ) -> tuple[Attenuation, Any, Any]:
        """The noise of such a channel is as good as infinite in this step."""
        count, inner = memory
        d, inner, trace = self.policy(inner, info)
        off = info.nu**2 > self.sigmas**2 * diagonal(info.S)
        count = jnp.where(info.arrived, jnp.where(off, count + 1.0, 0.0), count)
        shut = off & (count <= PATIENCE)
        inflate = jnp.where(shut, SHUT, 1.0 if d.inflate_r is None else d.inflate_r)
        share = None if d.r is None else jnp.where(shut, 0.0, d.r)
        scale = None if d.scale_r is None else jnp.where(shut, 1.0, d.scale_r)
        return d._replace(r=share, scale_r=scale, inflate_r=inflate), (count, inner), trace


class PerPredictionStep(eqx.Module):
    """Another policy, in a filter that predicts `steps` times from one measurement to the next.

    A correction shows the process noise of all those steps together, so the q of one step is
    blended with d / steps. r is that of one measurement and is blended with d.
    """

    policy: AttenuationPolicy
    steps: jax.Array

    def init(self, q: States, r: Measurements) -> Any:
        """The inner policy's memory."""
        return self.policy.init(q, r)

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, Any]:
        """The inner policy's decision, with a smaller share for q."""
        d, memory, trace = self.policy(memory, info)
        return d._replace(q=None if d.q is None else d.q / self.steps), memory, trace


def innermost(policy: AttenuationPolicy) -> AttenuationPolicy:
    """The policy inside of its wrappers."""
    while isinstance(policy, (Gated, PerPredictionStep)):
        policy = policy.policy
    return policy
