"""Arrays of numbers while a program is traced: known ones, or one node for each entry."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sagewing.codegen.graph import Graph, Node, in_array
from sagewing.codegen.indices import side_by_side
from sagewing.codegen.operations import OPERATIONS, TYPES

# An array of numbers that are known, or an object array of nodes.
Value = np.ndarray

# From this length on a loop over an array beats one statement for each entry.
LOOP_LENGTH = 8
# What a loop may do to each entry; the rest gives flags. It may choose by one flag for all entries.
LOOP_OPERATIONS = {
    name
    for name, operation in OPERATIONS.items()
    if operation.kind == "real" and name not in ("to_real", "rem")
} | {"add", "sub", "mul", "neg", "max", "min", "select"}


class View(NamedTuple):
    """Entries of a vector from `offset` on, so far apart along each axis; one number if None."""

    node: Node
    offset: int | None
    strides: tuple[int, ...] = ()


def is_known(value: Value) -> bool:
    """Whether all entries are constants."""
    return value.dtype != object


def nodes(graph: Graph, value: Value) -> Value:
    """The same array with a node for each entry."""
    if not is_known(value):
        return value
    out = np.empty(value.shape, object)
    for place, number in zip(np.ndindex(value.shape), value.ravel(), strict=True):
        out[place] = graph.constant(number)
    return out


def settle(graph: Graph, value: Value) -> Value:
    """A known array where all entries have turned out to be constants."""
    flat = value.ravel()
    if is_known(value) or flat.size == 0 or any(node.op != "const" for node in flat):
        return value
    if graph.exact and graph.no_change in flat:  # known arrays cannot tell zeros apart
        return value
    dtype = {"real": graph.dtype, **TYPES}[flat[0].kind]
    return np.array([node.attr for node in flat], dtype).reshape(value.shape)


def view_of(graph: Graph, value: Value) -> View | None:
    """The vector whose entries these are, if there is one."""
    if is_known(value):
        if np.all(value == value.flat[0]):
            return View(graph.constant(value.flat[0]), None)
        if value.dtype.kind != "f":
            return None
        table = graph.vector("table", (), ((value.size,), value.tobytes()))
        return View(table, 0, side_by_side(value.shape))
    first = value.flat[0]
    if all(node is first for node in value.flat):
        return View(first, None)
    if not in_array(first):
        return None
    strides = []
    for axis, size in enumerate(value.shape):
        next_to_first = tuple(int(a == axis and size > 1) for a in range(value.ndim))
        node = value[next_to_first]
        strides.append(node.attr - first.attr if in_array(node) else 0)
    for place, node in np.ndenumerate(value):
        at = first.attr + sum(i * stride for i, stride in zip(place, strides, strict=True))
        if node.op != "elem" or node.args != first.args or node.attr != at:
            return None
    return View(first.args[0], first.attr, tuple(strides))


def packed(graph: Graph, flat: Value) -> View:
    """A vector of these entries, a new one if need be."""
    view = view_of(graph, flat)
    if view is not None and view.strides == (1,):
        return view
    return View(graph.vector("pack", tuple(nodes(graph, flat)), flat.size), 0, (1,))


def elements(graph: Graph, vector: Node, size: int) -> Value:
    """The entries of a vector."""
    out = np.empty(size, object)
    for i in range(size):
        out[i] = graph.element(vector, i)
    return out


def elementwise(graph: Graph, op: str, *operands: Value) -> Value:
    """An operation on each entry; as loops where the operands are long vectors themselves."""
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    if 0 in shape:
        return np.zeros(shape, graph.dtype)
    full = [np.broadcast_to(v, shape) for v in operands]
    made = looped(graph, op, full)
    if made is None:
        made = _entries(graph, op, full)
    return settle(graph, made)


def looped(graph: Graph, op: str, operands: list[Value]) -> Value | None:
    """The operation as a loop over all entries, or as one over each long row or column.

    Rows that cannot be loops are computed entry by entry; None where nothing is long enough.
    """
    shape, size = operands[0].shape, operands[0].size
    if op not in LOOP_OPERATIONS or size < LOOP_LENGTH:
        return None
    if not graph.rows:
        made = _loop(graph, op, [v.ravel() for v in operands], gathers=False)
        return None if made is None else made.reshape(shape)
    length = shape[-1]
    if len(shape) == 2 and 1 < length < LOOP_LENGTH <= shape[0]:
        made = looped(graph, op, [v.T for v in operands])
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
    columns = [nodes(graph, v).ravel() for v in operands]
    for i, args in enumerate(zip(*columns, strict=True)):
        out[i] = graph.apply(op, *args)
    return out.reshape(operands[0].shape)


def _loop(graph: Graph, op: str, operands: list[Value], gathers: bool = True) -> Value | None:
    """A loop, if an operand is a vector already or, if it `gathers`, most of its entries are."""
    if all(is_known(value) for value in operands):
        return None
    firsts = [nodes(graph, value.reshape(-1)[:1])[0] for value in operands]
    made = graph.apply(op, *firsts)
    if made.op == "const" or made in firsts:  # such as a product with zero: entry by entry
        return None
    zeros = [is_known(value) and not np.all(value) for value in operands]
    if op == "mul" and any(zeros) and not graph.exact:  # a model's own zeros are computed
        return None
    views = _views(graph, op, operands, gathers)
    if views is None:
        return None
    shape, size = operands[0].shape, operands[0].size
    flat = side_by_side(shape)
    # One loop is enough where all lies side by side; but a loop over rows is best part of another
    keeps_rows = any(view.node.op == "map" and view.node.attr[1] == shape for view in views)
    if not keeps_rows and all(view.offset is None or view.strides == flat for view in views):
        shape = (size,)
        views = [view if view.offset is None else view._replace(strides=(1,)) for view in views]
    places = tuple((view.offset, view.strides) for view in views)
    vector = graph.vector("map", [view.node for view in views], (op, shape, places))
    return elements(graph, vector, size).reshape(operands[0].shape)


def _views(graph: Graph, op: str, operands: list[Value], gathers: bool) -> list[View] | None:
    """The operands of a loop; those that are not yet vectors become some, if one is already."""
    views = [view_of(graph, value) for value in operands]
    there = [
        gathers and _mostly_in_arrays(value)
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
            view = packed(graph, value)  # side by side, which is faster to read
        found.append(view)
    return found


def _joined(graph: Graph, value: Value) -> View | None:
    """Numbers put side by side, those that are the same in all rows once."""
    if is_known(value) or any(node.op == "const" or node.kind != "real" for node in value.flat):
        return None
    if value.ndim == 2 and np.all(value == value[:1]):
        return packed(graph, value[0])._replace(strides=(0, 1))
    if value.ndim == 2 and np.all(value == value[:, :1]):
        return packed(graph, value[:, 0])._replace(strides=(1, 0))
    return packed(graph, value.ravel())._replace(strides=side_by_side(value.shape))


def _mostly_in_arrays(value: Value) -> bool:
    """Whether most entries lie in vectors already, if not side by side."""
    return not is_known(value) and 2 * sum(map(in_array, value.flat)) > value.size


def gathered(graph: Graph, value: Value) -> Value:
    """The same numbers in one vector, where most of them lie in several already."""
    flat = value.ravel()
    long = graph.rows and max(value.shape, default=0) >= LOOP_LENGTH
    if not long or not _mostly_in_arrays(flat):
        return value
    if view_of(graph, value) is not None or any(node.kind != "real" for node in flat):
        return value
    return elements(graph, packed(graph, flat).node, flat.size).reshape(value.shape)


def product(graph: Graph, A: Value, x: Value) -> Value:
    """A x for a matrix of constants: a loop over a table."""
    view = packed(graph, x)
    table = graph.vector("table", (), (A.shape, np.ascontiguousarray(A).tobytes()))
    vector = graph.vector("matvec", (table, view.node), (A.shape[0], view.offset))
    return elements(graph, vector, A.shape[0])


def known(value: Any, dtype: Any) -> Value:
    """A constant of the program, in the type that JAX gives it."""
    return np.asarray(value).astype(dtype)
