"""What JAX's matrix products and its Cholesky factorisation are in the graph."""

from functools import reduce
from typing import Any

import numpy as np

from sagewing.codegen.arrays import (
    Value,
    as_known,
    as_nodes,
    is_known,
    matrix_product,
    shared_matrix,
    shared_product,
)
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.signs import is_finite
from sagewing.codegen.simplify import apply
from sagewing.codegen.trace import rule, unsupported

# A matrix of constants with at least so many entries becomes a table and a loop.
TABLE_SIZE = 96


@rule("dot_general")
def _dot_general(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Sums of products, [batch, m, k] x [batch, k, n]; a large constant matrix becomes a table."""
    (inner_a, inner_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    A, B = operands
    if is_known(A) and is_known(B) and not batch_a:
        with np.errstate(all="ignore"):
            return [np.tensordot(A, B, (inner_a, inner_b)).astype(A.dtype)]
    outer_a = [a for a in range(A.ndim) if a not in (*inner_a, *batch_a)]
    outer_b = [b for b in range(B.ndim) if b not in (*inner_b, *batch_b)]
    k = int(np.prod([A.shape[a] for a in inner_a]))
    batch = [A.shape[a] for a in batch_a]
    n_batch = int(np.prod(batch))
    shape = [*batch, *(A.shape[a] for a in outer_a), *(B.shape[b] for b in outer_b)]
    A = A.transpose(*batch_a, *outer_a, *inner_a).reshape(n_batch, -1, k)
    B = B.transpose(*batch_b, *inner_b, *outer_b).reshape(n_batch, k, -1)
    out = np.empty((n_batch, A.shape[1], B.shape[2]), object)
    none = graph.constant(equation.outvars[0].aval.dtype.type(0))
    for i in range(n_batch):
        out[i] = _matmul(graph, A[i], B[i], none)
    return [as_known(graph, out.reshape(shape))]


def _matmul(graph: Graph, A: Value, B: Value, none: Node) -> Value:
    weights = shared_matrix(graph, A)
    if weights is not None:
        return np.stack([shared_product(graph, weights, A.shape, b) for b in B.T], axis=1)
    weights = shared_matrix(graph, B.T)
    if weights is not None:
        return np.stack([shared_product(graph, weights, B.T.shape, a) for a in A])
    if _is_table(A, B):
        return np.stack([matrix_product(graph, A, column) for column in B.T], axis=1)
    if _is_table(B, A):
        return np.stack([matrix_product(graph, B.T, row) for row in A])
    A, B = as_nodes(graph, A), as_nodes(graph, B)
    out = np.empty((A.shape[0], B.shape[1]), object)
    for i, k in np.ndindex(out.shape):
        total = None
        for a, b in zip(A[i], B[:, k], strict=True):
            term = _term(graph, a, b)
            if term is not None:
                total = term if total is None else apply(graph, "add", total, term)
        out[i, k] = none if total is None else total
    return out


def _term(graph: Graph, a: Node, b: Node) -> Node | None:
    """A product in a sum; None if it is 0 times a finite number, which adds nothing."""
    finite = [other for one, other in ((a, b), (b, a)) if one.op == "const" and one.attr == 0]
    directions = graph.zero_derivative in (a, b)
    if graph.in_model and not directions and any(is_finite(other) for other in finite):
        return None
    return apply(graph, "mul", a, b)


def _is_table(A: Value, other: Value) -> bool:
    if not is_known(other) and all(node.op == "const" for node in other.flat):
        return False
    many = is_known(A) and A.dtype.kind == "f" and A.size >= TABLE_SIZE
    return many and bool(np.count_nonzero(A) > 0.5 * A.size)


@rule("cholesky")
def _cholesky(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """The lower Cholesky factor of one matrix."""
    S = as_nodes(graph, operands[0])
    if S.ndim != 2:
        raise unsupported(equation, "is known for one matrix only")
    L = as_nodes(graph, np.zeros(S.shape, graph.dtype))
    for i, j in zip(*np.tril_indices(len(S)), strict=True):
        rest = S[i, j]
        for k in range(j):
            rest = apply(graph, "sub", rest, apply(graph, "mul", L[i, k], L[j, k]))
        L[i, j] = apply(graph, "sqrt", rest) if i == j else apply(graph, "div", rest, L[j, j])
    return [_all_or_nan(graph, L) if graph.in_model else L]


def _all_or_nan(graph: Graph, L: Value) -> Value:
    """The factor of a matrix that is not positive definite is NaN everywhere."""
    zero, nan = graph.constant(graph.dtype.type(0)), graph.constant(graph.dtype.type(np.nan))
    positive = [apply(graph, "gt", d, zero) for d in np.diagonal(L)]
    well = reduce(lambda a, b: apply(graph, "and", a, b), positive)
    out = L.copy()
    for place in zip(*np.tril_indices(len(L)), strict=True):
        out[place] = apply(graph, "select", well, L[place], nan)
    return out
