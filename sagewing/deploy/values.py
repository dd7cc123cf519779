"""Arrays of numbers while a program is traced: known ones, or one node for each entry."""

from typing import Any, NamedTuple

import numpy as np

from sagewing.deploy.graph import Graph, Node
from sagewing.deploy.operations import OPERATIONS

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


class Run(NamedTuple):
    """Entries that lie side by side in a vector from `offset` on; one number where that is None."""

    node: Node
    offset: int | None


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
    if flat.size == 0 or any(node.op != "const" for node in flat):
        return value
    dtype = {"real": graph.dtype, "int": np.int32, "bool": np.bool_}[flat[0].kind]
    return np.array([node.attr for node in flat], dtype).reshape(value.shape)


def run_of(graph: Graph, flat: Value) -> Run | None:
    """The vector whose entries these are, if there is one."""
    if is_known(flat):
        if np.all(flat == flat[0]):
            return Run(graph.constant(flat[0]), None)
        return Run(graph.vector("table", (), (flat.shape, flat.tobytes())), 0)
    first = flat[0]
    if all(node is first for node in flat):
        return Run(first, None)
    if first.op != "elem" or first.args[0].op == "branch":
        return None
    vector, offset = first.args[0], first.attr
    for i, node in enumerate(flat):
        if node.op != "elem" or node.args[0] is not vector or node.attr != offset + i:
            return None
    return Run(vector, offset)


def packed(graph: Graph, flat: Value) -> Run:
    """A vector of these entries, a new one if need be."""
    run = run_of(graph, flat)
    if run is not None and run.offset is not None:
        return run
    return Run(graph.vector("pack", tuple(nodes(graph, flat)), flat.size), 0)


def elements(graph: Graph, vector: Node, size: int) -> Value:
    """The entries of a vector."""
    out = np.empty(size, object)
    for i in range(size):
        out[i] = graph.element(vector, i)
    return out


def elementwise(graph: Graph, op: str, *operands: Value) -> Value:
    """An operation on each entry; as a loop where the operands are long vectors themselves."""
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    if 0 in shape:
        return np.zeros(shape, graph.dtype)
    flats = [np.broadcast_to(v, shape).ravel() for v in operands]
    if len(flats[0]) >= LOOP_LENGTH and op in LOOP_OPERATIONS:
        made = _loop(graph, op, flats)
        if made is not None:
            return made.reshape(shape)
    columns = [nodes(graph, flat) for flat in flats]
    out = np.empty(len(flats[0]), object)
    for i, args in enumerate(zip(*columns, strict=True)):
        out[i] = graph.apply(op, *args)
    return settle(graph, out.reshape(shape))


def _loop(graph: Graph, op: str, flats: list[Value]) -> Value | None:
    """A loop, if an operand is a vector already; what is not yet one becomes one."""
    if all(is_known(flat) for flat in flats):
        return None
    firsts = [nodes(graph, flat[:1])[0] for flat in flats]
    made = graph.apply(op, *firsts)
    if made.op == "const" or made in firsts:  # such as a product with zero: entry by entry
        return None
    runs = [run_of(graph, flat) for flat in flats]
    if all(run is None or run.offset is None or run.node.op == "table" for run in runs):
        return None
    for i, (run, flat) in enumerate(zip(runs, flats, strict=True)):
        flag = op == "select" and i == 0
        if run is None and not flag and all(n.op != "const" and n.kind == "real" for n in flat):
            run = runs[i] = packed(graph, flat)
        one_flag = run is not None and run.offset is None and run.node.kind == "bool"
        if run is None or not (one_flag if flag else run.node.kind == "real"):
            return None
    found = [run for run in runs if run is not None]
    offsets = tuple(run.offset for run in found)
    size = len(flats[0])
    vector = graph.vector("map", [run.node for run in found], (op, size, offsets))
    return elements(graph, vector, size)


def product(graph: Graph, A: Value, x: Value) -> Value:
    """A x for a matrix of constants: a loop over a table."""
    run = packed(graph, x)
    table = graph.vector("table", (), (A.shape, np.ascontiguousarray(A).tobytes()))
    vector = graph.vector("matvec", (table, run.node), (A.shape[0], run.offset))
    return elements(graph, vector, A.shape[0])


def known(value: Any, dtype: Any) -> Value:
    """A constant of the program; reals in the precision of the graph."""
    array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(dtype)
    if array.dtype.kind in "iu":
        return array.astype(np.int32)
    return array
