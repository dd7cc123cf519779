"""Logs of text tables: one with IMU and pose, or a folder with a table for each."""

from pathlib import Path

from sagewing.errors import InputError
from sagewing.logs.log import Log
from sagewing.logs.readers.map import Map
from sagewing.logs.readers.text_draft import draft, missing, with_known_names
from sagewing.logs.readers.text_mapped import read_mapped
from sagewing.logs.readers.text_table import Table, is_text, read_table

FORMAT = (
    "a table (.csv, .txt) with IMU and pose, or a folder with a table for each, such as imu.csv "
    "and a TUM trajectory"
)
SUFFIXES = (".csv", ".txt", ".tsv", ".tum", ".dat")
MOST_TABLES = 50


def recognises(path: Path) -> bool:
    """Any file of text, or a folder with one whose suffix is a table's."""
    return is_text(path) if path.is_file() else any(map(is_text, _tables_in(path)))


def read(path: Path, map: Map | None = None) -> Log:
    """The log in these tables; without a map the names of columns that are usual are recognised."""
    tables = tables_of(path)
    if map is None:
        map, _ = draft(tables)
        lacks = missing(map)
        if lacks:
            found = "; ".join(f"{t.path.name}: {', '.join(t.names[:20])}" for t in tables)
            raise InputError(
                f"{path}: no columns were recognised as {', '.join(lacks)} (columns: {found}). "
                f"Draft a map with sagewing inspect {path} --write-map map.toml, complete it, "
                "and give it as --map."
            )
    tables = [with_known_names(table) for table in tables]
    return read_mapped(path.stem, tables, str(path), map)


def tables_of(path: Path) -> list[Table]:
    """The tables of a file or a folder."""
    if path.is_file():
        return [read_table(path)]
    return [read_table(table) for table in _tables_in(path) if is_text(table)]


def _tables_in(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    return [path for path in files[:MOST_TABLES] if path.is_file()]
