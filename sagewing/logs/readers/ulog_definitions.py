"""The message formats that a ULog defines, checked before a parser uses them.

A format may contain others, and arrays of others: a few hundred bytes can describe a message of
terabytes, which a parser would lay out field by field. Anything else than a format is refused, so
that the parser reads only definitions that were checked.
"""

import re
import struct
from pathlib import Path
from typing import NamedTuple

from sagewing.errors import InputError
from sagewing.logs.readers.text_table import printable

HEADER_BYTES = 16
# A message has its size in two bytes.
LARGEST_MESSAGE = 0xFFFF
# PX4's formats are nested three deep, with names of at most 64 letters: a parser puts the names of
# all outer fields before that of each inner one.
DEEPEST, LONGEST_NAME = 16, 128
SIZES = {"int8_t": 1, "uint8_t": 1, "bool": 1, "char": 1, "int16_t": 2, "uint16_t": 2}
SIZES |= {"int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "double": 8}
NAME = rf"[A-Za-z0-9_/-]{{1,{LONGEST_NAME}}}"
FORMAT = re.compile(rf"({NAME}):([^:]*)")
FIELD = re.compile(rf"({NAME})(?:\[([1-9][0-9]{{0,4}})\])? {NAME}")
# The kinds of messages among the definitions, and those that end them. A parser skips other kinds;
# at an impossible kind or size it searches for the next message byte by byte.
DEFINITIONS, DATA = b"BFIMPQ", b"ALC"
LARGEST_UNKNOWN = 10_000
Fields = list[tuple[str, int]]


class _Layout(NamedTuple):
    """The bytes and fields of a format with its inner formats, and how deep they are nested."""

    size: int
    fields: int
    depth: int


def check_formats(path: Path) -> dict[str, int]:
    """The number of fields of each format, with those of its inner formats.

    Refuses a ULog that defines a message that is too large, or one that contains itself.
    """
    formats = _formats(path)
    known: dict[str, _Layout] = {}

    def layout(name: str, outer: tuple[str, ...]) -> _Layout:
        if name in SIZES:
            return _Layout(SIZES[name], 1, 0)
        if name in outer:
            raise InputError(f"{path}: the format {name} holds itself; it is damaged.")
        if name not in known and len(outer) <= DEEPEST:
            inner = [(n, layout(kind, (*outer, name))) for kind, n in formats.get(name, ())]
            known[name] = _Layout(
                max(1, sum(n * one.size for n, one in inner)),
                max(1, sum(n * one.fields for n, one in inner)),
                1 + max((one.depth for _, one in inner), default=0),
            )
        if name not in known or known[name].depth > DEEPEST:
            raise InputError(
                f"{path}: the format {name} holds others more than {DEEPEST} deep; it is damaged, "
                "or made to fill the memory."
            )
        if known[name].size > LARGEST_MESSAGE:
            raise InputError(
                f"{path}: the format {name} claims {known[name].size} bytes, more than a message "
                "can have; it is damaged, or made to fill the memory."
            )
        return known[name]

    return {name: layout(name, ()).fields for name in formats}


def _formats(path: Path) -> dict[str, Fields]:
    """The fields of each format, as a type and a count."""
    formats: dict[str, Fields] = {}
    with path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while len(head := file.read(3)) == 3:
            length, kind = struct.unpack("<Hc", head)
            if kind in DATA:
                break
            body = file.read(length)
            unknown = kind not in DEFINITIONS and not 0 < length <= LARGEST_UNKNOWN
            if len(body) < length or unknown or kind == b"\0":
                raise InputError(
                    f"{path}: its definitions are cut off or damaged; copy it from the vehicle "
                    "again."
                )
            if kind == b"F":
                name, fields = _format(body, path)
                formats[name] = fields
    return formats


def _format(body: bytes, path: Path) -> tuple[str, Fields]:
    text = body.decode("ascii", "replace")
    found = FORMAT.fullmatch(text)
    if found is None:
        raise InputError(f"{path}: {printable(text)!r} is no format; it is damaged.")
    fields: Fields = []
    for field in filter(None, found[2].split(";")):
        parts = FIELD.fullmatch(field)
        if parts is None:
            raise InputError(
                f"{path}: the format {found[1]} has a field {printable(field)!r}; "
                'expected "type name" or "type[count] name". It is damaged.'
            )
        fields.append((parts[1], int(parts[2] or 1)))
    return found[1], fields
