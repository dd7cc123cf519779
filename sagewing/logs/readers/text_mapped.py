"""A log from text tables and a map that names their columns."""

from collections.abc import Sequence

import numpy as np

from sagewing.errors import InputError, shown
from sagewing.logs.geodesy import check_fixes, east_north_up
from sagewing.logs.log import Log, ned_log_to_enu
from sagewing.logs.readers.map import M_S2, METRES, RAD_S, RADIANS, SECONDS, Map, SignalSource
from sagewing.logs.readers.text_table import Table
from sagewing.logs.repair import count
from sagewing.logs.rotate import from_euler
from sagewing.logs.signal import Signal

# A pose that is repeated in more than this share of the rows is held between samples.
HELD_SHARE = 0.5


def read_mapped(name: str, tables: Sequence[Table], where: str, map: Map) -> Log:
    """The log in these tables; the map names its columns."""
    notes: list[str] = []
    imu = _Reader(map.imu, tables, "imu", where, notes)
    log = Log(
        name=name,
        where=where,
        acc=imu.signal("acc", M_S2[map.imu.acc_unit]),
        gyro=imu.signal("gyro", RAD_S[map.imu.gyro_unit]),
        format="table",
        notes=notes,
    )
    log.position, log.quaternion = _pose(map.pose, tables, "pose", where, notes)
    if map.truth is not None:
        log.truth_position, log.truth_quaternion = _pose(map.truth, tables, "truth", where, notes)
    return ned_log_to_enu(log) if map.frame == "ned" else log


class _Reader:
    """The signals of one source, which share its times."""

    def __init__(
        self, source: SignalSource, tables: Sequence[Table], name: str, where: str, notes: list[str]
    ):
        self.source, self.name, self.notes = source, name, notes
        self.table = _table(source, tables, name, where)
        if source.time is None:
            raise InputError(
                f"{self.table.where}: the map's [{name}] names no column for time; add time = "
                f"with one of {', '.join(map(repr, self.table.names[:20]))}."
            )

    def signal(self, what: str, unit: float = 1.0) -> Signal:
        """One signal; rows whose cells are all empty are left out, and so are held samples."""
        names = getattr(self.source, what)
        if not names:
            raise InputError(f"{self.table.where}: the map's [{self.name}] names no {what}.")
        assert self.source.time is not None
        rows = self.table.columns([self.source.time, *names])
        rows = rows[~np.isnan(rows[:, 1:]).all(axis=1)]
        if self.name != "imu" and len(rows) > 2:  # a vehicle at rest repeats all of its rows
            changed = np.append(True, np.any(np.diff(rows[:, 1:], axis=0) != 0.0, axis=1))
            if np.mean(~changed) > HELD_SHARE and changed.sum() > 1:
                self.notes.append(f"{what}: {count(~changed, 'repeated row')} taken for no sample")
                rows = rows[changed]
        t = rows[:, 0] * SECONDS[self.source.time_unit] - 1e-3 * self.source.delay_ms
        label = what if self.name != "truth" else f"true {what}"
        return Signal(label, t, rows[:, 1:] * unit)


def _pose(
    source: SignalSource, tables: Sequence[Table], name: str, where: str, notes: list[str]
) -> tuple[Signal | None, Signal | None]:
    if not (source.position or source.gps or source.quaternion or source.euler):
        return None, None
    reader = _Reader(source, tables, name, where, notes)
    position = quaternion = None
    if source.gps:
        fixes = reader.signal("gps")
        check_fixes(fixes.value, reader.table.where, "gps")
        position = Signal("position", fixes.t, east_north_up(fixes.value))
    elif source.position:
        position = reader.signal("position", METRES[source.position_unit])
    if source.quaternion:
        quaternion = reader.signal("quaternion")
    elif source.euler:
        angles = reader.signal("euler", RADIANS[source.euler_unit])
        quaternion = Signal("attitude", angles.t, from_euler(angles.value))
    return position, quaternion


def _table(source: SignalSource, tables: Sequence[Table], name: str, where: str) -> Table:
    if source.file is None and len(tables) == 1:
        return tables[0]
    known = ", ".join(table.path.name for table in tables)
    if source.file is None:
        raise InputError(f"{where}: the map's [{name}] must name its file; there is {known}.")
    for table in tables:
        if table.path.name == source.file:
            return table
    raise InputError(
        f"{where} has no table {shown(source.file)}, as the map's [{name}] says; it has {known}."
    )
