"""Text files of numbers: the names of their columns, and the columns."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError, shown

SAMPLE_ROWS = 2000
SNIFFED_BYTES = 1 << 16
# A file with longer lines is no text, one with more columns no table.
LONGEST_LINE = 1 << 15
MOST_COLUMNS = 1 << 12
LONGEST_NAME = 60


@dataclass(frozen=True)
class Table:
    """A text file of numbers; without a header its columns are named by their numbers."""

    path: Path
    names: tuple[str, ...]
    delimiter: str | None  # None: blanks
    skip: int  # lines before the first row

    @property
    def where(self) -> str:
        """The path, for messages."""
        return str(self.path)

    def columns(self, wanted: Sequence[str], rows: int | None = None) -> Float[np.ndarray, "n m"]:
        """These columns in this order, empty cells as NaN; only the first `rows`, if given."""
        places = [self._place(name) for name in wanted]
        try:
            with self.path.open(encoding="utf-8", errors="strict", newline=None) as file:
                lines = self._rows(file)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # no rows, which is refused below
                    values = np.loadtxt(
                        lines if rows is None else islice(lines, rows),
                        delimiter=self.delimiter,
                        usecols=places,
                        ndmin=2,
                        comments="#",
                    )
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}.") from None
        except InputError:
            raise
        except (ValueError, IndexError) as error:
            why = str(error).split("; use `usecols`")[0].rstrip(".")
            raise InputError(
                f"{self.path} is not a table of numbers in {shown(', '.join(wanted))}: {why}; "
                "correct or delete that row."
            ) from None
        if not len(values):
            raise InputError(f"{self.path} has no rows.")
        return values

    def _rows(self, file: TextIO) -> Iterator[str]:
        d = self.delimiter
        for line in islice(_lines(file, self.path), self.skip, None):
            if d is not None:
                line = line.strip()
                if not line:
                    continue
                # An empty cell is NaN.
                while d + d in line:
                    line = line.replace(d + d, f"{d}nan{d}")
                line = ("nan" if line.startswith(d) else "") + line
                line += "nan" if line.endswith(d) else ""
            yield line

    def _place(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        known = ", ".join(map(repr, self.names[:40]))
        raise InputError(f"{self.path} has no column {shown(name)}; it has {known}.")

    def numeric(self) -> tuple[str, ...]:
        """The names of the columns that hold numbers, by the first rows."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            cells = [_split(line, self.delimiter) for line in islice(self._rows(file), 20)]
        return tuple(
            name
            for i, name in enumerate(self.names)
            if all(i < len(row) and _number(row[i]) for row in cells if row)
        )


def is_text(path: Path) -> bool:
    """Whether the beginning of a file is lines of text."""
    with path.open("rb") as file:
        head = file.read(SNIFFED_BYTES)
    if b"\0" in head or not head.strip():
        return False
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # at the very end a character may be cut in two
            return False
        text = head[: error.start].decode("utf-8")
    return all(len(line) <= LONGEST_LINE for line in text.splitlines())


def read_table(path: Path) -> Table:
    """The layout of a text file: its delimiter, its header, its columns."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            lines = [line.strip() for line in islice(_lines(file, path), 200)]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    filled = [(i, line) for i, line in enumerate(lines) if line]
    data = [(i, line) for i, line in filled if not line.startswith("#")]
    if not data:
        raise InputError(f"{path} has no rows of numbers.")
    delimiter = next((d for d in (",", ";", "\t") if d in data[-1][1]), None)
    first, line = data[0]
    head = _split(line, delimiter)
    if len(head) > MOST_COLUMNS:
        raise InputError(f"{path} has {len(head)} columns; a table has at most {MOST_COLUMNS}.")
    if not any(_number(cell) for cell in head):
        return Table(path, _names(head), delimiter, first + 1)
    comments = [line.lstrip("# ") for i, line in filled if line.startswith("#") and i < first]
    named = [_split(comment, delimiter) for comment in comments]
    named += [_split(comment, None) for comment in comments]
    named = [cells for cells in named if len(cells) == len(head)]
    names = _names(named[-1]) if named else tuple(str(i) for i in range(len(head)))
    return Table(path, names, delimiter, first)


def printable(text: str) -> str:
    """A name from a log that is safe to show: no control characters, and short."""
    return "".join(c for c in text if c.isprintable())[:LONGEST_NAME]


def _names(cells: Sequence[str]) -> tuple[str, ...]:
    """Unique names: a second column of the same name gets its number."""
    names: dict[str, None] = {}
    for i, cell in enumerate(cells):
        name = printable(cell.strip().strip('"').strip()) or str(i)
        names[f"{name}#{i}" if name in names else name] = None
    return tuple(names)


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file; refuses one that is longer than a line of a log can be."""
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), ""), 1):
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{path}: line {number} has more than {LONGEST_LINE} characters; it is damaged, or "
                "no table."
            )
        yield line


def _split(line: str, delimiter: str | None) -> list[str]:
    return line.strip().split(delimiter) if line.strip() else []


def _number(cell: str) -> bool:
    cell = cell.strip()
    return not cell or re.fullmatch(r"[+-]?(nan|inf|[\d.]+(e[+-]?\d+)?)", cell, re.I) is not None
