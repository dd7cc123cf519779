"""The square-root form: P = U U^T, where rounding is that of standard deviations, not of variances.

U is triangularised after the prediction (modified Gram-Schmidt, row by row, so that units do not
matter) and corrected one channel after the other (Carlson's update, whose diagonal is only
multiplied, and so stays positive).
"""

from typing import NamedTuple

import jax.numpy as jnp

from sagewing.filters.gain import IMPLAUSIBLE, SHUT, Gain, gain
from sagewing.filters.guards import all_finite, keep_where, prevent_fusion
from sagewing.filters.kernels import (
    Matrix,
    cholesky,
    diagonal,
    diagonal_matrix,
    inverse_lower,
    matmul,
    matvec,
    project,
    transpose,
)
from sagewing.filters.step import StepNoise
from sagewing.shapes import (
    Covariances,
    Errors,
    Flags,
    InnovationCov,
    Jacobians,
    Measurements,
)


class Rooted(NamedTuple):
    """P and its root U; without a root the arithmetic is that of P."""

    P: Covariances
    U: Covariances | None = None

    def predicted(
        self, F: Covariances, FPF: Covariances, ok: Flags, Q: Covariances, *, diagonal_only: bool
    ) -> "Rooted":
        """F P F^T + Q; where the prediction failed F is left out."""
        if self.U is None:
            return Rooted(FPF + Q)
        moved = jnp.where(ok, matmul(F, self.U), self.U)
        added = diagonal_matrix(jnp.sqrt(diagonal(Q))) if diagonal_only else root_of(Q)
        U = triangular(jnp.concatenate([moved, added], axis=1))
        return Rooted(product(U), U)

    def gain(
        self, H: Jacobians, R: InnovationCov, nu: Measurements | None, *, diagonal_only: bool
    ) -> "tuple[Gain, Rooted]":
        """`gain.gain`, and the corrected P."""
        if self.U is None:
            out = gain(self.P, H, R, nu)
            return out, Rooted(out.P)
        return _gain(self.P, self.U, H, R, nu, diagonal_only)

    def projected(self, E: Covariances, first: int) -> "Rooted":
        """E P E^T, where E is the identity but for this block from row `first` on."""
        P, U = project(E, self.P, first), self.U
        if U is not None:
            last = first + len(E)
            U = jnp.concatenate([U[:first], matmul(E, U[first:last]), U[last:]])
        return Rooted(P, U)

    def with_noise(self, noise: StepNoise) -> "Rooted":
        """The predicted P of a step with noise of its own."""
        if self.U is None or noise.added is None:
            return Rooted(noise.added_to(self.P), self.U)
        U = triangular(jnp.concatenate([self.U, noise.added[:, None]], axis=1))
        return Rooted(product(U), U)


def root_of(P: Matrix) -> Matrix:
    """The lower L with L L^T = P, for a P that may be singular: its rounding is added."""
    variances = diagonal(P)
    known = variances > 0.0
    rounding = 4.0 * len(P) * jnp.finfo(P.dtype).eps * variances
    L = cholesky(P + diagonal_matrix(jnp.where(known, rounding, 1.0)))
    return jnp.where(known[:, None] & known[None], L, 0.0)


def product(U: Covariances) -> Covariances:
    """U U^T as a covariance that is positive definite after its rounding."""
    P = matmul(U, transpose(U))
    rounding = 0.5 * len(U) ** 2 * jnp.finfo(U.dtype).eps
    return P + diagonal_matrix(rounding * diagonal(P))


