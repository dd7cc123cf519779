"""Linear algebra by library routines, for matrices that are too large to be written out.

The matrices are the first two axes, as everywhere. A routine of LAPACK has them in Fortran's order,
where a matrix is its transpose in C's: a transpose next to one costs nothing.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matrix = Float[Array, "..."]

COLUMNS = 16  # of the solution of 60 equations for which OpenBLAS uses one thread


def product(A: Matrix, B: Matrix) -> Matrix:
    """A B.

    XLA would make one operation of a product and a transpose, for which it has no fast code.
    """
    A, B = _kept((A, B))
    return _kept(jnp.einsum("ij...,jk...->ik...", A, B))


_kept = jax.lax.optimization_barrier


def diagonal(A: Matrix) -> Matrix:
    """The diagonal as a vector."""
    return A.reshape(-1, *A.shape[2:])[:: len(A) + 1]


def cholesky(S: Matrix) -> Matrix:
    """The lower L with L L^T = S; NaN where S is not positive definite."""
    S = _last(jnp.swapaxes(S, 0, 1))
    return _first(jax.lax.linalg.cholesky(S, symmetrize_input=False))


def solve_lower(L: Matrix, B: Matrix) -> Matrix:
    """L^-1 B of a lower triangular L."""
    return _first(_solve_lower(_last(L), _last(B)))


def inverse_lower(L: Matrix) -> Matrix:
    """L^-1, so many columns at a time that LAPACK does not wake its own threads for them."""
    n, batch = len(L), L.shape[2:]
    parts = -(-n // COLUMNS)
    width = -(-n // parts)
    unit = jnp.eye(n, parts * width, dtype=L.dtype).reshape(n, parts, width)
    unit = jnp.broadcast_to(jnp.swapaxes(unit, 0, 1), (*batch, parts, n, width))
    L = jnp.broadcast_to(_last(L)[..., None, :, :], (*batch, parts, n, n))
    columns = jnp.swapaxes(_solve_lower(L, unit), -1, -2)
    return _first(jnp.swapaxes(columns.reshape(*batch, parts * width, n)[..., :n, :], -1, -2))


_solve_lower = partial(jax.lax.linalg.triangular_solve, left_side=True, lower=True)


def _last(A: Matrix) -> Matrix:
    """Move the matrices to the last two axes."""
    return jnp.moveaxis(A, (0, 1), (-2, -1))


def _first(A: Matrix) -> Matrix:
    return jnp.moveaxis(A, (-2, -1), (0, 1))
