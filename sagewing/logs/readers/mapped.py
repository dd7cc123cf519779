"""A log from text tables and a map of their columns."""

from collections.abc import Sequence

import numpy as np

from sagewing.errors import InputError, shown
from sagewing.logs.geodesy import check_fixes, local
from sagewing.logs.log import Log, enu_of_ned
from sagewing.logs.readers.columns import M_S2, METRES, RAD_S, RADIANS, SECONDS, Map, Source
from sagewing.logs.readers.tables import Table
from sagewing.logs.repair import Signal, count
from sagewing.logs.rotate import from_euler

# A pose that is repeated in this share of the rows was held until the next one came.
HELD = 0.5


def read_mapped(name: str, tables: Sequence[Table], where: str, by: Map) -> Log:
    """The log that these tables hold, as the map says."""
    notes: list[str] = []
    imu = _Reader(by.imu, tables, "imu", where, notes)
    log = Log(
        name=name,
        where=where,
        acc=imu.signal("acc", M_S2[by.imu.acc_unit]),
        gyro=imu.signal("gyro", RAD_S[by.imu.gyro_unit]),
        format="table",
        notes=notes,
    )
    log.position, log.quaternion = _pose(by.pose, tables, "pose", where, notes)
    if by.truth is not None:
        log.truth_position, log.truth_quaternion = _pose(by.truth, tables, "truth", where, notes)
    return enu_of_ned(log) if by.frame == "ned" else log


class _Reader:
    """The signals of one source, all at its times."""

    def __init__(
        self, source: Source, tables: Sequence[Table], name: str, where: str, notes: list[str]
    ):
        self.source, self.name, self.notes = source, name, notes
        self.table = _table(source, tables, name, where)
        if source.time is None:
            raise InputError(
                f"{self.table.where}: the map's [{name}] names no column for time; add time = "
                f"with one of {', '.join(map(repr, self.table.names[:20]))}."
            )

    def signal(self, what: str, unit: float = 1.0) -> Signal:
        """Rows in which all of it is empty are no samples."""
        names = getattr(self.source, what)
        if not names:
            raise InputError(f"{self.table.where}: the map's [{self.name}] names no {what}.")
        assert self.source.time is not None
        read = self.table.columns([self.source.time, *names])
        read = read[~np.isnan(read[:, 1:]).all(axis=1)]
        if self.name != "imu" and len(read) > 2:
            fresh = np.append(True, np.any(np.diff(read[:, 1:], axis=0) != 0.0, axis=1))
            if np.mean(~fresh) > HELD and fresh.sum() > 1:  # not one that never moves
                self.notes.append(f"{what}: {count(~fresh, 'repeated row')} taken for no sample")
                read = read[fresh]
        t = read[:, 0] * SECONDS[self.source.time_unit] - 1e-3 * self.source.delay_ms
        label = what if self.name != "truth" else f"true {what}"
        return Signal(label, t, read[:, 1:] * unit)


def _pose(
    source: Source, tables: Sequence[Table], name: str, where: str, notes: list[str]
) -> tuple[Signal | None, Signal | None]:
    if not (source.position or source.gps or source.quaternion or source.euler):
        return None, None
    reader = _Reader(source, tables, name, where, notes)
    position = quaternion = None
    if source.gps:
        fixes = reader.signal("gps")
        check_fixes(fixes.value, reader.table.where, "gps")
        position = Signal("position", fixes.t, local(fixes.value))
    elif source.position:
        position = reader.signal("position", METRES[source.position_unit])
    if source.quaternion:
        quaternion = reader.signal("quaternion")
    elif source.euler:
        angles = reader.signal("euler", RADIANS[source.euler_unit])
        quaternion = Signal("attitude", angles.t, from_euler(angles.value))
    return position, quaternion


def _table(source: Source, tables: Sequence[Table], name: str, where: str) -> Table:
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
