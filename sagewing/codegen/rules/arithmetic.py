"""What JAX's elementwise primitives are in the graph."""

from typing import Any

import numpy as np

from sagewing.codegen.arrays import Value, as_known, as_nodes, is_known
from sagewing.codegen.elementwise import elementwise
from sagewing.codegen.graph import Graph
from sagewing.codegen.operations import LIBM
from sagewing.codegen.simplify import apply
from sagewing.codegen.trace import in_scope, rule, unsupported
from sagewing.filters.guards import NAN_PROBE

SAME = {
    name: name
    for name in (
        *(set(LIBM) - {"floor", "ceil", "erf"}),
        *("floor", "ceil", "erf", "abs", "logistic", "sign", "atan2", "pow"),
        *("add", "sub", "neg", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"),
        "is_finite",
    )
} | {"add_any": "add"}


@rule(*SAME)
def _elementwise(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    if equation.primitive.name == "pow" and equation.outvars[0].aval.dtype.kind != "f":
        raise unsupported(equation, "is known for real numbers only")
    return [elementwise(graph, SAME[equation.primitive.name], *operands)]


@rule("mul")
def _mul(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """A product; one that is a probe for NaN is computed although a factor is zero."""
    if not in_scope(equation, NAN_PROBE):
        return [elementwise(graph, "mul", *operands)]
    a, b = np.broadcast_arrays(*(as_nodes(graph, value) for value in operands))
    out = np.empty(a.shape, object)
    for place in np.ndindex(a.shape):
        both: Any = (a[place], b[place])
        all_constant = all(node.op == "const" for node in both)
        out[place] = apply(graph, "mul", *both) if all_constant else graph.operation("mul", *both)
    return [as_known(graph, out)]


@rule("and", "or", "not", "xor")
def _logic(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    if any(atom.aval.dtype != np.bool_ for atom in equation.invars):
        raise unsupported(equation, "is known for flags only, not for the bits of integers")
    name = equation.primitive.name
    return [elementwise(graph, "ne" if name == "xor" else name, *operands)]


# The operations for real numbers and for integers.
DIVISIONS = {"div": ("div", "quotient"), "rem": ("rem", "remainder")}


@rule(*DIVISIONS)
def _divided(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    integer = equation.invars[0].aval.dtype.kind != "f"
    return [elementwise(graph, DIVISIONS[equation.primitive.name][integer], *operands)]


@rule("lt_to", "le_to")
def _in_total_order(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """An order in which NaN comes last; searchsorted uses it, without -0."""
    if not graph.in_searchsorted:
        raise unsupported(equation, "is known in searchsorted only")
    a, b = operands
    here = elementwise(graph, equation.primitive.name.removesuffix("_to"), a, b)
    last = elementwise(graph, "ne", b, b)
    if equation.primitive.name == "lt_to":
        last = elementwise(graph, "and", last, elementwise(graph, "eq", a, a))
    return [elementwise(graph, "or", here, last)]


@rule("round")
def _round(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    to_even = int(equation.params["rounding_method"]) == 1
    return [elementwise(graph, "round" if to_even else "round_away", *operands)]


@rule("square")
def _square(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [elementwise(graph, "mul", operands[0], operands[0])]


@rule("integer_pow")
def _integer_pow(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    exponent = equation.params["y"]
    one = np.ones((), equation.outvars[0].aval.dtype)
    base, power = operands[0], one
    rest = abs(exponent)
    while rest:
        if rest & 1:
            power = elementwise(graph, "mul", power, base)
        rest >>= 1
        if rest:
            base = elementwise(graph, "mul", base, base)
    power = np.broadcast_to(power, operands[0].shape)
    return [elementwise(graph, "div", one, power) if exponent < 0 else power]


@rule("rsqrt")
def _rsqrt(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    root = elementwise(graph, "sqrt", operands[0])
    return [elementwise(graph, "div", np.ones((), graph.dtype), root)]


@rule("clamp")
def _clamp(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    low, value, high = operands
    return [elementwise(graph, "min", elementwise(graph, "max", value, low), high)]


@rule("select_n")
def _select_n(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    which, *cases = operands
    if equation.invars[0].aval.dtype == np.bool_:
        return [elementwise(graph, "select", which, cases[1], cases[0])]
    chosen = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        here = elementwise(graph, "eq", which, np.array(i, np.int32))
        chosen = elementwise(graph, "select", here, cases[i], chosen)
    return [chosen]


@rule("convert_element_type")
def _convert(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    value, dtype = operands[0], np.dtype(equation.params["new_dtype"])
    given = equation.invars[0].aval.dtype
    if dtype == np.bool_:
        if given == np.bool_:
            return [value]
        return [elementwise(graph, "ne", value, np.zeros((), given))]
    if dtype.kind == "f":
        if is_known(value):
            return [value.astype(graph.dtype)]
        return [elementwise(graph, "to_real", value)]
    return [elementwise(graph, "to_long" if dtype == np.int64 else "to_int", value)]


@rule("copy", "copy_p", "stop_gradient", "optimization_barrier")
def _same(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return list(operands)


@rule("reduce_precision")
def _reduce_precision(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Rounding to at least as many bits as the numbers have changes nothing."""
    given, own = equation.params, np.finfo(graph.dtype)
    if given["exponent_bits"] < own.nexp or given["mantissa_bits"] < own.nmant:
        raise unsupported(equation, f"rounds to fewer bits than {graph.dtype} has")
    return list(operands)
