"""Correlations of Q and R that are adapted with the variances: dense covariances.

With the shares d of the empirical R_hat, and D = diag(sqrt(d)), the blend of Sage and Husa is

    R <- R + D (R_hat - R) D

With one common d this is (1 - d) R + d R_hat; a channel whose d is zero keeps its row. R_hat is
indefinite, and so the blend can be. R is therefore remembered as variances, bounded as those of a
diagonal R, and as a correlation matrix C, built as L L^T from partial correlations of less than 1.
C has no eigenvalue below `LEAST`, so that no combination of channels is trusted more than a
hundred times as much as the variances say. Where the blend has none below 2 `LEAST`, C is its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sagewing.filters.guards import some
from sagewing.filters.kernels import Matrix, diagonal, diagonal_matrix, matmul, transpose
from sagewing.shapes import Covariances, Errors, InnovationCov, Measurements

# The smallest eigenvalue of a correlation matrix.
LEAST = 0.01
# The largest partial correlation, in a matrix from which LEAST has been taken.
LARGEST = (1.0 - LEAST) ** 0.5
# A variance differs from an equal one by less than this factor.
ROUNDING = 1e-4


class Correlations(NamedTuple):
    """The correlations of Q, if they are adapted, and of R: symmetric, zero on the diagonal."""

    q: Covariances | None
    r: InnovationCov

    def covariances(self, q: Errors, r: Measurements) -> tuple[Covariances | None, InnovationCov]:
        """Q, if its correlations are adapted, and R with these variances."""
        return None if self.q is None else covariance_by(q, self.q), covariance_by(r, self.r)


def correlations(variances: jax.Array, off: Matrix | None) -> Matrix:
    """The correlations of a covariance with these variances and entries off the diagonal."""
    if off is None:
        return jnp.zeros_like(diagonal_matrix(variances))
    positive = variances > 0.0
    inverse = jnp.where(positive, 1.0 / jnp.sqrt(jnp.where(positive, variances, 1.0)), 0.0)
    return off * (inverse[:, None] * inverse[None])


def off_diagonal(variances: jax.Array, C: Matrix) -> Matrix:
    """The entries off the diagonal of a covariance with these variances and correlations."""
    deviations = root(variances)
    return C * (deviations[:, None] * deviations[None])


def covariance_by(variances: jax.Array, C: Matrix) -> Matrix:
    """The covariance with these variances and correlations."""
    return diagonal_matrix(variances) + off_diagonal(variances, C)


def root(variances: jax.Array) -> jax.Array:
    """The square root, with a derivative of zero at zero."""
    positive = variances > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, variances, 1.0)), 0.0)


def inflated(C: Matrix | None, factor: jax.Array) -> Matrix | None:
    """The correlations where variances grow by a factor, as by noise of their own."""
    if C is None:
        return None
    weaker = 1.0 / jnp.sqrt(jnp.maximum(factor, 1.0))
    return C * (weaker[:, None] * weaker[None])


def adapted(
    C: Matrix,
    old: jax.Array,
    new: jax.Array,
    empirical: Matrix,
    share: jax.Array,
    scale: jax.Array | float,
) -> Matrix:
    """The correlations after a step in which the variances changed from `old` to `new`.

    A `scale` of the variances leaves correlations as they are. Where a bound stopped a variance,
    its share is the one that ends at the bound.
    """
    variances, target = diagonal(empirical), new / scale
    blended = (1.0 - share) * old + share * variances
    free = jnp.abs(blended - target) <= ROUNDING * target
    to_bound = (target - old) / jnp.where(variances == old, 1.0, variances - old)
    D = root(jnp.where(free, share, jnp.clip(to_bound, 0.0, share)))
    R = covariance_by(old, C)
    R = R + (empirical - R) * (D[:, None] * D[None])
    wanted = correlations(diagonal(R), R)
    wanted = jnp.where(jnp.isfinite(wanted), wanted, C)
    return jnp.where(some(D > 0.0), definite(wanted), C)


def definite(C: Matrix) -> Matrix:
    """The correlations of a positive definite matrix: these where they are, else in order.

    Column by column as in a Cholesky factorisation of C - LEAST I; an entry of L whose partial
    correlation exceeds LARGEST is shortened to it. `rest` are the variances that remain, which are
    multiplied by 1 - rho^2, and so stay positive.
    """
    n = len(C)
    rest = jnp.full_like(C[0], 1.0 - LEAST)
    columns: list[Matrix] = []
    for j in range(n):
        below = C[j + 1 :, j]
        for column in columns:
            below = below - column[j + 1 :] * column[j]
        own, others = jnp.sqrt(rest[0]), jnp.sqrt(rest[1:])
        rho = jnp.clip(below / (own * others), -LARGEST, LARGEST)
        columns.append(jnp.concatenate([jnp.zeros_like(C[:j, j]), own[None], rho * others]))
        rest = rest[1:] * (1.0 - rho) * (1.0 + rho)
    L = jnp.stack(columns, axis=1)
    product = matmul(L, transpose(L))  # LEAST I and this have a diagonal of 1
    return product - diagonal_matrix(diagonal(product))
