"""Operations on arrays entry by entry, as loops where arrays are long."""

from collections.abc import Sequence

import numpy as np

from sagewing.codegen.arrays import (
    LOOP_LENGTH,
    Value,
    View,
    as_known,
    as_nodes,
    entries,
    is_known,
    mostly_in_arrays,
    packed,
    view_of,
)
from sagewing.codegen.graph import Graph
from sagewing.codegen.indices import row_major_strides
from sagewing.codegen.operations import OPERATIONS
from sagewing.codegen.simplify import apply

# Operations of loops, all with real results. A loop may choose by one flag for all entries.
LOOP_OPERATIONS = {
    name
    for name, operation in OPERATIONS.items()
    if operation.kind == "real" and name not in ("to_real", "rem")
} | {"add", "sub", "mul", "neg", "max", "min", "select"}


def elementwise(graph: Graph, op: str, *operands: Value) -> Value:
    """An operation on each entry: in loops where an operand is a long vector."""
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    if 0 in shape:
        return np.zeros(shape, graph.dtype)
    full = [np.broadcast_to(v, shape) for v in operands]
    made = as_loops(graph, op, full)
    if made is None:
        made = _entries(graph, op, full)
    return as_known(graph, made)


def as_loops(graph: Graph, op: str, operands: list[Value]) -> Value | None:
    """The operation as a loop over all entries, or as a loop over each long row or column.

    Rows that cannot be loops are computed entry by entry. None if no row or column is long enough.
    """
    shape, size = operands[0].shape, operands[0].size
    if op not in LOOP_OPERATIONS or size < LOOP_LENGTH:
        return None
    if not graph.row_loops:
        made = _loop(graph, op, [v.ravel() for v in operands], gathers=False)
        return None if made is None else made.reshape(shape)
    length = shape[-1]
    if len(shape) == 2 and 1 < length < LOOP_LENGTH <= shape[0]:
        made = as_loops(graph, op, [v.T for v in operands])
        return None if made is None else made.T
    of_rows = LOOP_LENGTH <= length < size
    whole = (-1, length) if of_rows else (-1,)
    gathers = max(shape) >= LOOP_LENGTH
    made = _loop(graph, op, [v.reshape(whole) for v in operands], gathers)
    if made is not None or not of_rows:
        return None if made is None else made.reshape(shape)
    rows = []
    for row in zip(*(v.reshape(whole) for v in operands), strict=True):
        made = _loop(graph, op, list(row))
        rows.append(_entries(graph, op, row) if made is None else made)
    return np.stack(rows).reshape(shape)


def _entries(graph: Graph, op: str, operands: Sequence[Value]) -> Value:
    """The operation entry by entry."""
    out = np.empty(operands[0].size, object)
    columns = [as_nodes(graph, v).ravel() for v in operands]
    for i, args in enumerate(zip(*columns, strict=True)):
        out[i] = apply(graph, op, *args)
    return out.reshape(operands[0].shape)


def _loop(graph: Graph, op: str, operands: list[Value], gathers: bool = True) -> Value | None:
    """A loop if an operand is a vector or, with `gathers`, most of an operand's entries are."""
    if all(is_known(value) for value in operands):
        return None
    firsts = [as_nodes(graph, value.reshape(-1)[:1])[0] for value in operands]
    made = apply(graph, op, *firsts)
    if made.op == "const" or made in firsts:  # such as a product with zero
        return None
    zeros = [is_known(value) and not np.all(value) for value in operands]
    if op == "mul" and any(zeros) and not graph.in_model:  # these products are left out
        return None
    views = _views(graph, op, operands, gathers)
    if views is None:
        return None
    shape, size = operands[0].shape, operands[0].size
    flat = row_major_strides(shape)
    # One loop is enough where all operands are contiguous, unless it can become part of a loop over
    # rows
    keeps_rows = any(view.node.op == "map" and view.node.attr[1] == shape for view in views)
    if not keeps_rows and all(view.offset is None or view.strides == flat for view in views):
        shape = (size,)
        views = [view if view.offset is None else view._replace(strides=(1,)) for view in views]
    places = tuple((view.offset, view.strides) for view in views)
    vector = graph.vector("map", [view.node for view in views], (op, shape, places))
    return entries(graph, vector, size).reshape(operands[0].shape)


def _views(graph: Graph, op: str, operands: list[Value], gathers: bool) -> list[View] | None:
    """The operands of a loop as vectors; None if no operand is one, or one cannot become one."""
    views = [view_of(graph, value) for value in operands]
    there = [
        gathers and mostly_in_arrays(value)
        if view is None
        else view.offset is not None and view.node.op != "table"
        for view, value in zip(views, operands, strict=True)
    ]
    if not any(there):
        return None
    found = []
    for i, (view, value) in enumerate(zip(views, operands, strict=True)):
        if op == "select" and i == 0:
            if view is None or view.offset is not None or view.node.kind != "bool":
                return None
            found.append(view)
            continue
        if view is None and (value.ndim == 1 or there[i]):
            view = _joined(graph, value)
        if view is None or view.node.kind != "real":
            return None
        if value.ndim == 1 and view.offset is not None:
            view = packed(graph, value)  # contiguous, which is faster to read
        found.append(view)
    return found


def _joined(graph: Graph, value: Value) -> View | None:
    """Numbers put side by side; what is equal in all rows, or in all columns, once."""
    if is_known(value) or any(node.op == "const" or node.kind != "real" for node in value.flat):
        return None
    if value.ndim == 2 and np.all(value == value[:1]):
        return packed(graph, value[0])._replace(strides=(0, 1))
    if value.ndim == 2 and np.all(value == value[:, :1]):
        return packed(graph, value[:, 0])._replace(strides=(1, 0))
    return packed(graph, value.ravel())._replace(strides=row_major_strides(value.shape))
