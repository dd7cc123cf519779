"""`sagewing inspect`: what a log has, and a first map of its columns."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from sagewing.cli import console
from sagewing.errors import InputError
from sagewing.files import utf8, write_atomically
from sagewing.logs.readers.columns import Map, read_map
from sagewing.logs.readers.draft import draft
from sagewing.logs.readers.read import is_table, read_log, tables_of
from sagewing.logs.readers.tables import Table
from sagewing.logs.survey import Column, Survey, columns, survey
from sagewing.report import log as log_report
from sagewing.report.log import range_of, step_of
from sagewing.report.table import terminal
from sagewing.results import BenchResult

# A smaller delay is not worth a line in a map.
SHORTEST_DELAY_S = 0.002
NEEDS_NONE = (
    "# This format needs no map. One may name a topic ([imu] topic, [pose] topic), and set\n"
    "# delay_ms, position_std and attitude_std of [pose].\n"
)
# The lines of a map that nothing in the table suggested.
GAPS = {
    "imu": """\
[imu]
time = "?"
time_unit = "s"        # s, ms, us, ns
acc = ["?", "?", "?"]
acc_unit = "m/s^2"     # or g
gyro = ["?", "?", "?"]
gyro_unit = "rad/s"    # or deg/s
""",
    "pose": """\
[pose]
time = "?"
time_unit = "s"
position = ["?", "?", "?"]
position_unit = "m"    # m, cm, mm
# quaternion = ["w", "x", "y", "z"], or euler = ["roll", "pitch", "yaw"] and euler_unit = "deg"
# gps = ["latitude", "longitude", "altitude"] in place of position
""",
}


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
        lacks: list[str] = []
        tables = tables_of(self.log) if self.log.exists() and is_table(self.log) else None
        if by is None and tables is not None:
            by, lacks = draft(tables)
        if lacks and tables is not None:
            found, text = self._columns(tables, by or Map(), lacks)
        else:
            found, text = self._signals(by, tables is not None)
        if self.write_map is not None:
            text = f"# Drafted from {self.log.name}; check it.\n{text}"
            self.write_map.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.write_map, utf8(text))
            said = f"Written: {self.write_map}"
            console.err.print(said, soft_wrap=True)
        if self.json is not None:
            settings = {"log": str(self.log), "map": str(self.map) if self.map else None}
            BenchResult("inspect", settings, 0, found).write(self.json)

    def _columns(self, tables: list[Table], by: Map, lacks: list[str]) -> tuple[list[dict], str]:
        """A table that needs a map first: what it has, and the map with gaps to fill."""
        seen = columns(tables)
        if not seen:
            raise InputError(f"{self.log} has no columns of numbers: it is no log.")
        console.out.print(terminal(log_report.columns(seen)))
        console.out.print("By the first rows; step: the median between rows.")
        console.notes([f"not recognised: {what}" for what in lacks])
        if self.write_map is None:
            raise InputError(
                f"{self.log} needs a map; draft one: sagewing inspect {self.log} "
                "--write-map map.toml."
            )
        console.notes([f"complete {self.write_map} where it has question marks"])
        return [column._asdict() for column in seen], _to_fill_in(by, seen, lacks)

    def _signals(self, by: Map | None, is_table: bool) -> tuple[list[dict], str]:
        with console.err.status("reading the log"):
            log = read_log(self.log, by)
            found = survey(log)
        console.out.print(f"{log.format}: {log.name}")
        console.out.print(terminal(log_report.contents(found.signals)))
        for line in (*log_report.sources(found.signals), *_said(found)):
            console.out.print(line)
        console.notes([*log.notes, *found.doubts])
        text = _with_delay(by or Map(), found).toml()
        if not is_table and by is None:
            text = text.replace('frame = "enu"\n', NEEDS_NONE)
        return [seen._asdict() for seen in found.signals], _hints(found) + text


def _said(found: Survey) -> list[str]:
    lines = []
    if found.offset is not None:
        late, like = 1e3 * found.offset.late_s, f"correlation {found.offset.correlation:.2f}"
        if not found.offset.credible:
            lines.append(f"Whether the pose's clock is late cannot be told ({like}).")
        elif abs(late) < 1e3 * SHORTEST_DELAY_S:
            lines.append(f"The pose's clock agrees with the IMU's ({like}).")
        else:
            way = "late" if late > 0.0 else "early"
            lines.append(f"The pose's clock is {abs(late):.0f} ms {way} ({like}).")
    if found.position_noise_m is not None:
        lines.append(f"The position's white noise is about {found.position_noise_m:.2g} m.")
    return lines


def _hints(found: Survey) -> str:
    """What the user may want to write into the map."""
    noise = found.position_noise_m
    return (
        "" if noise is None else f"# [pose] position_std = {noise:.2g}  # its white noise alone\n"
    )


def _to_fill_in(by: Map, seen: list[Column], lacks: list[str]) -> str:
    """What was recognised, and the lines that are missing, with what there is to choose from."""
    lines = [f"# Missing: {what}" for what in lacks]
    lines += ["#", "# Columns: name, range in the first rows, step between rows"]
    lines += [f"#   {c.file}: {c.name}, {range_of(c)}, {step_of(c)}" for c in seen]
    gaps = [GAPS["imu"]] if not by.imu.acc else []
    gaps += [GAPS["pose"]] if not (by.pose.position or by.pose.gps) else []
    if len({column.file for column in seen}) > 1:
        gaps = [gap.replace("]\n", ']\nfile = "?"\n', 1) for gap in gaps]
    return "\n".join(["\n".join(lines), by.toml(), *gaps])


def _with_delay(by: Map, found: Survey) -> Map:
    """The map with what the clocks say added to its delay."""
    offset = found.offset
    if offset is None or not offset.credible or abs(offset.late_s) < SHORTEST_DELAY_S:
        return by
    late_ms = round(by.pose.delay_ms + 1e3 * offset.late_s, 1)
    return replace(by, pose=replace(by.pose, delay_ms=late_ms))
