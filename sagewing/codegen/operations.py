"""The elementwise operations that C knows: how each is written and what it gives for constants."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

# A number is real, an integer of 32 bits ("int") or of 64 ("long"), or a flag.
Kind = Literal["real", "int", "long", "bool"]
# The bits of the integers, and the types of JAX that are of a kind.
BITS = {"int": 32, "long": 64}
TYPES: dict[Kind, Any] = {"int": np.int32, "long": np.int64, "bool": np.bool_}


class Operation(NamedTuple):
    """The C text, with a place for each operand, and `fold`, the same on constants.

    Without a `kind` the result is of the kind of the last operand. `helper` is the C function that
    the text calls, if it is one of `helpers.py`.
    """

    text: str
    fold: Callable[..., Any]
    kind: Kind | None = None
    helper: str | None = None


def _call(
    name: str, fold: Callable[..., Any], kind: Kind | None = "real", operands: int = 1
) -> Operation:
    places = ", ".join(f"{{{i}}}" for i in range(operands))
    return Operation(f"sw_{name}({places})", fold, kind, f"sw_{name}")


def _logistic(x: Any) -> Any:
    return type(x)(1.0) / (type(x)(1.0) + np.exp(-x))


def _erf(x: Any) -> Any:
    return type(x)(math.erf(x))


def _power(x: Any, y: Any) -> Any:
    return np.power(x, y)


def wrapped(value: int, kind: Kind) -> int:
    """An integer in the bits of its kind: an overflow wraps around."""
    half = 1 << (BITS[kind] - 1)
    return (value + half) % (2 * half) - half


def _rounded_away(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x) if np.isfinite(x) else x


def _larger(a: Any, b: Any) -> Any:
    """The maximum, where +0 is above -0."""
    return a if a > b or a != a or (a == b and not np.signbit(a)) else b


def _smaller(a: Any, b: Any) -> Any:
    """The minimum, where -0 is below +0."""
    return a if a < b or a != a or (a == b and np.signbit(a)) else b


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero; -1 where b is zero, as in XLA."""
    return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


# Functions of libm, and numpy's names for them.
LIBM = {
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
}

OPERATIONS: dict[str, Operation] = {
    **{name: _call(name, fold) for name, fold in LIBM.items()},
    "abs": _call("fabs", np.abs),
    "logistic": _call("logistic", _logistic),
    "round": _call("rint", np.rint),  # half to even
    "round_away": _call("round", _rounded_away),
    "sign": _call("sign", np.sign),
    "atan2": _call("atan2", np.arctan2, "real", 2),
    "pow": _call("pow", _power, "real", 2),
    "rem": _call("fmod", np.fmod, "real", 2),
    "add": Operation("{0} + {1}", np.add),
    "sub": Operation("{0} - {1}", np.subtract),
    "mul": Operation("{0} * {1}", np.multiply),
    "div": Operation("{0} / {1}", np.divide, "real"),
    "neg": Operation("-{0}", np.negative),
    "max": _call("max", _larger, None, 2),
    "min": _call("min", _smaller, None, 2),
    "eq": Operation("{0} == {1}", np.equal, "bool"),
    "ne": Operation("{0} != {1}", np.not_equal, "bool"),
    "lt": Operation("{0} < {1}", np.less, "bool"),
    "le": Operation("{0} <= {1}", np.less_equal, "bool"),
    "gt": Operation("{0} > {1}", np.greater, "bool"),
    "ge": Operation("{0} >= {1}", np.greater_equal, "bool"),
    "and": Operation("{0} && {1}", np.logical_and, "bool"),
    "or": Operation("{0} || {1}", np.logical_or, "bool"),
    "not": Operation("!{0}", np.logical_not, "bool"),
    "is_finite": Operation("(isfinite({0}) != 0)", np.isfinite, "bool"),
    "select": Operation("{0} ? {1} : {2}", lambda c, a, b: a if c else b),
    "to_real": Operation("(sw_real){0}", lambda x: x, "real"),
    "quotient": _call("quotient", _quotient, None, 2),
    "remainder": _call("remainder", _remainder, None, 2),
    "quotient_of_longs": _call("quotient_of_longs", _quotient, None, 2),
    "remainder_of_longs": _call("remainder_of_longs", _remainder, None, 2),
    "to_int": _call("to_int", lambda x: x, "int"),
    "to_long": _call("to_long", lambda x: x, "long"),
}
COMMUTATIVE = {"add", "mul", "max", "min", "eq", "ne", "and", "or"}
