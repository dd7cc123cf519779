"""A long C function in pieces, which compilers finish in a time that grows with its length only.

Numbers that several pieces need, and arrays, lie in a memory that all of them are given.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sagewing.codegen.memory import INDENT

# A piece ends after so many characters.
PIECE = 40_000
DEFINED = re.compile(r"^    (const )?(sw_lanes|sw_ints) (v\d+(?:_\d+)?)(?:\[(\d+)\])?( = .*)?;$")
NAMES = re.compile(r"\bv\d+(?:_\d+)?\b")
MEMORY = {"sw_lanes": "memory", "sw_ints": "flags"}


class Pieces(NamedTuple):
    """The bodies of the pieces, and how many vectors and flags they share."""

    bodies: list[list[str]]
    memory: int
    flags: int


class _Variable(NamedTuple):
    kind: str
    piece: int
    constant: bool
    size: int | None


def in_pieces(lines: Sequence[str], most: int = PIECE) -> Pieces:
    """The lines of a function body in pieces, whose variables are those of `lanes.py`."""
    pieces = _cut(lines, most)
    variables: dict[str, _Variable] = {}
    last: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        for line in piece:
            found = DEFINED.match(line)
            if found:
                constant, kind, name, size, _ = found.groups()
                number = None if size is None else int(size)
                variables[name] = _Variable(kind, i, constant is not None, number)
            for name in NAMES.findall(line):
                last[name] = i
    kept = {
        name: variable
        for name, variable in variables.items()
        if variable.size is not None or last[name] > variable.piece
    }
    places, sizes = _places(kept, last)
    texts = {
        name: f"({MEMORY[v.kind]} + {places[name]})"
        if v.size is not None
        else f"{MEMORY[v.kind]}[{places[name]}]"
        for name, v in kept.items()
    }
    bodies = [
        [part for line in piece for part in _rewritten(line, i, kept, texts)]
        for i, piece in enumerate(pieces)
    ]
    return Pieces(bodies, sizes["sw_lanes"], sizes["sw_ints"])


def _cut(lines: Sequence[str], most: int) -> list[list[str]]:
    """Pieces that end between two statements of the function's body."""
    pieces: list[list[str]] = [[]]
    length = 0
    for line in lines:
        within = line.startswith(2 * INDENT) or line.startswith(f"{INDENT}}}")
        if length > most and not within:
            pieces.append([])
            length = 0
        pieces[-1].append(line)
        length += len(line)
    return pieces


def _places(
    kept: dict[str, _Variable], last: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Where each variable lies; one takes the place of another that is no longer used."""
    places: dict[str, int] = {}
    sizes = dict.fromkeys(MEMORY, 0)
    free: dict[str, list[tuple[int, int]]] = {kind: [] for kind in MEMORY}
    for name, variable in kept.items():
        if variable.size is not None:
            places[name] = sizes[variable.kind]
            sizes[variable.kind] += variable.size
            continue
        usable = free[variable.kind]
        at = next((i for i, (end, _) in enumerate(usable) if end < variable.piece), None)
        if at is None:
            places[name] = sizes[variable.kind]
            sizes[variable.kind] += 1
        else:
            places[name] = usable.pop(at)[1]
        usable.append((last[name], places[name]))
    return places, sizes


def _rewritten(
    line: str, piece: int, kept: dict[str, _Variable], texts: dict[str, str]
) -> list[str]:
    """A line in which the variables of other pieces are read from the memory."""
    found = DEFINED.match(line)
    own = found.group(3) if found else None

    def place(match: re.Match[str]) -> str:
        variable = kept.get(match[0])
        if variable is None or (variable.constant and variable.piece == piece):
            return match[0]
        return texts[match[0]]

    if found is None or own not in kept:
        return [NAMES.sub(place, line)]
    if kept[own].size is not None:
        return []
    if kept[own].constant:
        return [NAMES.sub(place, line), f"{INDENT}{texts[own]} = {own};"]
    if found.group(5) is None:
        return []
    return [f"{INDENT}{texts[own]}{NAMES.sub(place, found.group(5))};"]
