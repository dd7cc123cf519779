"""Arrays while a program is traced: constants, or one node of the graph for each entry."""

from typing import Any, NamedTuple

import numpy as np

from sagewing.codegen.graph import Graph, Node, in_array
from sagewing.codegen.indices import row_major_strides
from sagewing.codegen.operations import TYPES

# An array of constants, or an object array of nodes.
Value = np.ndarray

# From this length on a loop over an array beats one statement for each entry.
LOOP_LENGTH = 8


class View(NamedTuple):
    """Entries of a vector, from `offset` on with these strides; the same number if that is None."""

    node: Node
    offset: int | None
    strides: tuple[int, ...] = ()


def is_known(value: Value) -> bool:
    """Whether all entries are constants."""
    return value.dtype != object


def as_nodes(graph: Graph, value: Value) -> Value:
    """The same array with a node for each entry."""
    if not is_known(value):
        return value
    out = np.empty(value.shape, object)
    for place, number in zip(np.ndindex(value.shape), value.ravel(), strict=True):
        out[place] = graph.constant(number)
    return out


def as_known(graph: Graph, value: Value) -> Value:
    """The array of constants, where all entries have turned out to be constants."""
    flat = value.ravel()
    if is_known(value) or flat.size == 0 or any(node.op != "const" for node in flat):
        return value
    if (
        graph.in_model and graph.zero_derivative in flat
    ):  # the two kinds of zeros are equal as constants
        return value
    dtype = {"real": graph.dtype, **TYPES}[flat[0].kind]
    return np.array([node.attr for node in flat], dtype).reshape(value.shape)


def view_of(graph: Graph, value: Value) -> View | None:
    """The vector whose entries these are; None if there is none."""
    if is_known(value):
        if np.all(value == value.flat[0]):
            return View(graph.constant(value.flat[0]), None)
        if value.dtype.kind != "f":
            return None
        table = graph.vector("table", (), ((value.size,), value.tobytes()))
        return View(table, 0, row_major_strides(value.shape))
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
    """A vector of these entries, one after the other: a new one if there is none."""
    view = view_of(graph, flat)
    if view is not None and view.strides == (1,):
        return view
    return View(graph.vector("pack", tuple(as_nodes(graph, flat)), flat.size), 0, (1,))


def entries(graph: Graph, vector: Node, size: int) -> Value:
    """The entries of a vector."""
    out = np.empty(size, object)
    for i in range(size):
        out[i] = graph.entry(vector, i)
    return out


def mostly_in_arrays(value: Value) -> bool:
    """Whether more than half of the entries lie in vectors, in any order."""
    return not is_known(value) and 2 * sum(map(in_array, value.flat)) > value.size


def in_one_vector(graph: Graph, value: Value) -> Value:
    """The same numbers in one vector, if most of them lie in several ones."""
    flat = value.ravel()
    long = graph.row_loops and max(value.shape, default=0) >= LOOP_LENGTH
    if not long or not mostly_in_arrays(flat):
        return value
    if view_of(graph, value) is not None or any(node.kind != "real" for node in flat):
        return value
    return entries(graph, packed(graph, flat).node, flat.size).reshape(value.shape)


def matrix_product(graph: Graph, A: Value, x: Value) -> Value:
    """A x for a matrix of constants, which becomes a table."""
    view = packed(graph, x)
    table = graph.vector("table", (), (A.shape, np.ascontiguousarray(A).tobytes()))
    vector = graph.vector("matvec", (table, view.node), (A.shape[0], view.offset))
    return entries(graph, vector, A.shape[0])


def shared_matrix(graph: Graph, A: Value) -> View | None:
    """The argument that this matrix is, if all records share it; None otherwise."""
    if is_known(A) or A.size < LOOP_LENGTH or A.ndim != 2:
        return None
    first = A.flat[0]
    if first.op != "elem" or first.args[0].op != "input" or not first.args[0].attr.shared:
        return None
    return view_of(graph, A)


def shared_product(graph: Graph, weights: View, shape: tuple[int, ...], x: Value) -> Value:
    """A x for a matrix that all records share."""
    view = packed(graph, x)
    attr = (*shape, weights.offset, weights.strides, view.offset)
    return entries(graph, graph.vector("product", (weights.node, view.node), attr), shape[0])


def constants(value: Any, dtype: Any) -> Value:
    """Constants of the program, of the type that JAX gives them."""
    return np.asarray(value).astype(dtype)
