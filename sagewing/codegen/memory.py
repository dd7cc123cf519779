"""The statements of a C function, and the memory of its arrays.

Arrays that are never needed at the same time share their memory: the stack of a flight computer is
small, and what fits into the first cache is read faster.
"""

from collections.abc import Sequence
from typing import NamedTuple

INDENT = "    "
# The name of an array in the text of a statement, until it is known in whose memory it lies.
MARKED = "‹{}›"


class Array(NamedTuple):
    """An array of `sw_real` that a function declares."""

    name: str
    size: int

    @property
    def text(self) -> str:
        """The array in the text of a statement."""
        return MARKED.format(self.name)


NO_ARRAYS: frozenset[Array] = frozenset()


class Statement(NamedTuple):
    """A line of C at some depth of indentation, and the arrays that it reads or writes.

    A line may declare an array instead.
    """

    depth: int
    text: str
    arrays: frozenset[Array] = NO_ARRAYS
    declares: Array | None = None

    def indented(self, levels: int = 1) -> "Statement":
        """The same statement further to the right."""
        return self._replace(depth=self.depth + levels)

    def line(self, owners: dict[Array, Array] | None = None) -> str:
        """The text; the memory of an array is that of its owner, or else its own."""
        text = self.text
        for array in self.arrays:
            text = text.replace(array.text, (owners or {}).get(array, array).name)
        return INDENT * self.depth + text


class Shared(NamedTuple):
    """The lines of a function, and how many numbers fewer its arrays hold."""

    lines: list[str]
    saved: int


class _Lifetime(NamedTuple):
    """The first and the last statement that use an array."""

    array: Array
    first: int
    last: int


def lines(statements: Sequence[Statement]) -> list[str]:
    """The lines of a function in which every array has memory of its own."""
    return [statement.line() for statement in statements]


def shared(statements: Sequence[Statement], kind: str = "sw_real") -> Shared:
    """The lines of a function in which an array takes the memory of one that is no longer used.

    Both have the same size, hold numbers of this kind, and are declared in the function's body. The
    only loops are within a statement, so an array is no longer used after the last statement that
    names it.
    """
    declarations = {s.declares for s in statements if s.declares is not None and s.depth == 1}
    used: dict[Array, list[int]] = {}
    for i, statement in enumerate(statements):
        for array in statement.arrays & declarations:
            used.setdefault(array, []).append(i)
    lifetimes = [_Lifetime(array, min(at), max(at)) for array, at in used.items()]
    owners: dict[Array, Array] = {}
    last_use: dict[Array, int] = {}  # of the memory that each owner declares
    for array, first, last in sorted(lifetimes, key=lambda one: one.first):
        free = [o for o, end in last_use.items() if o.size == array.size and end < first]
        owner = owners[array] = min(free, key=last_use.__getitem__, default=array)
        last_use[owner] = last
    kept = [declaration(1, owner, kind).line() for owner in last_use]
    rest = [s.line(owners) for s in statements if s.declares not in declarations]
    saved = sum(array.size for array in declarations) - sum(owner.size for owner in last_use)
    return Shared([*kept, *rest], saved)


def declaration(depth: int, array: Array, kind: str = "sw_real") -> Statement:
    """The declaration of an array."""
    return Statement(depth, f"{kind} {array.name}[{array.size}];", declares=array)
