"""The products of weights in a step: a matrix that all records share, times a number of vectors.

They are most of the work of a learned filter. In C each is a loop over the matrix, the reverse pass
keeps its result instead of computing it again, and the derivative by the matrix, a sum over records
and steps, is computed for many steps at once from the vectors and the derivatives by the results.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

# The product of the weights with this number and some vectors, which are the columns of a matrix.
Multiply = Callable[[int, jax.Array, jax.Array], jax.Array]
# Primitives that call a program, which is searched for products, too
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}


class WeightProduct(NamedTuple):
    """W X: W [rows, inner] is the argument `weights` of the program, X has so many columns."""

    weights: int
    rows: int
    inner: int
    columns: int


def products(program: ClosedJaxpr, weights: int) -> list[WeightProduct]:
    """The products of a program whose first arguments are so many arrays of weights."""
    found: list[WeightProduct] = []

    def note(number: int, W: jax.Array, X: jax.Array) -> jax.Array:
        rows, inner = W.shape
        found.append(WeightProduct(number, rows, inner, 1 if X.ndim == 1 else X.shape[1]))
        return W @ X

    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.invars]
    jax.eval_shape(lambda *args: evaluate(program, args, weights, note), *shapes)
    return found


def evaluate(
    program: ClosedJaxpr, args: Sequence[Any], weights: int, multiply: Multiply
) -> list[Any]:
    """The results of a program, in which `multiply` computes the products of its weights."""
    shared = {v: i for i, v in enumerate(program.jaxpr.invars[:weights])}
    return _evaluate(program, args, shared, multiply)


def _evaluate(
    program: ClosedJaxpr, args: Sequence[Any], shared: dict[Any, int], multiply: Multiply
) -> list[Any]:
    jaxpr = program.jaxpr
    env = dict(zip(jaxpr.constvars, program.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, [read(atom) for atom in equation.invars]
        inner = [None if isinstance(a, Literal) else shared.get(a) for a in equation.invars]
        weights = _weights(equation, inner)
        if weights is not None:
            made: Any = [multiply(weights, *given)]
        elif name in CALLS:
            with jax.named_scope(_scope(equation)):
                made = _called(equation.params[CALLS[name]], given, inner, multiply)
        elif name == "cond":
            with jax.named_scope(_scope(equation)):
                sides = [
                    _called(side, given[1:], inner[1:], multiply)
                    for side in equation.params["branches"]
                ]
                made = [_chosen(given[0], values) for values in zip(*sides, strict=True)]
        else:
            with jax.named_scope(_scope(equation)):
                made = _bound(equation, given)
        env.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _called(
    program: ClosedJaxpr, given: list[Any], numbers: list[int | None], multiply: Multiply
) -> list[Any]:
    """A program that the program calls."""
    passed = zip(program.jaxpr.invars, numbers, strict=True)
    shared = {variable: number for variable, number in passed if number is not None}
    return _evaluate(program, given, shared, multiply)


def _chosen(index: Any, values: tuple[Any, ...]) -> Any:
    """The value that an index selects.

    Records in lanes need all sides of a branch. In a branch the derivative of a side gets what the
    side computed as numbers of the program, also where these are constants.
    """
    if len(values) == 2:
        return jnp.where(index > 0, values[1], values[0])
    return jax.lax.select_n(jnp.clip(index, 0, len(values) - 1), *values)


def _weights(equation: Any, numbers: list[int | None]) -> int | None:
    """The number of the weights, if an equation is a product of them."""
    if equation.primitive.name != "dot_general" or numbers[1] is not None:
        return None
    W, X = (atom.aval for atom in equation.invars)
    alike = equation.params["dimension_numbers"] == (((1,), (0,)), ((), ()))
    return numbers[0] if alike and W.ndim == 2 and X.ndim in (1, 2) else None


def _bound(equation: Any, given: list[Any]) -> list[Any]:
    params = equation.primitive.get_bind_params(equation.params)
    made = equation.primitive.bind(*given, **params)
    return made if equation.primitive.multiple_results else [made]


def _scope(equation: Any) -> str:
    """The name under which a part of the program was written."""
    return str(equation.source_info.name_stack).replace("/", ".") or "step"


@jax.custom_vjp
def known_product(W: jax.Array, X: jax.Array, Y: jax.Array, tap: jax.Array) -> jax.Array:
    """Y, which is W X: the derivative by `tap` is that by Y, and by W there is none."""
    return Y


def _backward(W: jax.Array, bar: jax.Array) -> tuple[Any, ...]:
    return jnp.zeros_like(W), W.T @ bar, jnp.zeros_like(bar), bar


known_product.defvjp(lambda W, X, Y, tap: (Y, W), _backward)
