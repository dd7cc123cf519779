"""The linear algebra of small matrices, batch in the last axis.

The few products that a Kalman filter needs. A product is an explicit sum over the inner index,
which XLA compiles to one loop over the batch; a reduction over a leading axis, or LAPACK called
per record, is several times slower. Derivatives are written by hand, because the automatic ones
scatter, pad and reduce instead of multiplying.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters import routines
from sagewing.filters.guards import prevent_fusion
from sagewing.filters.sizes import written_out
from sagewing.shapes import InnovationCov, Measurements

Matrix = Float[Array, "..."]


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
    if not written_out(inner, batched=A.ndim > 2):
        return routines.product(A, B)
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
    if not written_out(len(A), batched=A.ndim > 2):
        return routines.diagonal(A)
    return jnp.stack([A[i, i] for i in range(A.shape[0])])


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
    if not written_out(len(S), batched=S.ndim > 2):
        return routines.cholesky(S)
    columns: list[Matrix] = []
    for j in range(len(S)):
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
    if not written_out(len(S), batched=S.ndim > 2):
        return _semidefinite_in_a_loop(S, smallest)
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


def _semidefinite_in_a_loop(S: Matrix, smallest: Matrix) -> Matrix:
    """The same, in a program whose length does not depend on the size."""
    rows = jnp.arange(len(S)).reshape(-1, *(1,) * (S.ndim - 2))

    def with_column(L: Matrix, j: jax.Array) -> tuple[Matrix, None]:
        below = S[:, j] - matvec(L, L[j])
        regular = below[j] > smallest[j]
        root = jnp.sqrt(jnp.where(regular, below[j], smallest[j]))
        rest = below * jnp.where(regular, 1.0 / root, 0.0)
        column = jnp.where(rows > j, rest, jnp.where(rows == j, root, 0.0))
        return L.at[:, j].set(column), None

    return jax.lax.scan(with_column, jnp.zeros_like(S), jnp.arange(len(S)))[0]


def inverse_lower(L: Matrix) -> Matrix:
    """L^-1 of a lower triangular L, by forward substitution."""
    if not written_out(len(L), batched=L.ndim > 2):
        return routines.inverse_lower(L)
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
    if written_out(len(P), batched=P.ndim > 2):
        FPF = matmul(F_m, transpose(FP))  # F's zeros on the left: no row of C for them
    else:
        FPF = matmul(FP, transpose(F_m))
    propagated = symmetric(FPF)
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


def lower_triangle(A: Matrix) -> Matrix:
    """The lower triangle, with the diagonal."""
    keep = jnp.tril(jnp.ones(A.shape[:2], A.dtype))
    return A * keep.reshape(keep.shape + (1,) * (A.ndim - 2))


@jax.custom_vjp
def whiten(L: InnovationCov, nu: Measurements) -> Measurements:
    """L^-1 nu, by forward substitution."""
    if not written_out(len(L), batched=L.ndim > 2):
        return routines.solve_lower(L, nu[:, None])[:, 0]
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
    return lower_triangle(-nu_bar[:, None] * white[None]), nu_bar


whiten.defvjp(_whiten_forward, _whiten_backward)
