"""Linear algebra by library routines, for matrices that are too large to be written out.

The matrices are the first two axes, as everywhere. A routine of LAPACK has them in Fortran's order,
where a matrix is its transpose in C's: a transpose next to one costs nothing.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matrix = Float[Array, "..."]


def product(A: Matrix, B: Matrix) -> Matrix:
    """A B."""
    return jnp.einsum("ij...,jk...->ik...", A, B)


def transposed(A: Matrix) -> Matrix:
    """A^T, formed: XLA has no fast product of a batch by the transpose of a matrix."""
    return _kept(jnp.swapaxes(_kept(A), 0, 1))


_kept = jax.lax.optimization_barrier


def diagonal(A: Matrix) -> Matrix:
    """The diagonal as a vector."""
    return A.reshape(-1, *A.shape[2:])[:: len(A) + 1]


def cholesky(S: Matrix) -> Matrix:
    """The lower L with L L^T = S; NaN where S is not positive definite."""
    S = _last(jnp.swapaxes(S, 0, 1))
    return _first(jax.lax.linalg.cholesky(S, symmetrize_input=False))


def solve_lower(L: Matrix, B: Matrix, *, transposed: bool = False) -> Matrix:
    """L^-1 B, or L^-T B."""
    solution = jax.lax.linalg.triangular_solve(
        _last(L), _last(B), left_side=True, lower=True, transpose_a=transposed
    )
    return _first(solution)


def _last(A: Matrix) -> Matrix:
    """Move the matrices to the last two axes."""
    return jnp.moveaxis(A, (0, 1), (-2, -1))


def _first(A: Matrix) -> Matrix:
    return jnp.moveaxis(A, (-2, -1), (0, 1))
