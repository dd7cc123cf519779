"""Rules: the noise that a step uses, and the noise that is remembered after it.

`AttenuationRule` is the paper's. A rule of your own has the same three methods (`protocols.Rule`)
and may use the helper functions here.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.filters.correlations import adapted, inflated
from sagewing.filters.guards import finite_derivative
from sagewing.filters.kernels import diagonal, matvec
from sagewing.filters.protocols import AttenuationPolicy, GainNoise
from sagewing.filters.step import (
    Attenuation,
    Linearization,
    RememberedNoise,
    StepInfo,
    StepNoise,
)
from sagewing.shapes import (
    Attenuations,
    Covariances,
    Errors,
    Flags,
    InnovationCov,
    Measurements,
)


class Pending(NamedTuple):
    """A decision between the two calls of a rule, with the r to remember, and its correlations."""

    d: Attenuation
    r: Measurements
    correlations: InnovationCov | None
    memory: Any
    trace: Any


class AttenuationRule(eqx.Module):
    """Algorithm 1: empirical noise is blended into the remembered noise, with shares d_k.

    `policy` chooses d_k. Adapted variances stay within `bounds` times their base and above `floor`.
    With `gain_noise` "posterior" a step's gain uses the r estimated in this step (the text of the
    paper's Sage-Husa section), with "prior" the r of the step before (Algorithm 1). In a filter
    that adapts correlations (`dense`) the same shares blend those: see `correlations.py`.

    Example, a policy of your own in a filter, with bounds, floor and gain noise:
    `sw.AdaptiveFilter(model, q0, r0, None, None, sw.AttenuationRule(mine, (0.5, 100.0), 1e-10,
    "prior"))`, where q0 and r0 are arrays of variances.
    """

    policy: AttenuationPolicy
    bounds: tuple[float, float] = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)

    def init(self, q: Errors, r: Measurements) -> Any:
        """The policy's memory."""
        return self.policy.init(q, r)

    def before_gain(self, memory: Any, info: StepInfo) -> tuple[StepNoise, Pending]:
        """The policy's decision, and the r updated by it."""
        linear = info.linear
        assert linear is not None
        d, memory, trace = self.policy(memory, info)
        d = finite_derivative(d)
        if linear.adapts is not None:  # decisions for this step only apply in every mode
            d = d.where(linear.adapts)._replace(inflate_r=d.inflate_r, curvature=d.curvature)
        r_hat = empirical_r(info.nu, linear, d.curvature)
        r = self._blend(info.r, r_hat, d.r, d.scale_r, linear.r0, info.arrived)
        C_before = C = None if info.correlations is None else info.correlations.r
        if C is not None and d.r is not None:
            R_hat = empirical_R(info.nu, linear, d.curvature)
            share, scale = _where(info.arrived, d.r, d.scale_r)
            C = adapted(C, info.r, r, R_hat, share, scale)
        r_gain, C_gain = (r, C) if self.gain_noise == "posterior" else (None, None)
        if d.inflate_r is not None:
            r_gain = (info.r if r_gain is None else r_gain) * d.inflate_r
            C_gain = inflated(C_before if C_gain is None else C_gain, d.inflate_r)
        return StepNoise(r_gain, d.curvature, C_gain), Pending(d, r, C, memory, trace)

    def after_correction(
        self, pending: Pending, info: StepInfo, correction: Errors, P: Covariances
    ) -> tuple[RememberedNoise, Any]:
        """q, updated by the same decision."""
        linear = info.linear
        assert linear is not None
        d, r, C_r, memory, trace = pending
        q_hat = empirical_q(correction, P, linear, d.curvature)
        arrived = jnp.any(info.arrived, axis=0)
        q = self._blend(info.q, q_hat, d.q, d.scale_q, linear.q0, arrived)
        if q is info.q and r is info.r:
            return RememberedNoise(trace=trace), memory
        C = info.correlations
        if C is not None and C_r is not None:
            C = C._replace(r=C_r)
            if C.q is not None and d.q is not None:
                Q_hat = empirical_Q(correction, P, linear, d.curvature)
                # A state without noise in Q0 stays uncorrelated
                share, scale = _where(arrived & (linear.q0 > 0.0), d.q, d.scale_q)
                C = C._replace(q=adapted(C.q, info.q, q, Q_hat, share, scale))
        return RememberedNoise(q, r, joined_shares(d, info), trace, C), memory

    def _blend(
        self,
        old: jax.Array,
        empirical: jax.Array,
        share: jax.Array | None,
        scale: jax.Array | None,
        base: jax.Array,
        arrived: Flags,
    ) -> jax.Array:
        """(1 - d) old + d empirical, scaled and bounded; unchanged without a measurement."""
        new = old if share is None else (1.0 - share) * old + share * empirical
        new = new if scale is None else new * scale
        if new is old:
            return old
        within = bounded(new, base, self.bounds, self.floor)
        # A variance that the policy does not change stays, even if it is below the floor
        return jnp.where(arrived & (new != old) & ~jnp.isnan(new), within, old)


