"""The linear algebra of small matrices, batch in the last axis.

The few products that a Kalman filter needs. A product is an explicit sum over the inner index,
which XLA compiles to one loop over the batch; a reduction over a leading axis, or LAPACK called
per record, is several times slower. Derivatives are written by hand, because the automatic ones
scatter, pad and reduce instead of multiplying.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.guards import all_finite, every, keep_where, prevent_fusion
from sagewing.shapes import Arrived, Covariances, Gains, InnovationCov, Jacobians, Measurements

Matrix = Float[Array, "..."]

# Beyond this size unrolled sums compile slowly without a gain: library routines are used.
UNROLLED_SIZE = 24
# An innovation beyond this number of standard deviations is implausible. In the paper's benchmarks
# no filter that keeps track has one beyond 63.
IMPLAUSIBLE = 70.0
# The factor on a channel's variance that leaves it out.
SHUT = 1e8


def transpose(A: Matrix) -> Matrix:
    """A^T."""
    return jnp.swapaxes(A, 0, 1)


def symmetric(A: Matrix) -> Matrix:
    """(A + A^T) / 2."""
    return 0.5 * (A + transpose(A))


@jax.custom_vjp
def matmul(A: Matrix, B: Matrix) -> Matrix:
    """A B."""
    return _matmul(A, B)


def _matmul(A, B):
    inner = A.shape[1]
    if inner == 0:
        return jnp.zeros((A.shape[0], *B.shape[1:]), B.dtype)
    if inner > UNROLLED_SIZE:
        return jnp.einsum("ij...,jk...->ik...", A, B)
    if inner > 4:  # every entry is read `inner` times
        A, B = prevent_fusion((A, B))
    total = A[:, 0, None] * B[None, 0]
    for j in range(1, inner):
        total = total + A[:, j, None] * B[None, j]
    return total


matmul.defvjp(
    lambda A, B: (_matmul(A, B), (A, B)),
    lambda AB, G: (_matmul(G, transpose(AB[1])), _matmul(transpose(AB[0]), G)),
)


def matvec(A: Matrix, b: Matrix) -> Matrix:
    """A b."""
    return matmul(A, b[:, None])[:, 0]


@jax.custom_vjp
def diagonal(A: Matrix) -> Matrix:
    """The diagonal as a vector."""
    return _diagonal(A)


def _diagonal(A):
    n = A.shape[0]
    return A.reshape(n * n, *A.shape[2:])[:: n + 1]


@jax.custom_vjp
def diagonal_matrix(d: Matrix) -> Matrix:
    """The matrix with this diagonal."""
    return _diagonal_matrix(d)


def _diagonal_matrix(d):
    eye = jnp.eye(d.shape[0], dtype=d.dtype)
    return eye.reshape(eye.shape + (1,) * (d.ndim - 1)) * d[None]


diagonal.defvjp(lambda A: (_diagonal(A), None), lambda _, g: (_diagonal_matrix(g),))
diagonal_matrix.defvjp(lambda d: (_diagonal_matrix(d), None), lambda _, G: (_diagonal(G),))


def cholesky(S: Matrix) -> Matrix:
    """The lower L with L L^T = S, column by column; NaN where S is not positive definite."""
    n = S.shape[0]
    if n > UNROLLED_SIZE:
        return jnp.moveaxis(
            jnp.linalg.cholesky(jnp.moveaxis(S, (0, 1), (-2, -1))), (-2, -1), (0, 1)
        )
    columns: list[Matrix] = []
    for j in range(n):
        below = S[j:, j]
        for column in columns:
            below = below - column[j:] * column[j]
        root = jnp.sqrt(below[0])
        parts = [jnp.zeros_like(S[:j, j]), root[None], below[1:] * (1.0 / root)]
        columns.append(jnp.concatenate(parts))
    return jnp.stack(columns, axis=1)


def semidefinite_cholesky(S: Matrix, smallest: Matrix) -> Matrix:
    """The lower L with L L^T = S for an S that may be singular; no pivot is below `smallest`.

    A column whose pivot would be has zeros below it, as in a matrix that is singular. L L^T is
    positive wherever `smallest` is.
    """
    smallest = jax.lax.stop_gradient(smallest) + float(jnp.finfo(S.dtype).tiny)
    columns: list[Matrix] = []
    for j in range(S.shape[0]):
        below = S[j:, j]
        for column in columns:
            below = below - column[j:] * column[j]
        regular = below[0] > smallest[j]
        root = jnp.sqrt(jnp.where(regular, below[0], smallest[j]))
        rest = below[1:] * jnp.where(regular, 1.0 / root, 0.0)
        columns.append(jnp.concatenate([jnp.zeros_like(S[:j, j]), root[None], rest]))
    return jnp.stack(columns, axis=1)


def inverse_lower(L: Matrix) -> Matrix:
    """L^-1 of a lower triangular L, by forward substitution."""
    rows: list[Matrix] = []
    eye = diagonal_matrix(jnp.ones_like(L[:, 0]))
    for i in range(L.shape[0]):
        row = eye[i]
        for k in range(i):
            row = row - L[i, k] * rows[k]
        rows.append(row * (1.0 / L[i, i]))
    return jnp.stack(rows)


def propagate(F: Matrix, P: Matrix, constants: int = 0) -> Matrix:
    """F P F^T for a symmetric P, symmetric to the last bit; the last rows of F are the identity's.

    With F = [F_m; 0 I], the block of the moving states is F_m P F_m^T, the block of moving by
    constant states is F_m P without the columns of the moving states, and the block of the
    constant states does not change.
    """
    return _propagate(F, P, constants)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _propagate(F, P, constants):
    return _propagate_forward(F, P, constants)[0]


def _propagate_forward(F, P, constants):
    moving = F.shape[0] - constants
    F_m = F[:moving]
    FP = matmul(F_m, P)
    propagated = matmul(F_m, transpose(FP))  # F's zeros on the left: no row of C for them
    if moving > 4:  # every entry is read twice
        propagated = prevent_fusion(propagated)
    propagated = symmetric(propagated)
    if constants == 0:
        return propagated, (F_m, FP, P)
    cross = FP[:, moving:]
    top = jnp.concatenate([propagated, cross], axis=1)
    bottom = jnp.concatenate([transpose(cross), P[moving:, moving:]], axis=1)
    return jnp.concatenate([top, bottom]), (F_m, FP, P)


def _propagate_backward(constants, saved, G):
    F_m, FP, P = saved
    moving = F_m.shape[0]
    G = symmetric(G)
    if constants == 0:
        return matmul(2.0 * G, FP), matmul(matmul(transpose(F_m), G), F_m)
    F_bar = 2.0 * matmul(G[:moving], jnp.concatenate([FP, P[moving:]]))
    # F^T G F = F^T N with N = G F, whose last columns are also G's
    N = matmul(G[:, :moving], F_m)
    N = jnp.concatenate([N[:, :moving], N[:, moving:] + G[:, moving:]], axis=1)
    P_bar = matmul(transpose(F_m), N[:moving])
    P_bar = jnp.concatenate([P_bar[:moving], P_bar[moving:] + N[moving:]])
    return jnp.concatenate([F_bar, jnp.zeros_like(P[moving:])]), P_bar


_propagate.defvjp(_propagate_forward, _propagate_backward)


def project(N: Matrix, P: Matrix, first: int) -> Matrix:
    """E P E^T for a symmetric P, symmetric to the last bit; E is I, with N from row `first` on."""
    last = first + N.shape[0]
    NP = matmul(N, P[first:last])
    before, after = NP[:, :first], NP[:, last:]
    own = symmetric(matmul(NP[:, first:last], transpose(N)))
    top = [P[:first, :first], transpose(before), P[:first, last:]]
    bottom = [P[last:, :first], transpose(after), P[last:, last:]]
    rows = [jnp.concatenate(row, axis=1) for row in (top, [before, own, after], bottom)]
    return jnp.concatenate(rows)


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
    smallest = 2.0 * diagonal(R) - sum(jnp.abs(R[:, j]) for j in range(n_z))
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
    HP = matmul(H, P)
    HPH = matmul(HP, transpose(H))
    S, plausible = _innovation_covariance(HPH, R, nu)
    L = cholesky(S)
    L_inv = inverse_lower(L)
    W = matmul(L_inv, HP)
    K = transpose(matmul(transpose(L_inv), W))
    removed = matmul(transpose(W), W)
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
    inner = _lower(matmul(transpose(L), _lower(L_bar)))
    inner = inner - 0.5 * diagonal_matrix(diagonal(inner))
    return symmetric(matmul(matmul(transpose(L_inv), inner), L_inv))


def _lower(A: Matrix) -> Matrix:
    """The lower triangle, with the diagonal."""
    keep = jnp.tril(jnp.ones(A.shape[:2], A.dtype))
    return A * keep.reshape(keep.shape + (1,) * (A.ndim - 2))


gain.defvjp(_gain_forward, _gain_backward)


@jax.custom_vjp
def whiten(L: InnovationCov, nu: Measurements) -> Measurements:
    """L^-1 nu, by forward substitution."""
    rows: list[Matrix] = []
    for i in range(L.shape[0]):
        rest = nu[i]
        for k in range(i):
            rest = rest - L[i, k] * rows[k]
        rows.append(rest / L[i, i])
    return jnp.stack(rows)


def _whiten_forward(L, nu):
    white = whiten(L, nu)
    return white, (L, white)


def _whiten_backward(saved, bar):
    L, white = saved
    upside_down = transpose(L)[::-1, ::-1]
    nu_bar = whiten(upside_down, bar[::-1])[::-1]  # L^-T bar, by backward substitution
    return _lower(-nu_bar[:, None] * white[None]), nu_bar


whiten.defvjp(_whiten_forward, _whiten_backward)
