"""From a JAX program to the graph of its numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from sagewing.codegen.arrays import Value, as_known, as_nodes, constants, is_known
from sagewing.codegen.graph import Graph
from sagewing.codegen.refusal import NotInC, Unsupported
from sagewing.codegen.types import is_key, not_in_c
from sagewing.filters.lifting import DIRECTIONS, MODEL

# A primitive's rule: from the graph, the operands and the equation to the results.
PrimitiveRule = Callable[[Graph, list[Value], Any], list[Value]]
RULES: dict[str, PrimitiveRule] = {}

# Primitives that call another program, and the parameter that holds it. It is traced in place.
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
# Primitives that hold programs, whose types are checked when these are traced.
STRUCTURES = {"cond", "scan"}


def rule(*names: str) -> Callable[[PrimitiveRule], PrimitiveRule]:
    """Register the rule of some primitives."""

    def register(function: PrimitiveRule) -> PrimitiveRule:
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
        return env[atom] if graph.in_model else as_known(graph, env[atom])

    env.update(zip(jaxpr.constvars, map(_constant, jaxpr.constvars, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    outside = graph.in_model
    for equation in jaxpr.eqns:
        graph.in_model = outside or (graph.exact_model and in_scope(equation, MODEL))
        try:
            results = _results(graph, [read(atom) for atom in equation.invars], equation)
        except Unsupported as error:
            error.line = error.line or _line(equation)  # JAX's own functions have no line
            raise
        except NotInC:
            raise
        except Exception as error:  # a case that a rule does not know
            why = f"is used in a way that has no C code here ({type(error).__name__}: {error})"
            raise unsupported(equation, why) from error
        finally:
            graph.in_model = outside
        env.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _constant(variable: Any, value: Any) -> Value:
    if is_key(variable.aval.dtype):
        raise NotInC(
            "The filter has a random key of JAX, which C does not have; give the model the numbers "
            'that were drawn, or run this filter with backend="jax".'
        )
    return constants(value, variable.aval.dtype)


def _results(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    name = equation.primitive.name
    if name in CALLS:
        return _called(graph, operands, equation)
    other_type = not_in_c(equation, graph.dtype, graph.in_searchsorted)
    all_known = all(is_known(value) for value in operands)
    keys = any(is_key(getattr(v.aval, "dtype", np.bool_)) for v in equation.outvars)
    if all_known and not keys and (other_type is not None or name not in RULES):
        return _evaluated(operands, equation)
    if other_type is not None and name not in STRUCTURES:
        types = f"bool, int32 and {graph.dtype}"
        raise unsupported(equation, f"has numbers of type {other_type}, and C has {types} only")
    if name not in RULES:
        raise unsupported(equation, "has no C code here")
    results = RULES[name](graph, operands, equation)
    if graph.in_model and (in_scope(equation, DIRECTIONS) or _is_zero_of_a_derivative(equation)):
        return [_zeros_of_derivatives(graph, value) for value in results]
    return results


def _called(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A program that the program calls."""
    outside = graph.in_searchsorted
    graph.in_searchsorted = outside or "searchsorted" in str(equation.params.get("name"))
    try:
        return trace(graph, equation.params[CALLS[equation.primitive.name]], operands)
    finally:
        graph.in_searchsorted = outside


def _evaluated(operands: list[Value], equation: Any) -> list[Value]:
    """A result that does not depend on the state or the measurements, computed by JAX."""
    given = zip(equation.invars, operands, strict=True)
    args = [value.astype(atom.aval.dtype) for atom, value in given]
    made = equation.primitive.bind(*args, **equation.params)
    results = made if equation.primitive.multiple_results else [made]
    return [np.asarray(result) for result in results]


def in_scope(equation: Any, name: str) -> bool:
    """Whether a part of the program was written under `jax.named_scope(name)`."""
    return name in str(equation.source_info.name_stack)


def _is_zero_of_a_derivative(equation: Any) -> bool:
    """Whether JAX wrote these zeros as the derivative of a constant; the model wrote all others."""
    if equation.primitive.name != "broadcast_in_dim" or not isinstance(equation.invars[0], Literal):
        return False
    traceback = equation.source_info.traceback
    frames = traceback.frames if traceback is not None else ()
    return any(frame.function_name == "zeros_like_aval" for frame in frames)


def _zeros_of_derivatives(graph: Graph, value: Value) -> Value:
    """The same array, in which every zero is that of a derivative."""
    if not is_known(value) or value.dtype != graph.dtype:
        return value
    out = as_nodes(graph, value)
    out[value == 0] = graph.zero_derivative
    return out


def unsupported(equation: Any, why: str) -> Unsupported:
    """The error for a primitive that has no rule."""
    return Unsupported(equation.primitive.name, why, _line(equation))


def _line(equation: Any) -> str | None:
    """The innermost line outside of JAX, Equinox and jaxtyping."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not any(f"/{name}/" in frame.file_name for name in ("jax", "equinox", "jaxtyping")):
            return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    return None
