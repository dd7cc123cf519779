"""What JAX's elementwise primitives, reductions and products are in the graph."""

from functools import reduce
from typing import Any

import numpy as np

from sagewing.deploy.graph import Graph, Node
from sagewing.deploy.operations import LIBM
from sagewing.deploy.trace import rule, unsupported
from sagewing.deploy.values import Value, elementwise, is_known, nodes, product, settle

# A matrix of constants with at least so many entries becomes a table and a loop.
TABLE_SIZE = 96
SAME = {
    name: name
    for name in (
        *(set(LIBM) - {"floor", "ceil", "erf"}),
        *("floor", "ceil", "erf", "abs", "logistic", "sign", "atan2", "pow"),
        *("add", "sub", "neg", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"),
        "is_finite",
    )
} | {"add_any": "add"}


@rule(*SAME)
def _elementwise(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [elementwise(graph, SAME[equation.primitive.name], *operands)]


@rule("and", "or", "not", "xor")
def _logic(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    if any(atom.aval.dtype != np.bool_ for atom in equation.invars):
        raise unsupported(equation, "is known for flags only, not for the bits of integers")
    name = equation.primitive.name
    return [elementwise(graph, "ne" if name == "xor" else name, *operands)]


# The names for real numbers and for integers.
DIVISIONS = {"div": ("div", "quotient"), "rem": ("rem", "remainder")}


@rule(*DIVISIONS)
def _divided(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    integer = equation.invars[0].aval.dtype.kind != "f"
    return [elementwise(graph, DIVISIONS[equation.primitive.name][integer], *operands)]


@rule("lt_to", "le_to")
def _in_total_order(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """What is not a number comes last."""
    a, b = operands
    here = elementwise(graph, equation.primitive.name.removesuffix("_to"), a, b)
    last = elementwise(graph, "ne", b, b)
    if equation.primitive.name == "lt_to":
        last = elementwise(graph, "and", last, elementwise(graph, "eq", a, a))
    return [elementwise(graph, "or", here, last)]


@rule("argmax", "argmin")
def _place_of_extreme(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """The first place of the largest or smallest entry; one that is not a number is both."""
    better = "gt" if equation.primitive.name == "argmax" else "lt"
    value = np.moveaxis(operands[0], equation.params["axes"][0], 0)
    best, place = value[0, ...], np.zeros(value.shape[1:], np.int32)
    for i in range(1, len(value)):
        entry = value[i, ...]
        wins = elementwise(graph, better, entry, best)
        wins = elementwise(graph, "or", wins, elementwise(graph, "ne", entry, entry))
        wins = elementwise(graph, "and", wins, elementwise(graph, "eq", best, best))
        best = elementwise(graph, "select", wins, entry, best)
        place = elementwise(graph, "select", wins, np.array(i, np.int32), place)
    return [place]


@rule("round")
def _round(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    to_even = int(equation.params["rounding_method"]) == 1
    return [elementwise(graph, "round" if to_even else "round_away", *operands)]


@rule("square")
def _square(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [elementwise(graph, "mul", operands[0], operands[0])]


@rule("integer_pow")
def _integer_pow(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    exponent = equation.params["y"]
    base, power = operands[0], np.ones((), graph.dtype)
    rest = abs(exponent)
    while rest:
        if rest & 1:
            power = elementwise(graph, "mul", power, base)
        rest >>= 1
        if rest:
            base = elementwise(graph, "mul", base, base)
    one = np.ones((), graph.dtype)
    power = np.broadcast_to(power, operands[0].shape)
    return [elementwise(graph, "div", one, power) if exponent < 0 else power]


@rule("rsqrt")
def _rsqrt(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    root = elementwise(graph, "sqrt", operands[0])
    return [elementwise(graph, "div", np.ones((), graph.dtype), root)]


@rule("clamp")
def _clamp(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    low, value, high = operands
    return [elementwise(graph, "min", elementwise(graph, "max", value, low), high)]


@rule("select_n")
def _select_n(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    which, *cases = operands
    if equation.invars[0].aval.dtype == np.bool_:
        return [elementwise(graph, "select", which, cases[1], cases[0])]
    chosen = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        here = elementwise(graph, "eq", which, np.array(i, np.int32))
        chosen = elementwise(graph, "select", here, cases[i], chosen)
    return [chosen]


@rule("convert_element_type")
def _convert(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    value, dtype = operands[0], np.dtype(equation.params["new_dtype"])
    given = equation.invars[0].aval.dtype
    if dtype == np.bool_:
        if given == np.bool_:
            return [value]
        return [elementwise(graph, "ne", value, np.zeros((), value_dtype(graph, given)))]
    if dtype.kind == "f":
        if is_known(value):
            return [value.astype(graph.dtype)]
        return [elementwise(graph, "to_real", value)]
    if dtype.kind not in "iu":
        raise unsupported(equation, f"makes numbers of type {dtype}, which C has no use for here")
    return [elementwise(graph, "to_int", value)]


def value_dtype(graph: Graph, dtype: Any) -> Any:
    """The type in which constants of a program's type are kept."""
    return graph.dtype if np.dtype(dtype).kind == "f" else np.int32


@rule("copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision")
def _same(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return list(operands)


REDUCTIONS = {
    "reduce_sum": ("add", 0.0),
    "reduce_prod": ("mul", 1.0),
    "reduce_max": ("max", -np.inf),
    "reduce_min": ("min", np.inf),
    "reduce_and": ("and", True),
    "reduce_or": ("or", False),
}


@rule(*REDUCTIONS)
def _reduce(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    op, start = REDUCTIONS[equation.primitive.name]
    value, axes = operands[0], equation.params["axes"]
    rest = [a for a in range(value.ndim) if a not in axes]
    shape = [value.shape[a] for a in rest]
    rows = nodes(graph, value).transpose(*rest, *axes).reshape(int(np.prod(shape)), -1)
    out = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        out[i] = reduce(lambda a, b: graph.apply(op, a, b), row, _start(graph, op, start, row))
    return [settle(graph, out.reshape(shape))]


def _start(graph: Graph, op: str, start: Any, row: Value) -> Node:
    if len(row) and op in ("max", "min"):
        return row[0]
    integer = len(row) and row[0].kind == "int"
    return graph.constant(int(start) if integer else start)


@rule("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    ops = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
    op, axis = ops[equation.primitive.name], equation.params["axis"]
    value = np.moveaxis(nodes(graph, operands[0]), axis, 0)
    value = value[::-1] if equation.params["reverse"] else value
    rows = [value[0, ...]]
    for i in range(1, len(value)):
        rows.append(nodes(graph, elementwise(graph, op, rows[-1], value[i, ...])))
    out = np.stack(rows[::-1] if equation.params["reverse"] else rows)
    return [settle(graph, np.moveaxis(out, 0, axis))]


@rule("dot_general")
def _dot_general(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Sums of products, [batch, m, k] x [batch, k, n]; or a loop over a table of constants."""
    (inner_a, inner_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    A, B = operands
    if is_known(A) and is_known(B) and not batch_a:
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
    for i in range(n_batch):
        out[i] = _matmul(graph, A[i], B[i])
    return [settle(graph, out.reshape(shape))]


def _matmul(graph: Graph, A: Value, B: Value) -> Value:
    if _is_table(A):
        return np.stack([product(graph, A, column) for column in B.T], axis=1)
    if _is_table(B):
        return np.stack([product(graph, B.T, row) for row in A])
    A, B = nodes(graph, A), nodes(graph, B)
    out = np.empty((A.shape[0], B.shape[1]), object)
    for i, k in np.ndindex(out.shape):
        total = graph.constant(0.0)
        for a, b in zip(A[i], B[:, k], strict=True):
            total = graph.apply("add", total, graph.apply("mul", a, b))
        out[i, k] = total
    return out


def _is_table(A: Value) -> bool:
    many = is_known(A) and A.dtype.kind == "f" and A.size >= TABLE_SIZE
    return many and bool(np.count_nonzero(A) > 0.5 * A.size)


@rule("cholesky")
def _cholesky(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """The lower factor, of one matrix."""
    S = nodes(graph, operands[0])
    if S.ndim != 2:
        raise unsupported(equation, "is known for one matrix only")
    L = nodes(graph, np.zeros(S.shape, graph.dtype))
    for i, j in zip(*np.tril_indices(len(S)), strict=True):
        rest = S[i, j]
        for k in range(j):
            rest = graph.apply("sub", rest, graph.apply("mul", L[i, k], L[j, k]))
        L[i, j] = graph.apply("sqrt", rest) if i == j else graph.apply("div", rest, L[j, j])
    return [L]
