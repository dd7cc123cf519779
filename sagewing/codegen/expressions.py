"""C expressions: their text, how tightly they bind, and the arrays that they read."""

from collections.abc import Sequence
from typing import NamedTuple

from sagewing.codegen.memory import MARKED, NO_ARRAYS, Array

# How tightly an operation binds in C, and how tightly its operands must. NAME: a name, a constant
# or an entry of an array, which may be written more than once; CALL: a call, or parentheses.
NAME = 11
CALL = 10
COMPARED = (5, (6, 6))
BINDING = {
    **dict.fromkeys(("neg", "not", "to_real"), (8, (9,))),
    **dict.fromkeys(("mul", "div"), (7, (7, 8))),
    **dict.fromkeys(("add", "sub"), (6, (6, 7))),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), COMPARED),
    "and": (3, (4, 4)),
    "or": (2, (4, 4)),
    "select": (1, (4, 2, 2)),
}


class Expression(NamedTuple):
    """The text of a number, how tightly it binds, and the arrays of the function that it reads."""

    text: str
    binding: int
    arrays: frozenset[Array] = NO_ARRAYS

    @property
    def length(self) -> int:
        """The number of characters, without the two marks around each name of an array."""
        return len(self.text) - 2 * self.text.count(MARKED[0])

    def at_least(self, binding: int) -> str:
        """The text as an operand of an operation that binds so tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


class Template(NamedTuple):
    """The text of an operation with a place for each operand, and how tightly all of them bind.

    `helper` is the function of `helpers.py` that the text calls, if any.
    """

    text: str
    binding: int
    operands: tuple[int, ...]
    helper: str | None = None

    def of(self, operands: Sequence[Expression]) -> Expression:
        """The operation on these operands."""
        texts = [e.at_least(n) for e, n in zip(operands, self.operands, strict=True)]
        return Expression(self.text.format(*texts), self.binding, arrays_of(operands))


def arrays_of(expressions: Sequence[Expression]) -> frozenset[Array]:
    """All arrays that some expressions read."""
    return NO_ARRAYS.union(*(e.arrays for e in expressions))


def integer(value: int) -> str:
    """An integer in C, which has no negative constants: the smallest integer is a difference."""
    if abs(value) < 2**31:
        return str(value)
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return f"INT64_C({value})" if value > 0 else f"(-INT64_C({-(value + 1)}) - 1)"
