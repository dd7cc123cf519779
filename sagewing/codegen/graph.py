"""The graph of a function: which numbers are computed from which others.

A node is one number, or a vector that is computed in a loop. Equal nodes are one node, so an entry
that a symmetric matrix has twice is computed once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sagewing.codegen.operations import COMMUTATIVE, OPERATIONS, Kind, wrapped
from sagewing.codegen.refusal import NotInC

# Of one function: about as many as a C compiler takes within its time limit.
MOST_NODES = 500_000


class Node:
    """One number (`op` an operation, "const" or "elem"), a vector, or a branch.

    Vectors are "input", "table" (constants), "pack" (numbers put side by side), "map" (an operation
    on each entry) and "matvec" (a matrix of constants times a vector); "sum", "largest" and
    "smallest" are numbers made of consecutive entries of one. A branch has the outputs of
    each of its sides as arguments. An "elem" is an entry of a vector or an output of a branch.
    """

    __slots__ = ("args", "attr", "id", "kind", "op")
    args: tuple["Node", ...]
    attr: Any
    id: int
    kind: Kind
    op: str

    def __init__(self, id: int, op: str, args: tuple["Node", ...], attr: Any, kind: Kind):
        self.id, self.op, self.args, self.attr, self.kind = id, op, args, attr, kind

    def __repr__(self) -> str:
        return f"{self.op}{self.id}"


class Graph:
    """The nodes of one function; the arguments of a node always come before it.

    With `row_loops` the rows of a matrix become loops. Without, its entries are single numbers, of
    which a symmetric matrix has half as many. `reduces`: the sum, the maximum and the minimum of an
    array are one node each. `in_model` is set while the functions of the user's
    model are added, whose products with zero are computed (see `simplify.py`), and
    `in_searchsorted` while a search in a sorted array is.
    """

    def __init__(self, dtype: Any, row_loops: bool = True, reduces: bool = False):
        self.dtype = np.dtype(dtype)
        self.row_loops = row_loops
        self.reduces = reduces
        self.in_model = False
        self.in_searchsorted = False
        self.nodes: list[Node] = []
        self._known: dict[Any, Node] = {}
        # A derivative by what a number does not depend on: zero, whatever it is multiplied with
        zero = self.dtype.type(0.0)
        self.zero_derivative = self._node("const", (), zero, "real", key="zero derivative")

    def constant(self, value: Any) -> Node:
        """A constant number, index or flag."""
        if isinstance(value, (bool, np.bool_)):
            return self._node("const", (), bool(value), "bool")
        if isinstance(value, (int, np.integer)):
            kind = "long" if getattr(value, "dtype", None) == np.int64 else "int"
            return self._node("const", (), wrapped(int(value), kind), kind)
        number = self.dtype.type(value)
        # By its bits, because -0.0 == 0.0 and NaN != NaN
        return self._node("const", (), number, "real", key=number.tobytes())

    def operation(self, op: str, *args: Node) -> Node:
        """An operation as it stands; `simplify.apply` leaves out what need not be computed."""
        if op in COMMUTATIVE and args[0].id > args[1].id:
            args = args[::-1]
        return self._node(op, args, None, OPERATIONS[op].kind or args[-1].kind)

    def vector(self, op: str, args: Sequence[Node], attr: Any, kind: Kind = "real") -> Node:
        """A vector, or a branch."""
        return self._node(op, tuple(args), attr, kind)

    def entry(self, vector: Node, index: int, kind: Kind | None = None) -> Node:
        """An entry of a vector."""
        return self._node("elem", (vector,), index, kind or vector.kind)

    def branch(self, index: Node, sides: list[list[Node]]) -> list[Node]:
        """The outputs of the side that `index` names; one that all sides share needs no branch."""
        if index.kind == "bool":
            sides = [
                [self.given_flag(index, bool(value), out) for out in side]
                for value, side in enumerate(sides)
            ]
        columns = [tuple(side[i] for side in sides) for i in range(len(sides[0]))]
        # Outputs that are equal on every side, as in a symmetric matrix, become one output.
        places = {c: i for i, c in enumerate(dict.fromkeys(c for c in columns if len(set(c)) > 1))}
        if not places:
            return list(sides[0])
        flat = [out for side in zip(*places, strict=True) for out in side]
        node = self.vector("branch", [index, *flat], (len(sides), len(places)))
        return [
            self.entry(node, places[column], column[0].kind) if column in places else column[0]
            for column in columns
        ]

    def given_flag(self, flag: Node, value: bool, node: Node) -> Node:
        """A number where a flag is known: a choice by that flag becomes the chosen number."""
        if node.op == "select" and node.args[0] is flag:
            return node.args[1] if value else node.args[2]
        if node.op != "elem" or node.args[0].op != "map":
            return node
        (op, shape, places), args = node.args[0].attr, node.args[0].args
        if op != "select" or args[0] is not flag:
            return node
        side = 1 if value else 2
        operand, (offset, strides) = args[side], places[side]
        if offset is None:
            return operand
        place = np.unravel_index(node.attr, shape)
        index = offset + sum(int(i) * stride for i, stride in zip(place, strides, strict=True))
        return operand.args[index] if operand.op == "pack" else self.entry(operand, index)

    def _node(
        self, op: str, args: tuple[Node, ...], attr: Any, kind: Kind, key: Any = None
    ) -> Node:
        key = (op, kind, attr if key is None else key, *(a.id for a in args))
        node = self._known.get(key)
        if node is None:
            if len(self.nodes) >= MOST_NODES:
                raise NotInC(
                    f"This filter is too large for C: a step of it has more than {MOST_NODES} "
                    'operations, written one by one; run it with backend="jax".'
                )
            node = self._known[key] = Node(len(self.nodes), op, args, attr, kind)
            self.nodes.append(node)
        return node


def in_array(node: Node) -> bool:
    """Whether a number is an entry of a C array."""
    return node.op == "elem" and node.args[0].op != "branch"
