"""The numbers of a filter's step and how they are made of each other.

A node is one number, or a vector that is worth a loop. Equal nodes are one node, so what a
symmetric matrix says twice is computed once; what is known to be zero is not computed at all.

Two kinds of zeros are told apart. Those of F and H, and of the directions of a derivative, are zero
whatever they are multiplied with. Those that a model's own functions have are numbers like all
others: there `0 * x` is NaN where x is not finite, as JAX has it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sagewing.codegen.operations import BITS, COMMUTATIVE, OPERATIONS, Kind, whole
from sagewing.codegen.signs import is_finite_and_positive

# How flags are put in order
ORDER_OF_FLAGS = {"max": "or", "min": "and", "lt": "and", "gt": "and", "le": "or", "ge": "or"}


class Node:
    """One number (`op` an operation, "const" or "elem"), a vector, or a branch.

    Vectors are "input", "table" (constants), "pack" (numbers put side by side), "map" (an operation
    on each entry) and "matvec"; a branch has the outputs of each of its sides as arguments. An
    "elem" is an entry of a vector or an output of a branch.
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
    """The nodes of one function; arguments always come before what is made of them.

    With `rows` those of a matrix become loops. Without, their entries are numbers of their
    own, of which a symmetric matrix has half as many. While `exact` is set, what is added is a
    model's own function, and no product with zero is left out but those of directions.
    """

    def __init__(self, dtype: Any, rows: bool = True):
        self.dtype = np.dtype(dtype)
        self.rows = rows
        self.exact = False
        self.places = False  # whether what is added counts places of an array
        self.nodes: list[Node] = []
        self._known: dict[Any, Node] = {}
        # The zero of a derivative in a direction that a number does not depend on
        zero = self.dtype.type(0.0)
        self.no_change = self._node("const", (), zero, "real", key="no change")

    def constant(self, value: Any) -> Node:
        """A number, an index or a flag that is known."""
        if isinstance(value, (bool, np.bool_)):
            return self._node("const", (), bool(value), "bool")
        if isinstance(value, (int, np.integer)):
            kind = "long" if getattr(value, "dtype", None) == np.int64 else "int"
            return self._node("const", (), whole(int(value), kind), kind)
        number = self.dtype.type(value)
        # -0.0 and NaN are numbers of their own
        return self._node("const", (), number, "real", key=number.tobytes())

    def apply(self, op: str, *args: Node) -> Node:
        """The operation on these numbers, or the simpler node that it comes down to."""
        if self.no_change in args:
            simple = self._without_change(op, args)
            if simple is not None:
                return simple
        if args[0].kind == "bool" and op in ORDER_OF_FLAGS:
            return self._of_flags(op, *args)
        if args[0].kind in BITS and op in ("abs", "sign"):
            return self._of_whole(op, args[0])
        if all(a.op == "const" for a in args):
            return self._fold(op, args)
        simple = self._simplify(op, args)
        if simple is not None:
            return simple
        return self.apply_exactly(op, *args)

    def apply_exactly(self, op: str, *args: Node) -> Node:
        """The operation as it stands, with whatever it does to a NaN."""
        if op in COMMUTATIVE and args[0].id > args[1].id:
            args = args[::-1]
        return self._node(op, args, None, OPERATIONS[op].kind or args[-1].kind)

    def vector(self, op: str, args: Sequence[Node], attr: Any, kind: Kind = "real") -> Node:
        """A vector, or a branch."""
        return self._node(op, tuple(args), attr, kind)

    def element(self, vector: Node, index: int, kind: Kind | None = None) -> Node:
        """An entry of a vector."""
        return self._node("elem", (vector,), index, kind or vector.kind)

    def branch(self, index: Node, sides: list[list[Node]]) -> list[Node]:
        """The outputs of the side that `index` names; those that all sides agree on need none."""
        if index.kind == "bool":
            sides = [
                [self.under(index, bool(value), out) for out in side]
                for value, side in enumerate(sides)
            ]
        columns = [tuple(side[i] for side in sides) for i in range(len(sides[0]))]
        # Outputs that are the same on every side, such as those of a symmetric matrix, are one.
        places = {c: i for i, c in enumerate(dict.fromkeys(c for c in columns if len(set(c)) > 1))}
        if not places:
            return list(sides[0])
        flat = [out for side in zip(*places, strict=True) for out in side]
        node = self.vector("branch", [index, *flat], (len(sides), len(places)))
        return [
            self.element(node, places[column], column[0].kind) if column in places else column[0]
            for column in columns
        ]

    def under(self, flag: Node, value: bool, node: Node) -> Node:
        """What a number comes down to where a flag is known."""
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
        return operand.args[index] if operand.op == "pack" else self.element(operand, index)

    def _node(
        self, op: str, args: tuple[Node, ...], attr: Any, kind: Kind, key: Any = None
    ) -> Node:
        key = (op, kind, attr if key is None else key, *(a.id for a in args))
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node(len(self.nodes), op, args, attr, kind)
            self.nodes.append(node)
        return node

    def _of_flags(self, op: str, a: Node, b: Node) -> Node:
        """The order of flags, by logic alone: what stands for "true" may be any number."""
        without = {"lt": 0, "le": 0, "gt": 1, "ge": 1}
        flags = [self.apply("not", f) if without.get(op) == i else f for i, f in enumerate((a, b))]
        return self.apply(ORDER_OF_FLAGS[op], *flags)

    def _of_whole(self, op: str, a: Node) -> Node:
        """The size or the sign of a whole number is one, too."""
        if op == "abs":
            return self.apply("max", a, self.apply("neg", a))
        number = np.int64 if a.kind == "long" else np.int32
        zero, one, less = (self.constant(number(n)) for n in (0, 1, -1))
        below = self.apply("select", self.apply("lt", a, zero), less, zero)
        return self.apply("select", self.apply("gt", a, zero), one, below)

    def _fold(self, op: str, args: tuple[Node, ...]) -> Node:
        kind = OPERATIONS[op].kind or args[-1].kind
        if op in ("to_int", "to_long") and args[0].kind == "real":
            value = _truncated(args[0].attr, kind)
        else:
            with np.errstate(all="ignore"):
                value = OPERATIONS[op].fold(*(a.attr for a in args))
        if kind in BITS:
            value = whole(int(value), kind)
        made = {"real": self.dtype.type, "int": int, "long": np.int64, "bool": bool}
        return self.constant(made[kind](value))

    def _without_change(self, op: str, args: tuple[Node, ...]) -> Node | None:
        """An operation on the zero of a derivative."""
        a, b = args[0], args[-1]
        if op in ("mul", "neg") or (op == "div" and a is self.no_change):
            return self.no_change
        if op == "add":
            return b if a is self.no_change else a
        if op == "sub":
            return a if b is self.no_change else self.apply("neg", b)
        return None

    def _simplify(self, op: str, args: tuple[Node, ...]) -> Node | None:
        a, b = args[0], args[-1]
        match op:
            case "add":
                if self._adds_nothing(a):
                    return b
                if self._adds_nothing(b):
                    return a
                if b.op == "neg":
                    return self.apply("sub", a, b.args[0])
                if a.op == "neg":
                    return self.apply("sub", b, a.args[0])
            case "sub":
                if self._adds_nothing(b, subtracted=True):
                    return a
                if _is(a, 0.0) and (not self.exact or a.kind != "real" or np.signbit(a.attr)):
                    return self.apply("neg", b)
                if b.op == "neg":
                    return self.apply("add", a, b.args[0])
            case "mul":
                for one, other in ((a, b), (b, a)):
                    if _is(one, 0.0) and not self._can_be_nan(one, other):
                        return one
                    if _is(one, 1.0):
                        return other
                    if _is(one, -1.0):
                        return self.apply("neg", other)
                    if one.op == "neg":
                        return self.apply("neg", self.apply("mul", one.args[0], other))
                    twice = other.op == "add" and other.args[0] is other.args[1]
                    if twice and _is(one, 0.5) and not self.exact:
                        return other.args[0]
            case "div":
                if _is(b, 1.0) or (_is(a, 0.0) and not self.exact):
                    return a
            case "neg" if a.op == "neg":
                return a.args[0]
            case "and" | "or":
                for one, other in ((a, b), (b, a)):
                    if one.op == "const":
                        return other if one.attr == (op == "and") else one
                if a is b:
                    return a
            case "not" if a.op == "not":
                return a.args[0]
            case "eq" | "ne" if a.kind == "bool":
                for one, other in ((a, b), (b, a)):
                    if one.op == "const":
                        return other if one.attr == (op == "eq") else self.apply("not", other)
            case "max" | "min" if a is b:
                return a
            case "to_int" if a.kind == "int":
                return a
            case "to_long" if a.kind == "bool":
                return self.apply("to_long", self.apply("to_int", a))
            case "to_long" if a.kind == "long":
                return a
            case "to_real" if a.kind == "real":
                return a
            case "select":
                return self._select(*args)
        return None

    def _can_be_nan(self, zero: Node, other: Node) -> bool:
        """Whether a product with zero has to be computed."""
        return self.exact and zero.kind == "real" and not is_finite_and_positive(other)

    def _adds_nothing(self, term: Node, subtracted: bool = False) -> bool:
        """Whether a sum is its other term. Where exact, 0 makes 0 of -0, and only -0 does not."""
        if not _is(term, 0.0):
            return False
        return not self.exact or term.kind != "real" or np.signbit(term.attr) != subtracted

    def _select(self, flag: Node, then: Node, otherwise: Node) -> Node | None:
        if flag.op == "const":
            return then if flag.attr else otherwise
        if then is otherwise:
            return then
        if flag.op == "not":
            return self.apply("select", flag.args[0], otherwise, then)
        # `a == a ? a : NaN` is a
        if flag.op == "eq" and flag.args == (then, then) and _is_nan(otherwise):
            return then
        if then.kind == "bool" and then.op == "const":
            return self.apply("or" if then.attr else "and", *self._arms(flag, then, otherwise))
        if otherwise.kind == "bool" and otherwise.op == "const":
            flag = self.apply("not", flag) if otherwise.attr else flag
            return self.apply("or" if otherwise.attr else "and", flag, then)
        return None

    def _arms(self, flag: Node, then: Node, otherwise: Node) -> tuple[Node, Node]:
        return (flag if then.attr else self.apply("not", flag)), otherwise


def in_array(node: Node) -> bool:
    """Whether a number is an entry of a C array."""
    return node.op == "elem" and node.args[0].op != "branch"


def _is(node: Node, value: float) -> bool:
    return node.op == "const" and node.kind != "bool" and bool(node.attr == value)


def _is_nan(node: Node) -> bool:
    return node.op == "const" and node.kind == "real" and bool(np.isnan(node.attr))


def _truncated(value: Any, kind: Kind) -> int:
    """As XLA converts: NaN is zero, and what is too large is the largest."""
    largest = 1 << (BITS[kind] - 1)
    if value != value:
        return 0
    if not -largest <= value < largest:
        return largest - 1 if value > 0 else -largest
    return int(value)
