"""The variational Bayesian adaptive Kalman filter (Huang et al., 2017)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.kernels import diagonal, gain, matvec, propagate, whiten
from sagewing.filters.nominal import NominalNoise
from sagewing.filters.recursion import (
    Estimate,
    consistency,
    correct,
    innovate,
    like,
    of_arrived,
    predict,
)
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Innovations,
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
    U: Innovations


class VariationalFilter(NominalNoise):
    """Inverse Wishart priors on the predicted covariance and on R, refined together with x."""

    tau: float = eqx.field(static=True)
    rho: float = eqx.field(static=True)
    iterations: int = eqx.field(static=True)

    def init(self, x0: States, P0: Covariances) -> VBState:
        """The prior of R has its mean at R0."""
        u = jnp.full_like(x0[0], self.tau + self.n_z + 1.0)
        return VBState(x0, P0, u, self.tau * like(self.R, x0))

    def step(
        self, state: VBState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[VBState, Estimate]:
        """One prediction, and a correction in which x, P and R settle together."""
        n_z, tau = self.n_z, self.tau
        x_pred, _, FPF, predicted = predict(self.model, state.x, state.P, u, dt)
        P_pred = FPF + like(self.Q, x_pred)

        # R as it was, less certain than it was
        R_old = state.U / (state.u - n_z - 1.0)
        dof = self.rho * (state.u - n_z - 1.0) + n_z + 1.0
        U = self.rho * state.U
        nu, H, arrived, sane = innovate(self.model, x_pred, diagonal(R_old), z, u, arrived)
        both = arrived[:, None] & arrived[None]
        first = gain(P_pred, H, of_arrived(R_old, arrived))
        white = whiten(first.L, jnp.where(first.ok, nu, 0.0))

        def refine(at, _):
            x, P, _, weighed = at
            # A missing channel's share of B is what leaves its R as it was
            e = nu - matvec(H, x - x_pred)
            B = jnp.where(both, e[:, None] * e[None] + propagate(H, P), R_old)
            A = P + (x - x_pred)[:, None] * (x - x_pred)[None]
            R = (U + B) / (dof - n_z)
            P_prior = (tau * P_pred + A) / (tau + 1.0)
            found = gain(P_prior, H, of_arrived(R, arrived))
            x = x_pred + matvec(found.K, nu)
            return (x, found.P, U + B, weighed & found.ok), None

        start = (x_pred, P_pred, U, first.ok)
        (x, P, U, weighed), _ = jax.lax.scan(refine, start, length=self.iterations)
        x, P, corrected = correct(self.model, x_pred, P_pred, x - x_pred, P)
        ok = weighed & corrected
        moved = ok & jnp.any(arrived, axis=0)
        state = VBState(
            jnp.where(moved, x, x_pred),
            jnp.where(moved, P, P_pred),
            jnp.where(moved, dof + 1.0, state.u),
            jnp.where(moved, U, state.U),
        )
        nis, loglik = consistency(white, first.L, arrived & first.ok)
        r = diagonal(state.U) / (state.u - n_z - 1.0)
        said = Estimate(
            state.x, state.P, None, r, None, nis, loglik, predicted & sane & ok, trace=None
        )
        return state, said


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
