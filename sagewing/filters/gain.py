"""The gain, and the covariance after the correction: S is factorised here."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sagewing.filters import routines
from sagewing.filters.guards import all_finite, every, keep_where, total
from sagewing.filters.kernels import (
    cholesky,
    diagonal,
    diagonal_matrix,
    inverse_lower,
    lower_triangle,
    matmul,
    matvec,
    symmetric,
    transpose,
)
from sagewing.filters.sizes import written_out
from sagewing.shapes import Arrived, Covariances, Gains, InnovationCov, Jacobians, Measurements

# An innovation beyond this number of standard deviations is implausible. In the paper's benchmarks
# no filter that keeps track has one beyond 63.
IMPLAUSIBLE = 70.0
# The factor on a channel's variance that leaves it out.
SHUT = 1e8


class Gain(NamedTuple):
    """The results of one Cholesky factorisation of S; a channel that is not `kept` is left out."""

    HPH: InnovationCov
    S: InnovationCov
    L: InnovationCov
    K: Gains
    P: Covariances
    kept: Arrived


def _innovation_covariance(
    HPH: InnovationCov, R: InnovationCov, nu: Measurements | None
) -> tuple[InnovationCov, Arrived]:
    """S = H P H^T + R, with a larger diagonal where needed, and the plausible channels."""
    S, n_z = HPH + R, len(R)
    variances = diagonal(S)
    # R must exceed the rounding of S, or S is singular for redundant sensors. No eigenvalue
    # of R is below R_ii - sum |R_ij| (Gershgorin).
    rounding = (8.0 + 4.0 * n_z) * jnp.finfo(S.dtype).eps * variances
    smallest = 2.0 * diagonal(R) - total(transpose(jnp.abs(R)), batched=R.ndim > 2)
    plausible = jnp.ones_like(R[0], bool)
    if nu is not None:
        plausible = nu**2 <= IMPLAUSIBLE**2 * variances

    def raised(S):
        more = jnp.clip(rounding - smallest, 0.0, rounding)
        return S + diagonal_matrix(jnp.where(plausible, more, SHUT * variances))

    good = every(plausible & (smallest >= rounding))
    return jax.lax.cond(jnp.all(good), lambda S: S, raised, S), plausible


def _gain(
    P: Covariances, H: Jacobians, R: InnovationCov, nu: Measurements | None
) -> tuple[Gain, Any]:
    eps, n_x = jnp.finfo(P.dtype).eps, P.shape[0]
    if written_out(n_x, batched=P.ndim > 2):
        HP = matmul(H, P)
        HPH = matmul(HP, transpose(H))
        S, plausible = _innovation_covariance(HPH, R, nu)
        L = cholesky(S)
        L_inv = inverse_lower(L)
        W = matmul(L_inv, HP)
        K = transpose(matmul(transpose(L_inv), W))
        removed = matmul(transpose(W), W)
    else:
        HP = routines.product(H, P)
        HPH = routines.product(H, transpose(HP))
        S, plausible = _innovation_covariance(HPH, R, nu)
        L = routines.cholesky(S)
        L_inv = routines.inverse_lower(L)
        W = routines.product(L_inv, HP)
        K = transpose(routines.product(transpose(L_inv), W))
        removed = routines.product(transpose(W), W)
    # Rounding in S and in H P enters P through the gain; adding it back keeps P positive.
    spread = jnp.sqrt(diagonal(R)) + matvec(jnp.abs(H), jnp.sqrt(diagonal(P)))
    slack = 2.0 * n_x * eps * matvec(jnp.abs(K), spread) ** 2
    P_post = P - removed + diagonal_matrix(slack)
    # Any failure above makes an entry of these two diagonals invalid.
    ok = all_finite(diagonal(P_post), diagonal(HPH))
    zero, unit = jnp.zeros_like(HPH), diagonal_matrix(jnp.ones_like(R[0]))
    HPH, S, L, K, P_post, H, HP, L_inv = keep_where(
        ok,
        (HPH, S, L, K, P_post, H, HP, L_inv),
        (zero, unit, unit, jnp.zeros_like(K), P, jnp.zeros_like(H), jnp.zeros_like(HP), unit),
    )
    return Gain(HPH, S, L, K, P_post, plausible & ok), (ok, H, HP, L_inv)


@jax.custom_vjp
def gain(P: Covariances, H: Jacobians, R: InnovationCov, nu: Measurements | None = None) -> Gain:
    """S = H P H^T + R = L L^T, K = P H^T S^-1 and the corrected P - K S K^T, for a symmetric P.

    With W = L^-1 H P, K = W^T L^-1 and the correction is W^T W: symmetric by construction. For a
    channel whose innovation `nu` is implausible under S, R is practically infinite. Where the
    arithmetic overflows no channel is used: K and H P H^T are zero, L is the identity, P stays.
    """
    return _gain(P, H, R, nu)[0]


def _gain_forward(P, H, R, nu=None):
    out, others = _gain(P, H, R, nu)
    return out, (out, *others)


def _gain_backward(saved, bar):
    # With J = I - K H:  d(P+) = J dP J^T + K dR K^T - K dH P+ - (..)^T
    #                    dK    = (J dP H^T - K dR + P+ dH^T - K dH P H^T) S^-1
    # and S reaches L through Cholesky's own rule; every product has rank n_z.
    (_, _, L, K, P_post, _), ok, H, HP, L_inv = saved
    K_bar, L_bar, HPH_bar, S_bar = (jnp.where(ok, b, 0.0) for b in (bar.K, bar.L, bar.HPH, bar.S))
    G = symmetric(bar.P)
    A = matmul(matmul(K_bar, transpose(L_inv)), L_inv)  # K-bar S^-1
    S_bar = _cholesky_backward(L, L_inv, L_bar) + S_bar + HPH_bar
    Kt, Ht = transpose(K), transpose(H)
    GK = matmul(G, K)
    KtGK = matmul(Kt, GK)
    KtA = matmul(Kt, A)
    # J^T (G J + A H) + H^T S_bar H, with the thin factors multiplied first
    left = G + matmul(A - GK, H)
    P_bar = left + matmul(Ht, matmul(S_bar, H) - matmul(Kt, left))
    R_bar = KtGK - KtA + S_bar - HPH_bar
    H_bar = matmul(transpose(A) - 2.0 * transpose(GK), P_post) + matmul(
        S_bar + transpose(S_bar) - KtA, HP
    )
    return P_bar, H_bar, R_bar, None


def _cholesky_backward(L, L_inv, L_bar):
    """S-bar = L^-T Phi(L^T L-bar) L^-1; Phi keeps the lower triangle and half of the diagonal."""
    inner = lower_triangle(matmul(transpose(L), lower_triangle(L_bar)))
    inner = inner - 0.5 * diagonal_matrix(diagonal(inner))
    return symmetric(matmul(matmul(transpose(L_inv), inner), L_inv))


gain.defvjp(_gain_forward, _gain_backward)
