"""`sagewing inspect`: the contents of a log, and a draft of its map."""

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
    """Show the contents of a log: signals, rates, ranges, likely units, gaps, the clocks' offset.

    Reads PX4 ULogs, ROS 1 and 2 bags, EuRoC folders, our .npz, and tables of text. With
    --write-map it drafts the map that names a table's columns; correct it, and give it as --map.

    Example: sagewing inspect flight.csv --write-map map.toml
    """

    log: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="LOG")]
    """the log: a file or a folder"""
    map: Path | None = None
    """a TOML file that names columns or topics"""
    write_map: Path | None = None
    """write a draft of the map here"""
    force: bool = False
    """replace existing files"""
    json: Path | None = None
    """also write the contents here"""

    def __call__(self) -> None:
        """Run it."""
        for path in filter(None, (self.write_map, self.json)):
            console.check_writable(path.parent, path)
        console.check_absent((self.write_map, self.json), self.force)
        log_map = None if self.map is None else read_map(self.map)
        missing: list[str] = []
        tables = text.tables_of(self.log) if reader_of(self.log) is text else None
        if log_map is None and tables is not None:
            log_map, missing = draft(tables)
        if missing and tables is not None:
            rows, drafted = self._columns(tables, log_map or Map(), missing)
        else:
            rows, drafted = self._signals(log_map, tables is not None)
        if self.write_map is not None:
            drafted = f"# Drafted from {self.log.name}; check it.\n{drafted}"
            self.write_map.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.write_map, utf8(drafted))
            console.err.print(f"Written: {self.write_map}", soft_wrap=True)
        if self.json is not None:
            settings = {"log": str(self.log), "map": str(self.map) if self.map else None}
            BenchResult("inspect", settings, 0, rows).write(self.json)

    def _columns(
        self, tables: list[Table], log_map: Map, missing: list[str]
    ) -> tuple[list[dict], str]:
        """Show the columns of a table that needs a map; returns them and a map to complete."""
        columns = summarize_columns(tables)
        if not columns:
            raise InputError(f"{self.log} has no columns of numbers: it is no log.")
        console.out.print(terminal(log_report.columns(columns)))
        console.out.print("By the first rows; step: the median between rows.")
        console.notes([f"not recognised: {what}" for what in missing])
        if self.write_map is None:
            raise InputError(
                f"{self.log} needs a map; draft one: sagewing inspect {self.log} "
                "--write-map map.toml."
            )
        console.notes([f"complete {self.write_map} where it has question marks"])
        return [column._asdict() for column in columns], map_of_columns(log_map, columns, missing)

    def _signals(self, log_map: Map | None, is_table: bool) -> tuple[list[dict], str]:
        """Show the signals of a log; returns them, and its map."""
        with console.err.status("reading the log"):
            log = read_log(self.log, log_map)
            contents = survey(log)
        console.out.print(f"{log.format}: {log.name}")
        console.out.print(terminal(log_report.contents(contents.signals)))
        for line in (*log_report.sources(contents.signals), *log_report.clocks_and_noise(contents)):
            console.out.print(line)
        console.notes([*log.notes, *contents.warnings])
        drafted = map_of_survey(
            log_map or Map(), contents, needs_map=is_table or log_map is not None
        )
        return [signal._asdict() for signal in contents.signals], drafted
