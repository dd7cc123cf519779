"""What JAX's branches and loops are in the graph."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from sagewing.codegen.arrays import Value, as_known, as_nodes, in_one_vector, is_known
from sagewing.codegen.elementwise import as_loops
from sagewing.codegen.graph import Graph
from sagewing.codegen.trace import rule, trace, unsupported

# A loop of more steps than this is not written out.
MOST_STEPS = 100


@rule("cond")
def _cond(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A branch; if the index is a constant, its side alone."""
    branches = equation.params["branches"]
    index, *operands = operands
    if is_known(index):
        return trace(graph, branches[int(np.clip(index, 0, len(branches) - 1))], operands)
    node: Any = index[()]
    if node.op == "to_int" and node.args[0].kind == "bool":
        node = node.args[0]
    before = len(graph.nodes)
    sides = [[as_nodes(graph, v) for v in trace(graph, branch, operands)] for branch in branches]
    outputs = list(zip(*sides, strict=True))
    results = [_chosen(graph, node, values, before) for values in outputs]
    rest = [values for values, made in zip(outputs, results, strict=True) if made is None]
    flat = [[n for value in side for n in value.ravel()] for side in zip(*rest, strict=True)]
    chosen = iter(graph.branch(node, flat) if rest else ())
    return [
        as_known(graph, _filled(values[0].shape, chosen)) if made is None else made
        for values, made in zip(outputs, results, strict=True)
    ]


def _chosen(graph: Graph, flag: Any, values: Sequence[Value], before: int) -> Value | None:
    """The choice as loops, if no side computes anything; None otherwise.

    Then a branch would only copy numbers. What is equal on both sides needs no choice.
    """
    if flag.kind != "bool" or not graph.row_loops:
        return None
    sides = []
    for side, value in enumerate(values):
        kept: list[Any] = [graph.given_flag(flag, bool(side), node) for node in value.flat]
        if any(node.id >= before and node.op != "const" for node in kept):
            return None
        sides.append(_filled(value.shape, iter(kept)))
    otherwise, then = sides
    if np.all(then == otherwise):
        return as_known(graph, in_one_vector(graph, then))
    flags = _filled(then.shape, repeat(flag))
    return as_loops(graph, "select", [flags, then, otherwise])


def _filled(shape: tuple[int, ...], entries: Iterator[Any]) -> Value:
    out = np.empty(shape, object)
    for place in np.ndindex(shape):
        out[place] = next(entries)
    return out


@rule("platform_index")
def _platform_index(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Of a program with several versions, the one for CPUs."""
    platforms = equation.params["platforms"]
    fits = [i for i, names in enumerate(platforms) if names is None or "cpu" in names]
    return [np.array(fits[0], np.int32)]


@rule("scan")
def _scan(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A loop, written out step by step."""
    p = equation.params
    if p["length"] > MOST_STEPS:
        raise unsupported(equation, f"is a loop of {p['length']} steps, more than {MOST_STEPS}")
    consts = operands[: p["num_consts"]]
    carry = operands[p["num_consts"] : p["num_consts"] + p["num_carry"]]
    columns = operands[p["num_consts"] + p["num_carry"] :]
    order = range(p["length"])
    rows: dict[int, list[Value]] = {}
    for i in reversed(order) if p["reverse"] else order:
        results = trace(graph, p["jaxpr"], [*consts, *carry, *(c[i, ...] for c in columns)])
        carry, rows[i] = results[: len(carry)], results[len(carry) :]
    stacked = [
        _stack(graph, [rows[i][k] for i in order]) for k in range(len(rows[0]) if rows else 0)
    ]
    return [*carry, *stacked]


def _stack(graph: Graph, values: list[Value]) -> Value:
    if all(is_known(value) for value in values):
        return np.stack(values)
    return np.stack([as_nodes(graph, value) for value in values])