def triangular(A: Matrix) -> Covariances:
    """The upper triangular U with U U^T = A A^T; dependent rows keep their rounding."""
    n, eps = len(A), jnp.finfo(A.dtype).eps
    least = eps**2 * jnp.stack([matvec(A[i][None], A[i])[0] for i in range(n)])
    columns: list[Matrix] = []
    for i in reversed(range(n)):
        products = matvec(A[: i + 1], A[i])
        square = jnp.maximum(products[i], least[i])
        positive = square > 0.0
        root = jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)
        inverse = jnp.where(positive, 1.0 / jnp.where(positive, root, 1.0), 0.0)
        above = products[:i] * inverse
        columns.append(jnp.concatenate([above, root[None], jnp.zeros_like(least[i + 1 :])]))
        A = prevent_fusion(A[:i] - above[:, None] * (A[i] * inverse)[None]) if i else A
    return jnp.stack(columns[::-1], axis=1)


def _gain(
    P: Covariances,
    U: Covariances,
    H: Jacobians,
    R: InnovationCov,
    nu: Measurements | None,
    diagonal_only: bool,
) -> tuple[Gain, Rooted]:
    """The gain, with S factorised without being formed."""
    HU = matmul(H, U)
    HPH = matmul(HU, transpose(HU))
    S, plausible = HPH + R, jnp.ones_like(R[0], bool)
    if nu is not None:
        variances = diagonal(S)
        plausible = nu**2 <= IMPLAUSIBLE**2 * variances
        shut = diagonal_matrix(jnp.where(plausible, 0.0, SHUT * variances))
        R, S = R + shut, S + shut
    L_R = None if diagonal_only else cholesky(R)
    L, W, U_post = _corrected(U, HU, diagonal(R), L_R)
    L_inv = inverse_lower(L)
    K, P_post = transpose(matmul(transpose(L_inv), W)), product(U_post)
    ok = all_finite(diagonal(P_post), diagonal(HPH), diagonal(L_inv))
    zero, unit = jnp.zeros_like(HPH), diagonal_matrix(jnp.ones_like(R[0]))
    HPH, S, L, K, P_post, U_post = keep_where(
        ok,
        (HPH, S, L, K, P_post, U_post),
        (zero, unit, unit, jnp.zeros_like(K), P, U),
    )
    return Gain(HPH, S, L, K, P_post, plausible & ok), Rooted(P_post, U_post)


def _corrected(
    U: Covariances, HU: Jacobians, r: Measurements, L_R: InnovationCov | None
) -> tuple[InnovationCov, Jacobians, Covariances]:
    """L of S, W = L^-1 H P, and the root of P - W^T W."""
    n_z = len(r)
    if L_R is not None:
        HU, r = matmul(inverse_lower(L_R), HU), jnp.ones_like(r)
    rows = jnp.concatenate([HU, U])
    columns: list[Matrix] = []
    W: list[Matrix] = []
    for i in range(n_z):
        f = rows[i]
        alpha = r[i] + jnp.cumsum(f**2, axis=0)
        before = jnp.concatenate([r[i : i + 1], alpha[:-1]])
        sums = jnp.cumsum(rows * f[None], axis=1)
        earlier = jnp.concatenate([jnp.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)
        root = jnp.sqrt(alpha[-1])
        column = sums[:, -1] / root
        above = jnp.zeros_like(column[:i])
        columns.append(jnp.concatenate([above, root[None], column[i + 1 : n_z]]))
        W.append(column[n_z:])
        rows = (rows - (f / before)[None] * earlier) * jnp.sqrt(before / alpha)[None]
        rows = prevent_fusion(rows)
    L = jnp.stack(columns, axis=1)
    return L if L_R is None else matmul(L_R, L), jnp.stack(W), rows[n_z:]


def rescaled(U: Covariances, shrink: Errors, widen: Flags) -> Covariances:
    """The root after `recover` has scaled the states by `shrink`, and widened P where told."""
    U = shrink[:, None] * U
    deviations = jnp.sqrt(jnp.stack([matvec(row[None], row)[0] for row in U]))
    wider = jnp.concatenate([U, diagonal_matrix(deviations)], axis=1)
    return jnp.where(widen, 2.0**0.5 * triangular(wider), U)
