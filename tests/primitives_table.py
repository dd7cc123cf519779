"""The operations that random programs are made of: at least one for each primitive of a rule."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Operation(NamedTuple):
    """What a step of a program may do.

    `make` gives a function for operands of some shapes. `operands` lists the kinds of the operands,
    alternatives of equal length (f real, i and l integers, b flag); `ulps` is None where the
    result has the same bits everywhere, else by how much it may differ, and `in_double` by how
    much in double precision, where that is more. `scale` says relative to what, given the size of
    the result, and `overflows` in which runs the order of the operation decides whether it
    overflows on the way. The order of `terms` also decides the sign of a zero. A function that
    `reads_bits` does not take its operand for zero where it is below the smallest normal number;
    so many of these as `flushed` says may be lost where XLA takes a result for zero. All operands
    have the same shape; the `last` may have to be an argument of the program.
    """

    make: Callable[..., Callable[..., Any]]
    operands: tuple[str, ...]
    ulps: float | None = None
    in_double: float | None = None
    scale: Callable[..., Any] | None = None
    overflows: Callable[..., Any] | None = None
    terms: bool = False
    reads_bits: bool = False
    flushed: float = 1
    last: str = "any"
    ndim: tuple[int, ...] = (0, 1, 2)

    def kinds(self, dtype: np.dtype) -> list[list[str]]:
        """The kinds of operands in a precision: integers of 64 bits are those of double alone."""
        fit = [kinds for kinds in self.operands if "l" not in kinds or dtype == np.float64]
        return [list(kinds) for kinds in fit]

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an operand may have this shape."""
        return len(shape) in self.ndim

    def exact(self, dtype: np.dtype, result: np.dtype) -> bool:
        """Whether the result has the same bits everywhere: integers always have."""
        return self.ulps is None or result.kind != "f"


def plain(function: Callable[..., Any], *operands: str, **rest: Any) -> Operation:
    """The same function whatever the shapes."""
    return Operation(lambda rng, dtype, *shapes: function, operands, **rest)


REAL, NUMBERS, ALL = ("f",), ("f", "i", "l"), ("f", "i", "l", "b")
UNARY = [
    *(
        plain(f, *REAL)
        for f in (lax.floor, lax.ceil, lax.sqrt, lax.is_finite, lax.optimization_barrier)
    ),
    *(plain(f, *NUMBERS) for f in (lax.neg, lax.abs, lax.sign, lax.square)),
    plain(lax.bitwise_not, "b"),
    plain(jnp.copy, *ALL),
    plain(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), "f"),
    plain(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), "f"),
    plain(
        lambda x: (
            lax.reduce_precision(x, 8, 23)
            if x.dtype == np.float32
            else lax.reduce_precision(x, 11, 52)
        ),
        "f",
    ),
]


def _by_argument(size: np.ndarray, x: np.ndarray) -> np.ndarray:
    """An error of rounding in the argument of exp grows with the argument."""
    return size * (1 + np.abs(x.astype(np.longdouble)))


def _divided(x, y):
    """XLA multiplies by the reciprocal of a divisor that all runs share; this hides that it is."""
    return lax.div(x, lax.select(x == x, y, lax.optimization_barrier(y)))


