"""Whole numbers of 64 bits, which JAX makes in double precision, as ints wherever they fit.

JAX counts with 64 bits there what it counts with 32 bits in single precision: places of arrays,
modes, the first of the largest. Where the value fits into an int in any case, C has an int.
"""

from typing import Any

import numpy as np

from sagewing.deploy.operations import whole

# What gives the same of ints and of longs that fit into them
SAME = {"max", "min", "select", "lt", "le", "gt", "ge", "eq", "ne", "to_real", "to_int"}
SMALLEST, LARGEST = -(2**31), 2**31 - 1  # of ints
DEPTH = 40  # so many sums and choices are followed back to the numbers that they are of
WRAPPING = {"add", "sub", "mul", "neg"}
BOUNDS = {"max": "min", "min": "max"}


def as_ints(graph: Any, op: str, args: tuple[Any, ...]) -> Any | None:
    """The operation on ints, if its numbers are longs that fit into them."""
    if op not in (*SAME, "add") or not any(arg.kind == "long" for arg in args):
        return None
    if op == "to_int" and args[0].op in WRAPPING:  # the lower bits of the lower bits
        return graph.apply(args[0].op, *(graph.apply("to_int", arg) for arg in args[0].args))
    narrow = [_narrow(graph, arg) for arg in args]
    if None not in narrow and (op != "add" or _fit(narrow)):
        made = graph.apply(op, *narrow)
        return graph.apply("to_long", made) if made.kind == "int" and op != "to_int" else made
    return _clipped(graph, op, args) if op in BOUNDS else None


def _narrow(graph: Any, node: Any) -> Any | None:
    if node.kind != "long":
        return node
    if node.op == "const" and whole(node.attr, "int") == node.attr:
        return graph.constant(np.int32(node.attr))
    if node.op == "to_long" and node.args[0].kind == "int":
        return node.args[0]
    return None


def _fit(terms: list[Any]) -> bool:
    """Whether a sum of ints is one: that of a few flags, for example."""
    bounds = [_range(term, DEPTH) for term in terms]
    return sum(low for low, _ in bounds) >= SMALLEST and sum(high for _, high in bounds) <= LARGEST


def _range(node: Any, depth: int) -> tuple[int, int]:
    """Between what an int lies."""
    if node.op == "const":
        return node.attr, node.attr
    if node.op == "to_int" and node.args[0].kind == "bool":
        return 0, 1
    if depth and node.op in ("add", "select"):
        one, other = (_range(arg, depth - 1) for arg in node.args[-2:])
        if node.op == "select":
            return min(one[0], other[0]), max(one[1], other[1])
        total = one[0] + other[0], one[1] + other[1]
        return total if total[0] >= SMALLEST and total[1] <= LARGEST else (SMALLEST, LARGEST)
    return SMALLEST, LARGEST


def _clipped(graph: Any, op: str, args: tuple[Any, ...]) -> Any | None:
    """A real number made whole and kept between two ints: the nearest int will do for it."""
    bounds = []
    for name in (op, BOUNDS[op]):
        constant = [arg for arg in args if arg.op == "const"]
        inner = [arg for arg in args if arg.op != "const"]
        if len(constant) != 1 or _narrow(graph, constant[0]) is None:
            return None
        bounds.append((name, _narrow(graph, constant[0])))
        args = inner[0].args if inner[0].op == BOUNDS[op] else ()
        if inner[0].op == "to_long" and inner[0].args[0].kind == "real" and len(bounds) == 2:
            made = graph.apply("to_int", inner[0].args[0])
            for name, bound in reversed(bounds):
                made = graph.apply(name, made, bound)
            return graph.apply("to_long", made)
    return None
