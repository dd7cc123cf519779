"""From a JAX program to the graph of its numbers."""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from sagewing.codegen.graph import Graph
from sagewing.codegen.refusal import NotInC, Unsupported
from sagewing.codegen.types import is_key, not_in_c
from sagewing.codegen.values import (
    Value,
    elementwise,
    gathered,
    is_known,
    known,
    looped,
    nodes,
    settle,
)
from sagewing.filters.lifting import DIRECTIONS, MODEL

# A primitive's rule: the graph, the operands and the equation, to the results.
Rule = Callable[[Graph, list[Value], Any], list[Value]]
RULES: dict[str, Rule] = {}

# Under these names a program holds another one, which is as good as written out.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "call_jaxpr",
}
# These hold programs whose own types are looked at one by one.
STRUCTURES = {"cond", "scan"}
# More steps of a loop than this are not written out.
MOST_STEPS = 100


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def trace(graph: Graph, program: ClosedJaxpr | Jaxpr, args: Sequence[Value]) -> list[Value]:
    """The results of a program for these operands."""
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    consts = program.consts if isinstance(program, ClosedJaxpr) else []
    env: dict[Any, Value] = {}

    def read(atom: Any) -> Value:
        if isinstance(atom, Literal):
            return _constant(atom, atom.val)
        return env[atom] if graph.exact else settle(graph, env[atom])

    env.update(zip(jaxpr.constvars, map(_constant, jaxpr.constvars, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    outside = graph.exact
    for equation in jaxpr.eqns:
        graph.exact = outside or _in_scope(equation, MODEL)
        try:
            results = _results(graph, [read(atom) for atom in equation.invars], equation)
        except Unsupported as error:
            error.line = error.line or _line(equation)  # what JAX calls inside has none of its own
            raise
        except NotInC:
            raise
        except Exception as error:  # whatever a rule did not foresee
            why = f"is used in a way that has no C code here ({type(error).__name__}: {error})"
            raise unsupported(equation, why) from error
        finally:
            graph.exact = outside
        env.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _constant(variable: Any, value: Any) -> Value:
    if is_key(variable.aval.dtype):
        raise NotInC(
            "The filter has a random key of JAX, which C does not have; give the model the numbers "
            'that were drawn, or run this filter with backend="jax".'
        )
    return known(value, variable.aval.dtype)


def _results(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    name = equation.primitive.name
    if name in CALLS:
        return _called(graph, operands, equation)
    other = not_in_c(equation, graph.dtype, graph.places)
    all_known = all(is_known(value) for value in operands)
    keys = any(is_key(getattr(v.aval, "dtype", np.bool_)) for v in equation.outvars)
    if all_known and not keys and (other is not None or name not in RULES):
        return _evaluated(operands, equation)
    if other is not None and name not in STRUCTURES:
        types = f"bool, int32 and {graph.dtype}"
        raise unsupported(equation, f"has numbers of type {other}, and C has {types} only")
    if name not in RULES:
        raise unsupported(equation, "has no C code here")
    results = RULES[name](graph, operands, equation)
    if graph.exact and (_in_scope(equation, DIRECTIONS) or _is_zero_of_a_derivative(equation)):
        return [_without_change(graph, value) for value in results]
    return results


def _called(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A program inside of the program."""
    outside = graph.places
    graph.places = outside or "searchsorted" in str(equation.params.get("name"))
    try:
        return trace(graph, equation.params[CALLS[equation.primitive.name]], operands)
    finally:
        graph.places = outside


def _evaluated(operands: list[Value], equation: Any) -> list[Value]:
    """What is known before the first step, JAX computes now."""
    given = zip(equation.invars, operands, strict=True)
    args = [value.astype(atom.aval.dtype) for atom, value in given]
    made = equation.primitive.bind(*args, **equation.params)
    results = made if equation.primitive.multiple_results else [made]
    return [np.asarray(result) for result in results]


def _in_scope(equation: Any, name: str) -> bool:
    return name in str(equation.source_info.name_stack)


def _is_zero_of_a_derivative(equation: Any) -> bool:
    """Whether JAX, not the model, wrote these zeros: a derivative of what is constant."""
    if equation.primitive.name != "broadcast_in_dim" or not isinstance(equation.invars[0], Literal):
        return False
    traceback = equation.source_info.traceback
    frames = traceback.frames if traceback is not None else ()
    return any(frame.function_name == "zeros_like_aval" for frame in frames)


def _without_change(graph: Graph, value: Value) -> Value:
    """Real numbers in which a zero is that of a derivative."""
    if not is_known(value) or value.dtype != graph.dtype:
        return value
    out = nodes(graph, value)
    out[value == 0] = graph.no_change
    return out


def unsupported(equation: Any, why: str) -> Unsupported:
    """The error for a primitive that has no rule."""
    return Unsupported(equation.primitive.name, why, _line(equation))


def _line(equation: Any) -> str | None:
    """The innermost line that is not JAX's own."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not any(f"/{name}/" in frame.file_name for name in ("jax", "equinox", "jaxtyping")):
            return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    return None


@rule("cond")
def _cond(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A branch; where it is known which side holds, that side alone."""
    branches = equation.params["branches"]
    index, *operands = operands
    if is_known(index):
        return trace(graph, branches[int(np.clip(index, 0, len(branches) - 1))], operands)
    node: Any = index[()]
    if node.op == "to_int" and node.args[0].kind == "bool":
        node = node.args[0]
    before = len(graph.nodes)
    sides = [[nodes(graph, v) for v in trace(graph, branch, operands)] for branch in branches]
    outputs = list(zip(*sides, strict=True))
    results = [_chosen(graph, node, values, before) for values in outputs]
    rest = [values for values, made in zip(outputs, results, strict=True) if made is None]
    flat = [[n for value in side for n in value.ravel()] for side in zip(*rest, strict=True)]
    chosen = iter(graph.branch(node, flat) if rest else ())
    return [
        settle(graph, _filled(values[0].shape, chosen)) if made is None else made
        for values, made in zip(outputs, results, strict=True)
    ]


def _chosen(graph: Graph, flag: Any, values: Sequence[Value], before: int) -> Value | None:
    """The choice between vectors that are there anyhow, as loops; what is the same, as a vector."""
    if flag.kind != "bool" or not graph.rows:
        return None
    sides = []
    for side, value in enumerate(values):
        kept: list[Any] = [graph.under(flag, bool(side), node) for node in value.flat]
        if any(node.id >= before and node.op != "const" for node in kept):
            return None
        sides.append(_filled(value.shape, iter(kept)))
    otherwise, then = sides
    if np.all(then == otherwise):
        return settle(graph, gathered(graph, then))
    flags = _filled(then.shape, repeat(flag))
    return looped(graph, "select", [flags, then, otherwise])


def _filled(shape: tuple[int, ...], entries: Iterator[Any]) -> Value:
    out = np.empty(shape, object)
    for place in np.ndindex(shape):
        out[place] = next(entries)
    return out


@rule("platform_index")
def _platform_index(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Where a program has several versions, that for a plain processor."""
    platforms = equation.params["platforms"]
    fits = [i for i, names in enumerate(platforms) if names is None or "cpu" in names]
    return [np.array(fits[0], np.int32)]


@rule("scan")
def _scan(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A loop, written out."""
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
    return np.stack([nodes(graph, value) for value in values])


@rule("mul")
def _mul(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A product; `0.0 * x`, in these words, asks whether x is a number, and stands as it is."""
    if any(isinstance(a, Literal) and a.val == 0.0 for a in equation.invars):
        a, b = np.broadcast_arrays(*(nodes(graph, value) for value in operands))
        out = np.empty(a.shape, object)
        for place in np.ndindex(a.shape):
            both: Any = (a[place], b[place])
            known_product = all(node.op == "const" for node in both)
            out[place] = (graph.apply if known_product else graph.apply_exactly)("mul", *both)
        return [settle(graph, out)]
    return [elementwise(graph, "mul", *operands)]