INEXACT = [
    *(plain(f, "f", ulps=4) for f in (lax.exp, lax.expm1, lax.sin, lax.cos)),
    # XLA takes twice the atan of half the argument, and the half may be flushed to zero
    plain(lax.asin, "f", ulps=4, flushed=2),
    *(plain(f, "f", ulps=4) for f in (lax.acos, lax.cbrt, lax.rsqrt)),
    *(plain(f, "f", ulps=6) for f in (lax.atan, lax.tanh, lax.erf, lax.tan, lax.logistic)),
    plain(lax.log, "f", ulps=4, reads_bits=True),
    # XLA's own log1p loses digits around -0.414 in double precision: 120 ulps
    plain(lax.log1p, "f", ulps=4, in_double=150),
    *(plain(f, "f", ulps=4) for f in (lax.asinh, lax.acosh)),
    plain(lax.atanh, "f", ulps=4, in_double=100),  # made of log1p
    # XLA rounds x log 2 before exp2 takes exp of it, and x - log 2 before sinh and cosh do
    plain(lax.exp2, "f", ulps=2, scale=_by_argument),
    plain(lax.sinh, "f", ulps=6, scale=_by_argument),
    plain(lax.cosh, "f", ulps=2, scale=_by_argument),
]
PAIRS = tuple(kind * 2 for kind in ALL)
BINARY = [
    *(plain(f, "ff", "ii", "ll") for f in (lax.add, lax.sub, lax.mul)),
    *(plain(f, "ff") for f in (_divided, lax.rem)),
    # XLA's compiler crashes where it divides known integers by zero
    plain(
        lambda x, y: lax.div(x, lax.convert_element_type(y, x.dtype)), "ii", "li", last="argument"
    ),
    plain(
        lambda x, y: lax.rem(x, lax.convert_element_type(y, x.dtype)), "ii", "li", last="argument"
    ),
    *(plain(f, *PAIRS) for f in (lax.max, lax.min, lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)),
    *(plain(f, "bb") for f in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor)),
    *(plain(f, "ff", ulps=4) for f in (lax.atan2, lax.pow)),
    plain(lambda x, y: lax.pow(x, y), "fi", ulps=4),
    # JAX has no vmap of a scalar clamp whose operand is known
    plain(lambda x, low, high: lax.clamp(low, x, high), "fff", "iii", "lll", ndim=(1, 2)),
    plain(lambda flag, a, b: lax.select_n(flag, a, b), "bff", "bii", "bll", "bbb"),
    plain(
        lambda i, a, b, c: lax.select_n(lax.clamp(np.int32(0), i, np.int32(2)), a, b, c),
        "ifff",
        "ibbb",
    ),
]


def _constant(rng: Any, dtype: np.dtype) -> Callable[..., Any]:
    """Numbers that are known before the program runs, zeros and ones above all."""
    shape = [(), (3,), (9,), (2, 3), (9, 2)][rng.integers(5)]
    kind = rng.choice(["f", "f", "i", "b", "l" if dtype == np.float64 else "i"])
    types = {"f": dtype, "i": np.int32, "l": np.int64, "b": np.bool_}
    numbers = [0, 1, -1, 2, 5, -3]
    if kind == "f":
        numbers = [0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e30, 3.25]
    filled = (
        rng.choice(numbers, shape) if rng.random() < 0.5 else np.full(shape, rng.choice(numbers))
    )
    array = np.asarray(filled).astype(types[kind])
    return lambda: jnp.asarray(array)


def _integer_pow(rng: Any, dtype: np.dtype, shape: Any) -> Callable[..., Any]:
    y = int(rng.integers(-4, 7))
    return lambda x: lax.integer_pow(x, abs(y) if x.dtype.kind == "i" else y)


def _convert(rng: Any, dtype: np.dtype, shape: Any) -> Callable[..., Any]:
    kinds = [dtype, np.bool_, np.int32, *([np.int64] if dtype == np.float64 else [])]
    to = kinds[rng.integers(len(kinds))]
    return lambda x: lax.convert_element_type(x, to)


def _along(function: Callable[..., Any], **rest: Any) -> Callable[..., Any]:
    """A function of an axis, with a random one."""

    def make(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Callable[..., Any]:
        axis = int(rng.integers(len(shape)))
        given = {k: v(rng) for k, v in rest.items()}
        return lambda x: function(x, axis=axis, **given)

    return make


def _index(rng: Any) -> Any:
    return jnp.int32


def _coin(rng: Any) -> bool:
    return bool(rng.random() < 0.5)


def _sum(x, axis):
    return jnp.sum(x, axis=axis, dtype=x.dtype)


def _prod(x, axis):
    return jnp.prod(x, axis=axis, dtype=x.dtype)


def _matrix(rng: Any, dtype: np.dtype, *shapes: Any) -> Callable[..., Any]:
    """A product with a constant matrix, with zeros in it, or between two vectors."""
    if len(shapes) == 2:
        return lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))
    rows = int(rng.integers(1, 13))
    matrix = rng.choice([0.0, 0.0, 1.0, -2.0, 0.25], (rows, shapes[0][0])).astype(dtype)
    return lambda x: lax.dot_general(matrix.astype(x.dtype), x, (((1,), (0,)), ((), ())))


