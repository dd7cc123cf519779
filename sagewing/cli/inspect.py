"""`sagewing inspect`: what a log has, and a first map of its columns."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from sagewing.bench.result import BenchResult
from sagewing.cli import console
from sagewing.errors import InputError
from sagewing.files import write_atomically
from sagewing.flights.columns import Map, read_map
from sagewing.flights.draft import draft
from sagewing.flights.read import is_table, read_log, tables_of
from sagewing.flights.survey import Survey, columns, survey
from sagewing.report import own

# A smaller delay is not worth a line in a map.
SHORTEST_DELAY_S = 0.002


@dataclass(frozen=True)
class Inspect:
    """Show what a log has: signals, rates, ranges, likely units, gaps, and the clocks' offset.

    Reads PX4 ULogs, ROS 1 and 2 bags, EuRoC folders, our .npz, and tables of text. With
    --write-map it drafts the map that names a table's columns; correct it, and give it as --map.

    Example: sagewing inspect flight.csv --write-map map.toml
    """

    log: Annotated[Path, tyro.conf.Positional]
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
        lacks: list[str] = []
        if by is None and self.log.exists() and is_table(self.log):
            by, lacks = draft(tables_of(self.log))
        rows = self._columns(lacks) if lacks else self._signals(by)
        drafted, found, hints = rows
        if self.write_map is not None:
            text = f"# Drafted from {self.log.name}; check it.\n"
            text += "".join(f"# {line}\n" for line in (*(f"Missing: {w}" for w in lacks), *hints))
            self.write_map.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.write_map, (text + (drafted or by or Map()).toml()).encode())
            said = f"Written: {self.write_map}"
            console.err.print(said, highlight=False, markup=False, soft_wrap=True)
        if self.json is not None:
            settings = {"log": str(self.log), "map": str(self.map) if self.map else None}
            BenchResult("inspect", settings, 0, found).write(self.json)

    def _columns(self, lacks: list[str]) -> tuple[Map | None, list[dict], list[str]]:
        """A table that needs a map first."""
        seen = columns(tables_of(self.log))
        console.out.print(own.columns(seen))
        console.notes([f"not recognised: {what}" for what in lacks])
        if self.write_map is None:
            raise InputError(
                f"{self.log} needs a map; draft one: sagewing inspect {self.log} "
                "--write-map map.toml."
            )
        return None, [column._asdict() for column in seen], []

    def _signals(self, by: Map | None) -> tuple[Map, list[dict], list[str]]:
        log = read_log(self.log, by)
        found = survey(log)
        console.out.print(f"{log.format}: {log.name}", highlight=False, markup=False)
        console.out.print(own.contents(found.signals))
        for line in _said(found):
            console.out.print(line, highlight=False, markup=False, soft_wrap=True)
        console.notes([*log.notes, *found.doubts])
        rows = [seen._asdict() for seen in found.signals]
        return _with_delay(by or Map(), found), rows, _hints(found)


def _said(found: Survey) -> list[str]:
    lines = []
    if found.offset is not None:
        how = "" if found.offset.credible else ", which is too little to act on"
        lines.append(
            f"The pose's clock is {1e3 * found.offset.late_s:+.0f} ms late against the IMU's "
            f"(correlation {found.offset.correlation:.2f}{how})."
        )
    if found.position_noise_m is not None:
        lines.append(f"The position's white noise is about {found.position_noise_m:.2g} m.")
    return lines


def _hints(found: Survey) -> list[str]:
    """What the user may want to write into the map."""
    noise = found.position_noise_m
    return [] if noise is None else [f"[pose] position_std = {noise:.2g}  # its white noise alone"]


def _with_delay(by: Map, found: Survey) -> Map:
    """The map with what the clocks say added to its delay."""
    offset = found.offset
    if offset is None or not offset.credible or abs(offset.late_s) < SHORTEST_DELAY_S:
        return by
    late_ms = round(by.pose.delay_ms + 1e3 * offset.late_s, 1)
    return replace(by, pose=replace(by.pose, delay_ms=late_ms))