def empirical_r(
    nu: Measurements, linear: Linearization, curvature: Errors | None = None
) -> Measurements:
    """diag(nu nu^T - H P H^T): the empirical variances of the measurement noise of one step."""
    r = nu**2 - diagonal(linear.HPH)
    return r if curvature is None else r - matvec(linear.H, curvature) ** 2


def empirical_q(
    correction: Errors, P: Covariances, linear: Linearization, curvature: Errors | None = None
) -> Errors:
    """diag(dx dx^T + P - F P F^T): the empirical variances of the process noise of one step."""
    q = correction**2 + diagonal(P) - diagonal(linear.FPF)
    return q if curvature is None else q - curvature**2


def empirical_R(
    nu: Measurements, linear: Linearization, curvature: Errors | None = None
) -> InnovationCov:
    """nu nu^T - H P H^T: the matrix whose diagonal is `empirical_r`."""
    R = nu[:, None] * nu[None] - linear.HPH
    if curvature is None:
        return R
    by_curvature = matvec(linear.H, curvature)
    return R - by_curvature[:, None] * by_curvature[None]


def empirical_Q(
    correction: Errors, P: Covariances, linear: Linearization, curvature: Errors | None = None
) -> Covariances:
    """dx dx^T + P - F P F^T: the matrix whose diagonal is `empirical_q`."""
    Q = correction[:, None] * correction[None] + P - linear.FPF
    return Q if curvature is None else Q - curvature[:, None] * curvature[None]


def _where(
    flags: Flags, share: jax.Array, scale: jax.Array | None
) -> tuple[jax.Array, jax.Array | float]:
    """The share and the scale of a decision where `flags` are set, no change elsewhere."""
    share = jnp.where(flags & ~jnp.isnan(share), share, 0.0)
    return share, 1.0 if scale is None else jnp.where(flags, scale, 1.0)


def bounded(
    variances: jax.Array, base: jax.Array, bounds: tuple[float, float], floor: float
) -> jax.Array:
    """Variances within `bounds` times their base, and not below the floor."""
    low, high = bounds
    return jnp.clip(variances, jnp.maximum(low * base, floor), jnp.maximum(high * base, floor))


def joined_shares(d: Attenuation, info: StepInfo) -> Attenuations:
    """[d_q, d_r]; zero where nothing is adapted, or the policy's output overflowed."""

    def shares(share: jax.Array | None, base: jax.Array, arrived: jax.Array) -> jax.Array:
        if share is None:
            return jnp.zeros_like(base)
        return jnp.where(arrived & ~jnp.isnan(share), share, 0.0)

    any_arrived = jnp.any(info.arrived, axis=0)
    return jnp.concatenate([shares(d.q, info.q, any_arrived), shares(d.r, info.r, info.arrived)])
