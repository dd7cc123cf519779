"""The variational Bayesian adaptive Kalman filter (Huang et al., 2017)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.equations import (
    broadcast_to_batch,
    correct,
    likelihood,
    linearize_measurement,
    mask_missing_channels,
    predict,
)
from sagewing.filters.gain import gain
from sagewing.filters.kernels import diagonal, diagonal_matrix, matvec, propagate, whiten
from sagewing.filters.nominal import NominalNoise
from sagewing.filters.recovery import Recovery, Verdict, begin
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    InnovationCov,
    Inputs,
    Measurements,
    Numbers,
    States,
    Steps,
    Values,
)


class VBState(NamedTuple):
    """The estimate, and the inverse Wishart posterior of R: its degrees of freedom and scale."""

    x: States
    P: Covariances
    u: Values
    U: InnovationCov
    recovery: Recovery


class VariationalFilter(NominalNoise):
    """Inverse Wishart priors on the predicted covariance and on R, iterated together with x."""

    tau: float = eqx.field(static=True)
    rho: float = eqx.field(static=True)
    iterations: int = eqx.field(static=True)

    def init(self, x0: States, P0: Covariances) -> VBState:
        """The prior of R has its mean at R0."""
        u = jnp.full_like(x0[0], self.tau + self.n_z + 1.0)
        recovery = begin(x0, P0, broadcast_to_batch(self.r0, x0))
        return VBState(x0, P0, u, self.tau * broadcast_to_batch(self.R, x0), recovery)

    def plain_step(
        self, state: VBState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[VBState, Step, Verdict]:
        """One prediction, and a correction that iterates x, P and R together."""
        n_z, tau = self.n_z, self.tau
        x_pred, F, FPF, predicted = predict(self.model, state.recovery, state.x, state.P, u, dt)
        P_pred = FPF + broadcast_to_batch(self.Q, x_pred)

        # The prior of R: the same mean, with fewer degrees of freedom
        R_old = state.U / (state.u - n_z - 1.0)
        dof = self.rho * (state.u - n_z - 1.0) + n_z + 1.0
        U = self.rho * state.U
        innovation, H = linearize_measurement(self.model, x_pred, P_pred, z, u, arrived)
        first_gain = gain(P_pred, H, mask_missing_channels(R_old, arrived), innovation)
        used = arrived & first_gain.kept
        used_pairs = used[:, None] & used[None]
        nu, H = jnp.where(used, innovation, 0.0), jnp.where(used[:, None], H, 0.0)
        white = whiten(first_gain.L, nu)
        # A missing channel's share of B keeps its variance. Its covariances with other channels
        # decay: kept together with their new variances, they could make B indefinite.
        missing = diagonal_matrix(jnp.where(used, 0.0, diagonal(R_old)))

        def refine(iterate, _):
            dx, P, _, kept = iterate
            e = nu - matvec(H, dx)
            B = jnp.where(used_pairs, e[:, None] * e[None] + propagate(H, P), missing)
            A = P + dx[:, None] * dx[None]
            R = (U + B) / (dof - n_z)
            P_prior = (tau * P_pred + A) / (tau + 1.0)
            updated = gain(P_prior, H, mask_missing_channels(R, used))
            return (matvec(updated.K, nu), updated.P, U + B, kept & updated.kept), None

        initial = (jnp.zeros_like(P_pred[0]), P_pred, U, first_gain.kept)
        (dx, P, U, kept), _ = jax.lax.scan(refine, initial, length=self.iterations)
        refined = jnp.all(kept | ~used, axis=0)
        x, P, corrected = correct(self.model, x_pred, P_pred, dx, P)
        accepted = refined & corrected & jnp.any(used, axis=0)
        x, P = jnp.where(accepted, x, x_pred), jnp.where(accepted, P, P_pred)
        dof, U = jnp.where(accepted, dof + 1.0, state.u), jnp.where(accepted, U, state.U)
        verdict = Verdict(arrived, kept, predicted & refined & corrected)
        recovery = state.recovery.after_step(dt)
        state = VBState(x, P, dof, U, recovery)
        nis, loglik = likelihood(white, first_gain.L, used)
        r = diagonal(U) / (dof - n_z - 1.0)
        step = Step(x, P, nis, loglik, verdict.ok, recovery.restarts, r=r)
        step = step._replace(x_pred=x_pred, P_pred=P_pred, F=F, H=H)
        step = step._replace(innovation=innovation, nu=nu, S=first_gain.S, K=first_gain.K)
        step = step._replace(predicted=predicted, corrected=corrected)
        return state, step, verdict


def VBAKF(
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    tau: float = 3.0,
    rho: float = 1.0 - math.exp(-4.0),
    iterations: int = 10,
) -> VariationalFilter:
    """The VBAKF: P and R are estimated with x in a few iterations at every step.

    `tau` weighs the predicted covariance, `rho` is R's forgetting factor; the defaults are the
    paper's. Q0 and R0 may be diagonals or full matrices.
    """
    if not tau > 0.0:
        raise InputError(f"tau must be positive; got {tau}.")
    if not 0.0 < rho <= 1.0:
        raise InputError(f"rho is a forgetting factor and must lie in (0, 1]; got {rho}.")
    if iterations < 1:
        raise InputError(f"iterations must be at least 1; got {iterations}.")
    return VariationalFilter(
        model, *checks.covariances(Q0, R0), float(tau), float(rho), int(iterations)
    )
