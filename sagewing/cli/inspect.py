"""`sagewing inspect`: what a log has, and a first map of its columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sagewing.cli import console
from sagewing.errors import InputError
from sagewing.files import utf8, write_atomically
from sagewing.logs.readers import text
from sagewing.logs.readers.map import Map, read_map
from sagewing.logs.readers.read import read_log, reader_of
from sagewing.logs.readers.text_draft import draft
from sagewing.logs.readers.text_table import Table
from sagewing.logs.survey import summarize_columns, survey
from sagewing.report import log as log_report
from sagewing.report.first_map import map_of_columns, map_of_survey
from sagewing.report.table import terminal
from sagewing.results import BenchResult


@dataclass(frozen=True)
class Inspect:
    """Show what a log has: signals, rates, ranges, likely units, gaps, and the clocks' offset.

    Reads PX4 ULogs, ROS 1 and 2 bags, EuRoC folders, our .npz, and tables of text. With
    --write-map it drafts the map that names a table's columns; correct it, and give it as --map.

    Example: sagewing inspect flight.csv --write-map map.toml
    """

    log: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    """the log: a file or a folder"""
    map: Path | None = None
    """a TOML file that names columns or topics"""
    write_map: Path | None = None
    """write a first map here"""
    force: bool = False
    """replace what is there"""
    json: Path | None = None
    """write what was found here, too"""

    def __call__(self) -> None:
        """Run it."""
        for path in filter(None, (self.write_map, self.json)):
            console.check_places(path.parent, path)
        console.check_absent((self.write_map, self.json), self.force)
        by = None if self.map is None else read_map(self.map)
        missing: list[str] = []
        tables = text.tables_of(self.log) if reader_of(self.log) is text else None
        if by is None and tables is not None:
            by, missing = draft(tables)
        if missing and tables is not None:
            found, drafted = self._columns(tables, by or Map(), missing)
        else:
            found, drafted = self._signals(by, tables is not None)
        if self.write_map is not None:
            drafted = f"# Drafted from {self.log.name}; check it.\n{drafted}"
            self.write_map.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.write_map, utf8(drafted))
            console.err.print(f"Written: {self.write_map}", soft_wrap=True)
        if self.json is not None:
            settings = {"log": str(self.log), "map": str(self.map) if self.map else None}
            BenchResult("inspect", settings, 0, found).write(self.json)

    def _columns(self, tables: list[Table], by: Map, missing: list[str]) -> tuple[list[dict], str]:
        """Show the columns of a table that needs a map; returns them, and a map to complete."""
        found = summarize_columns(tables)
        if not found:
            raise InputError(f"{self.log} has no columns of numbers: it is no log.")
        console.out.print(terminal(log_report.columns(found)))
        console.out.print("By the first rows; step: the median between rows.")
        console.notes([f"not recognised: {what}" for what in missing])
        if self.write_map is None:
            raise InputError(
                f"{self.log} needs a map; draft one: sagewing inspect {self.log} "
                "--write-map map.toml."
            )
        console.notes([f"complete {self.write_map} where it has question marks"])
        return [column._asdict() for column in found], map_of_columns(by, found, missing)

    def _signals(self, by: Map | None, is_table: bool) -> tuple[list[dict], str]:
        """Show the signals of a log; returns them, and its map."""
        with console.err.status("reading the log"):
            log = read_log(self.log, by)
            found = survey(log)
        console.out.print(f"{log.format}: {log.name}")
        console.out.print(terminal(log_report.contents(found.signals)))
        for line in (*log_report.sources(found.signals), *log_report.clocks_and_noise(found)):
            console.out.print(line)
        console.notes([*log.notes, *found.warnings])
        drafted = map_of_survey(by or Map(), found, needs_map=is_table or by is not None)
        return [signal._asdict() for signal in found.signals], drafted
