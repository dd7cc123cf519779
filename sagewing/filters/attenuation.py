"""Choosing d_k: attenuation policies that are formulas, and wrappers for any policy.

A policy takes the step (`StepInfo`) and its own memory, and returns its decision (`Attenuation`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.gain import SHUT
from sagewing.filters.kernels import diagonal
from sagewing.filters.protocols import AttenuationPolicy
from sagewing.filters.recovery import PATIENCE
from sagewing.filters.step import Attenuation, StepInfo
from sagewing.shapes import Errors, Measurements


class Frozen(eqx.Module):
    """d = 0: the noise stays the nominal one. The EKF."""

    def init(self, q: Errors, r: Measurements) -> None:
        """An empty memory."""
        return None

    def __call__(self, memory: None, info: StepInfo) -> tuple[Attenuation, None, None]:
        """No change of the noise."""
        return Attenuation(), None, None


class Fading(eqx.Module):
    """d = (1 - b) / (1 - b^(k+1)) for all channels, k = 1 at the first measurement. Sage-Husa."""

    b: jax.Array

    def init(self, q: Errors, r: Measurements) -> jax.Array:
        """k, the number of measurements before the first step: 0."""
        return jnp.zeros_like(q[0])

    def __call__(self, memory: jax.Array, info: StepInfo) -> tuple[Attenuation, jax.Array, None]:
        """d_k for all channels; k counts the steps with a measurement."""
        k = memory + jnp.any(info.arrived, axis=0)
        d = (1.0 - self.b) / (1.0 - self.b ** (jnp.maximum(k, 1.0) + 1.0))
        return Attenuation(q=d + jnp.zeros_like(info.q), r=d + jnp.zeros_like(info.r)), k, None


class Gated(eqx.Module):
    """A wrapper with a gate: a channel whose innovation exceeds `sigmas` deviations is left out.

    It corrects neither the state nor r. A channel that stays outside the gate for more than
    `PATIENCE` measurements is used again, because then the filter may be wrong.
    """

    policy: AttenuationPolicy
    sigmas: jax.Array

    def init(self, q: Errors, r: Measurements) -> tuple[Measurements, Any]:
        """The count of measurements outside the gate by channel, and the inner policy's memory."""
        return jnp.zeros_like(r), self.policy.init(q, r)

    def __call__(
        self, memory: tuple[Measurements, Any], info: StepInfo
    ) -> tuple[Attenuation, Any, Any]:
        """The inner policy's decision; a gated channel has a practically infinite r in the gain."""
        count, inner = memory
        d, inner, trace = self.policy(inner, info)
        outside = info.nu**2 > self.sigmas**2 * diagonal(info.S)
        count = jnp.where(info.arrived, jnp.where(outside, count + 1.0, 0.0), count)
        left_out = outside & (count <= PATIENCE)
        inflate = jnp.where(left_out, SHUT, 1.0 if d.inflate_r is None else d.inflate_r)
        share = None if d.r is None else jnp.where(left_out, 0.0, d.r)
        scale = None if d.scale_r is None else jnp.where(left_out, 1.0, d.scale_r)
        return d._replace(r=share, scale_r=scale, inflate_r=inflate), (count, inner), trace


class PerPredictionStep(eqx.Module):
    """A wrapper for a filter that predicts `steps` times between two measurements.

    The empirical q of a correction comes from all these predictions together, so the q of one
    prediction is blended with d / steps. r belongs to one measurement and is blended with d.
    """

    policy: AttenuationPolicy
    steps: jax.Array

    def init(self, q: Errors, r: Measurements) -> Any:
        """The inner policy's memory."""
        return self.policy.init(q, r)

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, Any]:
        """The inner policy's decision, with d / steps for q."""
        d, memory, trace = self.policy(memory, info)
        return d._replace(q=None if d.q is None else d.q / self.steps), memory, trace


def innermost(policy: AttenuationPolicy) -> AttenuationPolicy:
    """The policy without its wrappers."""
    while isinstance(policy, (Gated, PerPredictionStep)):
        policy = policy.policy
    return policy
