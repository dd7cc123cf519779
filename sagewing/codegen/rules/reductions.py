"""What JAX's reductions along axes are in the graph."""

from functools import reduce
from typing import Any

import numpy as np

from sagewing.codegen.arrays import LOOP_LENGTH, Value, as_known, as_nodes, view_of
from sagewing.codegen.elementwise import elementwise
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.simplify import apply
from sagewing.codegen.trace import rule, unsupported

# The nodes of reductions of arrays
REDUCED = {"add": "sum", "max": "largest", "min": "smallest"}
# The operation on two numbers, and the result for no numbers
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
    rows = as_nodes(graph, value).transpose(*rest, *axes).reshape(int(np.prod(shape)), -1)
    out = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        out[i] = _of_array(graph, op, row)
        if out[i] is None:
            first = row[0] if len(row) else graph.constant(_of_none(start, dtype))
            out[i] = reduce(lambda a, b: apply(graph, op, a, b), row[1:], first)
    return [as_known(graph, out.reshape(shape))]


def _of_array(graph: Graph, op: str, row: Value) -> Node | None:
    """The reduction of a long C array as one node; None if there is none."""
    if not graph.reduces or len(row) < LOOP_LENGTH or op not in REDUCED or row[0].kind != "real":
        return None
    view = view_of(graph, row)
    if view is None or view.strides != (1,) or view.node.op == "table":
        return None
    return graph.vector(REDUCED[op], [view.node], (view.offset, len(row)))


def _of_none(start: Any, dtype: Any) -> Any:
    """The result for no numbers, in the type of the operand."""
    if np.isinf(start) and dtype.kind == "i":
        return dtype.type(np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max)
    return dtype.type(start)


@rule("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    ops = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
    op, axis = ops[equation.primitive.name], equation.params["axis"]
    value = np.moveaxis(as_nodes(graph, operands[0]), axis, 0)
    value = value[::-1] if equation.params["reverse"] else value
    rows = [value[0, ...]]
    for i in range(1, len(value)):
        rows.append(as_nodes(graph, elementwise(graph, op, rows[-1], value[i, ...])))
    out = np.stack(rows[::-1] if equation.params["reverse"] else rows)
    return [as_known(graph, np.moveaxis(out, 0, axis))]


@rule("argmax", "argmin")
def _place_of_extreme(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """The index of the first largest or smallest entry; NaN counts as both."""
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
