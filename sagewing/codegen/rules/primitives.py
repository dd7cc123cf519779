"""What JAX's elementwise primitives, reductions and products are in the graph."""

from functools import reduce
from typing import Any

import numpy as np

from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.operations import LIBM
from sagewing.codegen.signs import is_finite
from sagewing.codegen.trace import rule, unsupported
from sagewing.codegen.values import Value, elementwise, is_known, nodes, product, settle

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
    if equation.primitive.name == "pow" and equation.outvars[0].aval.dtype.kind != "f":
        raise unsupported(equation, "is known for real numbers only")
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
    """What is not a number comes last. JAX compares so where it looks for a place, without -0."""
    if not graph.places:
        raise unsupported(equation, "is known in searchsorted only")
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
    number = np.dtype(equation.params["index_dtype"]).type
    best, place = value[0, ...], np.zeros(value.shape[1:], number)
    for i in range(1, len(value)):
        entry = value[i, ...]
        wins = elementwise(graph, better, entry, best)
        wins = elementwise(graph, "or", wins, elementwise(graph, "ne", entry, entry))
        wins = elementwise(graph, "and", wins, elementwise(graph, "eq", best, best))
        best = elementwise(graph, "select", wins, entry, best)
        place = elementwise(graph, "select", wins, np.array(i, number), place)
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
    one = np.ones((), equation.outvars[0].aval.dtype)
    base, power = operands[0], one
    rest = abs(exponent)
    while rest:
        if rest & 1:
            power = elementwise(graph, "mul", power, base)
        rest >>= 1
        if rest:
            base = elementwise(graph, "mul", base, base)
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
        return [elementwise(graph, "ne", value, np.zeros((), given))]
    if dtype.kind == "f":
        if is_known(value):
            return [value.astype(graph.dtype)]
        return [elementwise(graph, "to_real", value)]
    return [elementwise(graph, "to_long" if dtype == np.int64 else "to_int", value)]


@rule("copy", "copy_p", "stop_gradient", "optimization_barrier")
def _same(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return list(operands)


@rule("reduce_precision")
def _reduce_precision(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """To no fewer bits than the numbers have."""
    given, own = equation.params, np.finfo(graph.dtype)
    if given["exponent_bits"] < own.nexp or given["mantissa_bits"] < own.nmant:
        raise unsupported(equation, f"rounds to fewer bits than {graph.dtype} has")
    return list(operands)


# What makes one number of two, and what is there where there are none
REDUCTIONS = {
    "reduce_sum": ("add", 0),
    "reduce_prod": ("mul", 1),
    "reduce_max": ("max", -np.inf),
    "reduce_min": ("min", np.inf),
    "reduce_and": ("and", True),
    "reduce_or": ("or", False),
}


@rule(*REDUCTIONS)
def _reduce(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    op, start = REDUCTIONS[equation.primitive.name]
    dtype = equation.invars[0].aval.dtype
    if op in ("and", "or") and dtype != np.bool_:
        raise unsupported(equation, "is known for flags only, not for the bits of integers")
    value, axes = operands[0], equation.params["axes"]
    rest = [a for a in range(value.ndim) if a not in axes]
    shape = [value.shape[a] for a in rest]
    rows = nodes(graph, value).transpose(*rest, *axes).reshape(int(np.prod(shape)), -1)
    out = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        first = row[0] if len(row) else graph.constant(_of_none(start, dtype))
        out[i] = reduce(lambda a, b: graph.apply(op, a, b), row[1:], first)
    return [settle(graph, out.reshape(shape))]


def _of_none(start: Any, dtype: Any) -> Any:
    """The result of a reduction over no numbers."""
    if np.isinf(start) and dtype.kind == "i":
        return dtype.type(np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max)
    return dtype.type(start)


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
    return [settle(graph, out.reshape(shape))]


def _matmul(graph: Graph, A: Value, B: Value, none: Node) -> Value:
    if _is_table(A, B):
        return np.stack([product(graph, A, column) for column in B.T], axis=1)
    if _is_table(B, A):
        return np.stack([product(graph, B.T, row) for row in A])
    A, B = nodes(graph, A), nodes(graph, B)
    out = np.empty((A.shape[0], B.shape[1]), object)
    for i, k in np.ndindex(out.shape):
        total = None
        for a, b in zip(A[i], B[:, k], strict=True):
            term = _term(graph, a, b)
            if term is not None:
                total = term if total is None else graph.apply("add", total, term)
        out[i, k] = none if total is None else total
    return out


def _term(graph: Graph, a: Node, b: Node) -> Node | None:
    """A product in a sum, to which 0 times what is finite adds nothing."""
    finite = [other for one, other in ((a, b), (b, a)) if one.op == "const" and one.attr == 0]
    directions = graph.no_change in (a, b)
    if graph.exact and not directions and any(is_finite(other) for other in finite):
        return None
    return graph.apply("mul", a, b)


def _is_table(A: Value, other: Value) -> bool:
    if not is_known(other) and all(node.op == "const" for node in other.flat):
        return False
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
    return [_all_or_nan(graph, L) if graph.exact else L]


def _all_or_nan(graph: Graph, L: Value) -> Value:
    """The factor of a matrix that is not positive definite is NaN everywhere."""
    zero, nan = graph.constant(graph.dtype.type(0)), graph.constant(graph.dtype.type(np.nan))
    positive = [graph.apply("gt", d, zero) for d in np.diagonal(L)]
    well = reduce(lambda a, b: graph.apply("and", a, b), positive)
    out = L.copy()
    for place in zip(*np.tril_indices(len(L)), strict=True):
        out[place] = graph.apply("select", well, L[place], nan)
    return out
