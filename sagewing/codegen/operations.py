"""The elementwise operations that C knows: how each is written and what it gives for constants."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

# A number is real, whole (of 32 bits, or "long": of 64) or a flag.
Kind = Literal["real", "int", "long", "bool"]
# The bits of whole numbers, and the types of JAX that are of a kind.
BITS = {"int": 32, "long": 64}
TYPES: dict[Kind, Any] = {"int": np.int32, "long": np.int64, "bool": np.bool_}


class Operation(NamedTuple):
    """The C text with a place for each operand, the same by numpy, and the kind of the result.

    Without a `kind` the result is of the kind of the last operand.
    """

    text: str
    fold: Callable[..., Any]
    kind: Kind | None = None


def _function(name: str, fold: Callable[..., Any]) -> Operation:
    return Operation(f"sw_{name}({{0}})", fold, "real")


def _logistic(x: Any) -> Any:
    return type(x)(1.0) / (type(x)(1.0) + np.exp(-x))


def _erf(x: Any) -> Any:
    return type(x)(math.erf(x))


def _power(x: Any, y: Any) -> Any:
    return np.power(x, y)


def whole(value: int, kind: Kind) -> int:
    """What is left of a whole number in its bits: an overflow wraps around."""
    half = 1 << (BITS[kind] - 1)
    return (value + half) % (2 * half) - half


def _rounded_away(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x) if np.isfinite(x) else x


def _larger(a: Any, b: Any) -> Any:
    """With +0 above -0."""
    return a if a > b or a != a or (a == b and not np.signbit(a)) else b


def _smaller(a: Any, b: Any) -> Any:
    return a if a < b or a != a or (a == b and np.signbit(a)) else b


def _quotient(a: int, b: int) -> int:
    """Towards zero, and as XLA has it where b is zero."""
    return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


# What libm has under its own name, and numpy's name for it.
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
    **{name: _function(name, fold) for name, fold in LIBM.items()},
    "abs": Operation("sw_fabs({0})", np.abs, "real"),
    "logistic": _function("logistic", _logistic),
    "round": Operation("sw_rint({0})", np.rint, "real"),  # half to even
    "round_away": Operation("sw_round({0})", _rounded_away, "real"),
    "sign": Operation("sw_sign({0})", np.sign, "real"),
    "atan2": Operation("sw_atan2({0}, {1})", np.arctan2, "real"),
    "pow": Operation("sw_pow({0}, {1})", _power, "real"),
    "rem": Operation("sw_fmod({0}, {1})", np.fmod, "real"),
    "add": Operation("{0} + {1}", np.add),
    "sub": Operation("{0} - {1}", np.subtract),
    "mul": Operation("{0} * {1}", np.multiply),
    "div": Operation("{0} / {1}", np.divide, "real"),
    "neg": Operation("-{0}", np.negative),
    "max": Operation("sw_max({0}, {1})", _larger),
    "min": Operation("sw_min({0}, {1})", _smaller),
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
    "quotient": Operation("sw_quotient({0}, {1})", _quotient),
    "remainder": Operation("sw_remainder({0}, {1})", _remainder),
    "quotient_of_longs": Operation("sw_quotient_of_longs({0}, {1})", _quotient),
    "remainder_of_longs": Operation("sw_remainder_of_longs({0}, {1})", _remainder),
    "to_int": Operation("sw_to_int({0})", lambda x: x, "int"),
    "to_long": Operation("sw_to_long({0})", lambda x: x, "long"),
}
COMMUTATIVE = {"add", "mul", "max", "min", "eq", "ne", "and", "or"}
