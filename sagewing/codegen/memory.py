"""Arrays of a C function that are never needed at the same time share their memory.

A flight computer's stack is small, and what is in the first cache is read faster.
"""

import re
from typing import NamedTuple

DECLARED = re.compile(r"    sw_real (v\d+)\[(\d+)\];")
NAME = re.compile(r"\bv\d+\b")


class Shared(NamedTuple):
    """The statements, and how many numbers less they hold."""

    lines: list[str]
    saved: int


class _Array(NamedTuple):
    """An array of the function's body, and the first and last line that it is used in."""

    name: str
    size: int
    first: int
    last: int


def shared(lines: list[str]) -> Shared:
    """The same statements; an array takes the place of one of its size that is done with.

    There is no way back in a step but loops of one line, so what was used last above is done with.
    """
    found = [DECLARED.fullmatch(line) for line in lines]
    sizes = {match[1]: int(match[2]) for match in found if match}
    used: dict[str, list[int]] = {name: [] for name in sizes}
    for i, line in enumerate(lines):
        for name in set(NAME.findall(line)) & used.keys():
            if found[i] is None:
                used[name].append(i)
    arrays = [_Array(n, sizes[n], min(at), max(at)) for n, at in used.items() if at]
    # Who has an array's memory: the name that it is declared under, and until when
    owners: dict[str, str] = {}
    taken: dict[str, int] = {}
    for array in sorted(arrays, key=lambda array: array.first):
        free = [n for n, last in taken.items() if sizes[n] == array.size and last < array.first]
        owner = owners[array.name] = min(free, key=taken.__getitem__, default=array.name)
        taken[owner] = array.last
    kept = [f"    sw_real {name}[{sizes[name]}];" for name in taken]
    rest = [line for line, match in zip(lines, found, strict=True) if match is None]
    renamed = [NAME.sub(lambda m: owners.get(m[0], m[0]), line) for line in rest]
    saved = sum(sizes.values()) - sum(sizes[name] for name in taken)
    return Shared([*kept, *renamed], saved)
