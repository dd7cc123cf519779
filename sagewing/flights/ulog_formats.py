"""What the definitions of a ULog claim, looked at before a parser believes them.

A format may hold others, and arrays of others: a few hundred bytes can describe a message of
terabytes, which a parser would lay out field by field.
"""

import re
import struct
from pathlib import Path

from sagewing.errors import InputError
from sagewing.flights.tables import printable

HEADER_BYTES = 16
# A message says its size in two bytes.
LARGEST_MESSAGE = 0xFFFF
SIZES = {"int8_t": 1, "uint8_t": 1, "bool": 1, "char": 1, "int16_t": 2, "uint16_t": 2}
SIZES |= {"int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "double": 8}
FIELD = re.compile(r"\s*(\w+)(?:\[(\d{1,9})\])?\s+\S+\s*")
# Definitions end where data begin.
DATA = b"ADLCSO"
Fields = list[tuple[str, int]]


def check_formats(path: Path) -> None:
    """Refuse a ULog that defines a message larger than a message can be, or one within itself."""
    formats = _formats(path)
    sizes: dict[str, int] = {}

    def size(name: str, outer: tuple[str, ...]) -> int:
        if name in outer:
            raise InputError(f"{path}: the format {printable(name)} holds itself; it is damaged.")
        if name in SIZES or name not in formats:
            return SIZES.get(name, 1)
        if name not in sizes:
            sizes[name] = sum(n * size(kind, (*outer, name)) for kind, n in formats[name])
        if sizes[name] > LARGEST_MESSAGE:
            raise InputError(
                f"{path}: the format {printable(name)} claims {sizes[name]} bytes, more than a "
                "message can have; it is damaged, or made to fill the memory."
            )
        return sizes[name]

    for name in formats:
        size(name, ())


def _formats(path: Path) -> dict[str, Fields]:
    """The fields of each format, as a type and how many."""
    formats: dict[str, Fields] = {}
    with path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while len(head := file.read(3)) == 3:
            length, kind = struct.unpack("<Hc", head)
            if kind in DATA:
                break
            body = file.read(length)
            if kind == b"F":
                name, _, fields = body.decode("utf-8", "replace").partition(":")
                found = (FIELD.fullmatch(field) for field in fields.split(";"))
                formats[name] = [(f[1], int(f[2] or 1)) for f in found if f]
    return formats
