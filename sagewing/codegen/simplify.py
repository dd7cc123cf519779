"""Operations as simple as they can be: constants are folded, products with 0 and 1 left out.

There are two kinds of zeros. Those of F and H, and of the directions of a derivative, are zero
whatever they are multiplied with. Those in the functions of the user's model are numbers like all
others: there `0 * x` is NaN where x is not finite, as in JAX.
"""

from typing import Any

import numpy as np

from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.operations import BITS, OPERATIONS, Kind, wrapped
from sagewing.codegen.signs import is_finite_and_positive

# Comparisons of flags as logic
ORDER_OF_FLAGS = {"max": "or", "min": "and", "lt": "and", "gt": "and", "le": "or", "ge": "or"}


def apply(graph: Graph, op: str, *args: Node) -> Node:
    """The operation on these numbers, or a simpler node that is equal."""
    if graph.zero_derivative in args:
        simple = _with_zero_derivative(graph, op, args)
        if simple is not None:
            return simple
    if args[0].kind == "bool" and op in ORDER_OF_FLAGS:
        return _compared_flags(graph, op, *args)
    if args[0].kind in BITS and op in ("abs", "sign"):
        return _abs_or_sign(graph, op, args[0])
    if all(a.op == "const" for a in args):
        return _fold(graph, op, args)
    simple = _simplified(graph, op, args)
    if simple is not None:
        return simple
    return graph.operation(op, *args)


def _compared_flags(graph: Graph, op: str, a: Node, b: Node) -> Node:
    """A comparison of flags as logic, because in C any number may stand for a flag that is set."""
    without = {"lt": 0, "le": 0, "gt": 1, "ge": 1}
    flags = [apply(graph, "not", f) if without.get(op) == i else f for i, f in enumerate((a, b))]
    return apply(graph, ORDER_OF_FLAGS[op], *flags)


def _abs_or_sign(graph: Graph, op: str, a: Node) -> Node:
    """The absolute value or the sign of an integer, which C does not have as functions."""
    if op == "abs":
        return apply(graph, "max", a, apply(graph, "neg", a))
    number = np.int64 if a.kind == "long" else np.int32
    zero, one, less = (graph.constant(number(n)) for n in (0, 1, -1))
    below = apply(graph, "select", apply(graph, "lt", a, zero), less, zero)
    return apply(graph, "select", apply(graph, "gt", a, zero), one, below)


def _fold(graph: Graph, op: str, args: tuple[Node, ...]) -> Node:
    kind = OPERATIONS[op].kind or args[-1].kind
    if op in ("to_int", "to_long") and args[0].kind == "real":
        value = _truncated(args[0].attr, kind)
    else:
        with np.errstate(all="ignore"):
            value = OPERATIONS[op].fold(*(a.attr for a in args))
    if kind in BITS:
        value = wrapped(int(value), kind)
    made = {"real": graph.dtype.type, "int": int, "long": np.int64, "bool": bool}
    return graph.constant(made[kind](value))


def _with_zero_derivative(graph: Graph, op: str, args: tuple[Node, ...]) -> Node | None:
    """An operation on the zero of a derivative; None if it is like any other."""
    a, b = args[0], args[-1]
    if op in ("mul", "neg") or (op == "div" and a is graph.zero_derivative):
        return graph.zero_derivative
    if op == "add":
        return b if a is graph.zero_derivative else a
    if op == "sub":
        return a if b is graph.zero_derivative else apply(graph, "neg", b)
    return None


def _simplified(graph: Graph, op: str, args: tuple[Node, ...]) -> Node | None:
    a, b = args[0], args[-1]
    match op:
        case "add":
            if _is_neutral(graph, a):
                return b
            if _is_neutral(graph, b):
                return a
            if b.op == "neg":
                return apply(graph, "sub", a, b.args[0])
            if a.op == "neg":
                return apply(graph, "sub", b, a.args[0])
        case "sub":
            if _is_neutral(graph, b, subtracted=True):
                return a
            if _is(a, 0.0) and (not graph.in_model or a.kind != "real" or np.signbit(a.attr)):
                return apply(graph, "neg", b)
            if b.op == "neg":
                return apply(graph, "add", a, b.args[0])
        case "mul":
            for one, other in ((a, b), (b, a)):
                if _is(one, 0.0) and not _can_be_nan(graph, one, other):
                    return one
                if _is(one, 1.0):
                    return other
                if _is(one, -1.0):
                    return apply(graph, "neg", other)
                if one.op == "neg":
                    return apply(graph, "neg", apply(graph, "mul", one.args[0], other))
                twice = other.op == "add" and other.args[0] is other.args[1]
                if twice and _is(one, 0.5) and not graph.in_model:
                    return other.args[0]
        case "div":
            if _is(b, 1.0) or (_is(a, 0.0) and not graph.in_model):
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
                    return other if one.attr == (op == "eq") else apply(graph, "not", other)
        case "max" | "min" if a is b:
            return a
        case "to_int" if a.kind == "int":
            return a
        case "to_long" if a.kind == "bool":
            return apply(graph, "to_long", apply(graph, "to_int", a))
        case "to_long" if a.kind == "long":
            return a
        case "to_real" if a.kind == "real":
            return a
        case "select":
            return _select(graph, *args)
    return None


def _can_be_nan(graph: Graph, zero: Node, other: Node) -> bool:
    """Whether a product with zero has to be computed."""
    return graph.in_model and zero.kind == "real" and not is_finite_and_positive(other)


def _is_neutral(graph: Graph, term: Node, subtracted: bool = False) -> bool:
    """Whether a sum is equal to its other term. In a model only -0 is neutral: 0 + -0 is 0."""
    if not _is(term, 0.0):
        return False
    return not graph.in_model or term.kind != "real" or np.signbit(term.attr) != subtracted


def _select(graph: Graph, flag: Node, then: Node, otherwise: Node) -> Node | None:
    if flag.op == "const":
        return then if flag.attr else otherwise
    if then is otherwise:
        return then
    if flag.op == "not":
        return apply(graph, "select", flag.args[0], otherwise, then)
    # `a == a ? a : NaN` is a
    if flag.op == "eq" and flag.args == (then, then) and _is_nan(otherwise):
        return then
    if then.kind == "bool" and then.op == "const":
        flag = flag if then.attr else apply(graph, "not", flag)
        return apply(graph, "or" if then.attr else "and", flag, otherwise)
    if otherwise.kind == "bool" and otherwise.op == "const":
        flag = apply(graph, "not", flag) if otherwise.attr else flag
        return apply(graph, "or" if otherwise.attr else "and", flag, then)
    return None


def _is(node: Node, value: float) -> bool:
    return node.op == "const" and node.kind != "bool" and bool(node.attr == value)


def _is_nan(node: Node) -> bool:
    return node.op == "const" and node.kind == "real" and bool(np.isnan(node.attr))


def _truncated(value: Any, kind: Kind) -> int:
    """A conversion to an integer as in XLA: NaN becomes 0, and numbers out of range the nearest."""
    largest = 1 << (BITS[kind] - 1)
    if value != value:
        return 0
    if not -largest <= value < largest:
        return largest - 1 if value > 0 else -largest
    return int(value)