def _size_of_sum(*operands: np.ndarray) -> np.ndarray:
    """The sum of the sizes of what is finite, with room for a matrix's entries."""
    sizes = [np.where(np.isfinite(x), np.abs(x.astype(np.longdouble)), 1) for x in operands]
    return np.sum(sizes[0] * (sizes[1] if len(sizes) > 1 else 2), axis=1)


def _by_sum(size: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    return _size_of_sum(*operands).reshape(-1, *(1,) * (size.ndim - 1))


def _sum_overflows(*operands: np.ndarray) -> np.ndarray:
    return _size_of_sum(*operands) > np.finfo(operands[0].dtype).max / 2


def _product_overflows(x: np.ndarray) -> np.ndarray:
    exponents = np.abs(np.frexp(np.where(np.isfinite(x), x, 1))[1])
    return np.sum(exponents, axis=1) > np.finfo(x.dtype).maxexp - 8


def _moved(way: str) -> Callable[..., Any]:
    """Numbers that are moved about, in one of the ways below."""

    def make(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Callable[..., Any]:
        start = int(rng.integers(shape[0]))
        index = rng.integers(0, shape[0], 4)
        low, high, inside = (int(n) for n in rng.integers((-1, -1, 0), (3, 3, 2)))
        rest = len(shape) - 1
        config = ((low, high, inside), *(((0, 0, 0),) * rest))
        corner = (start, *(0,) * rest)
        return lambda x: WAYS[way](x, start, index, config, corner)

    return make


# Each of an array, a place, some places, a padding and a corner
WAYS: dict[str, Callable[..., Any]] = {
    "reshape": lambda x, *_: lax.reshape(x, (1, x.size)),
    "broadcast": lambda x, *_: lax.broadcast_in_dim(x[0], (2, *x.shape[1:]), range(1, x.ndim)),
    "transpose": lambda x, *_: lax.transpose(x if x.ndim == 2 else x[None], (1, 0)),
    "slice": lambda x, start, index, config, corner: lax.slice(x, corner, x.shape),
    "strides": lambda x, *_: lax.slice(x, (0,) * x.ndim, x.shape, (2,) * x.ndim),
    "tile": lambda x, *_: lax.tile(x, (2,) + (1,) * (x.ndim - 1)),
    "rev": lambda x, *_: lax.rev(x, (0,)),
    "concatenate": lambda x, *_: lax.concatenate([x, x], 0),
    "stack": lambda x, *_: jnp.stack([x[0], x[-1]], 0),
    "unstack": lambda x, *_: jnp.unstack(x, axis=0)[-1],
    "split": lambda x, start, *_: lax.split(x, (start, x.shape[0] - start), 0)[1],
    "pad": lambda x, start, index, config, corner: lax.pad(x, jnp.asarray(1, x.dtype), config),
    "gather": lambda x, start, index, *_: x[index],
    "squeeze": lambda x, start, *_: lax.squeeze(x[start : start + 1], (0,)),
    "scatter": lambda x, start, index, *_: x.at[index].set(x[0]),
    "update": lambda x, start, i, c, corner: lax.dynamic_update_slice(x, x[:1], corner),
    "piece": lambda x, start, i, c, corner: lax.dynamic_slice(x, corner, (1, *x.shape[1:])),
    "cond": lambda x, start, *_: lax.cond(start > 0, lambda y: y[::-1], lambda y: y, x),
    "scan": lambda x, *_: lax.scan(lambda last, row: (row, last), x[0], x)[1],
    "platform": lambda x, *_: lax.platform_dependent(x, cpu=lambda y: y[::-1], default=lambda y: y),
}


def _iota(rng: Any, dtype: np.dtype) -> Callable[..., Any]:
    kinds = [dtype, np.int32, *([np.int64] if dtype == np.float64 else [])]
    kind, axis = kinds[rng.integers(len(kinds))], int(rng.integers(2))
    return lambda: lax.broadcasted_iota(kind, (2, 3), axis)


def _scatter_add(rng: Any, dtype: np.dtype, shape: Any) -> Callable[..., Any]:
    index = rng.permutation(shape[0])[:2]
    return lambda x: x.at[index].add(x[:2])


def _of_branches(flag, x, y):
    return lax.cond(flag, lambda a, b: lax.max(a, b), lambda a, b: b, x, y)


def _switched(i, x, y):
    ways = (lambda a, b: a, lambda a, b: lax.neg(b), lambda a, b: lax.max(a, b))
    return lax.switch(i, ways, x, y)


def _dynamic_slice(i, x):
    return lax.dynamic_slice(x, (i, *(jnp.zeros_like(i),) * (x.ndim - 1)), (1, *x.shape[1:]))


def _searched(side: str) -> Callable[..., Any]:
    table = np.array([-2.0, -1.0, 0.0, 0.5, 3.0])
    return lambda x: jnp.searchsorted(jnp.asarray(table, x.dtype), x, side=side)


def _factor(i, j):
    """Of a matrix of small integers, positive definite or not."""
    small = lax.rem(j, np.int32(4)).astype(jnp.result_type(float))
    size = 8.0 * lax.sign(i).astype(small.dtype)
    return jnp.linalg.cholesky(
        small[:, None] * small[None] + size * jnp.eye(len(j)), symmetrize_input=False
    )


def _derivative(x, y):
    return jax.jvp(lambda v: v * v, (x,), (y,))[1]


MOVING = (1, 2)
# At most 30 terms, each rounded once, in any order, and each perhaps flushed to zero
SUM: dict[str, Any] = dict(ulps=30, scale=_by_sum, overflows=_sum_overflows, terms=True, flushed=30)
PRODUCT: dict[str, Any] = dict(ulps=30, overflows=_product_overflows)
OPERATIONS: list[Operation] = [
    *UNARY,
    *INEXACT,
    *BINARY,
    *(Operation(_constant, ("",)) for _ in range(6)),
    *(Operation(_convert, ALL) for _ in range(4)),
    Operation(_integer_pow, NUMBERS, ulps=4),
    *(Operation(_along(f, index_dtype=_index), ALL, ndim=MOVING) for f in (lax.argmax, lax.argmin)),
    Operation(_along(_sum), NUMBERS, **SUM, ndim=(1,)),
    Operation(_along(_prod), NUMBERS, **PRODUCT, ndim=(1,)),
    *(Operation(_along(f), ALL, ndim=MOVING) for f in (jnp.max, jnp.min)),
    *(Operation(_along(f), ("b",), ndim=MOVING) for f in (jnp.all, jnp.any)),
    Operation(_along(lax.cumsum, reverse=_coin), NUMBERS, **SUM, ndim=(1,)),
    Operation(_along(lax.cumprod, reverse=_coin), NUMBERS, **PRODUCT, ndim=(1,)),
    *(Operation(_along(f, reverse=_coin), NUMBERS, ndim=MOVING) for f in (lax.cummax, lax.cummin)),
    Operation(_matrix, NUMBERS, **SUM, ndim=(1,)),
    Operation(_matrix, ("ff", "ii", "ll"), **SUM, ndim=(1,)),
    *(Operation(_moved(way), ALL, ndim=MOVING) for way in WAYS),
    Operation(_iota, ("",)),
    Operation(_scatter_add, NUMBERS, ndim=MOVING),
    plain(lambda x, y: _of_branches(jnp.any(x == x), x, y), "ff", "ii", "ll"),
    plain(
        lambda flag, x: lax.cond(jnp.all(flag), lambda v: v, lambda v: v[::-1], x),
        "bf",
        "bi",
        "bb",
        ndim=(1,),
    ),
    plain(lambda i, x, y: _switched(jnp.max(i), x, y), "iff", "ill", ndim=(1,)),
    plain(lambda i, x: _dynamic_slice(jnp.min(i), x), "if", "lf", "ib", "il", ndim=MOVING),
    *(plain(_searched(side), "f", ndim=(0,)) for side in ("left", "right")),
    plain(lambda i: _factor(jnp.max(i), i[:3]), "i", ulps=8, ndim=(1,)),
    plain(_derivative, "ff"),
    plain(lax.stop_gradient, "f"),
]
