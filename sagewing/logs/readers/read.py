"""Any log: its format is known by looking at it."""

from pathlib import Path

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.log import Log, sane
from sagewing.logs.readers.archive import ZIP
from sagewing.logs.readers.columns import Map
from sagewing.logs.readers.draft import draft, missing, with_known_names
from sagewing.logs.readers.euroc import euroc_root, read_euroc
from sagewing.logs.readers.mapped import read_mapped
from sagewing.logs.readers.npz import read_npz
from sagewing.logs.readers.rosbag import is_bag, read_bag
from sagewing.logs.readers.tables import Table, is_text, read_table
from sagewing.logs.readers.ulog import is_ulog, read_ulog

TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".tum", ".dat")
MOST_TABLES = 50
KNOWN = (
    "a PX4 ULog (.ulg); a ROS 1 bag (.bag); a ROS 2 bag (a folder, .mcap or .db3); an EuRoC/ASL "
    "folder (mav0/imu0/data.csv); our .npz; a table (.csv, .txt) with IMU and pose, or a folder "
    "with a table for each, such as imu.csv and a TUM trajectory"
)


def read_log(path: str | Path, map: Map | None = None) -> Log:
    """The log at `path`, whatever its format; `map` names its columns or topics.

    Example: `read_log("flight.ulg").position.value`
    """
    path = Path(path)
    try:
        with np.errstate(all="ignore"):  # what a damaged file's numbers overflow is none below
            log = _read(path, map)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if map is not None and map.pose.position_std is not None:
        log.position_std = (map.pose.position_std,) * 3
    if map is not None and map.pose.attitude_std is not None:
        log.attitude_std = map.pose.attitude_std
    return sane(log)


def _read(path: Path, by: Map | None) -> Log:
    head = _head(path)
    if is_ulog(head):
        return read_ulog(path, by)
    if is_bag(path, head):
        return read_bag(path, by)
    if head.startswith(ZIP):
        return read_npz(path, by.pose.delay_ms if by and by.pose.delay_ms else None)
    if path.is_dir() and euroc_root(path):
        return read_euroc(path, by)
    tables = tables_of(path)
    if by is None:
        by, _ = draft(tables)
        lacks = missing(by)
        if lacks:
            found = "; ".join(f"{t.path.name}: {', '.join(t.names[:20])}" for t in tables)
            raise InputError(
                f"{path}: no columns were recognised as {', '.join(lacks)} (columns: {found}). "
                f"Draft a map with sagewing inspect {path} --write-map map.toml, complete it, "
                "and give it as --map."
            )
    tables = [with_known_names(table) for table in tables]
    return read_mapped(path.stem, tables, str(path), by)


def tables_of(path: Path) -> list[Table]:
    """The text tables of a file or a folder."""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in TEXT_SUFFIXES)
        tables = [read_table(p) for p in files[:MOST_TABLES] if p.is_file() and is_text(p)]
        if tables:
            return tables
    elif is_text(path):
        return [read_table(path)]
    raise InputError(f"{path} is no log that we know. Known: {KNOWN}.")


def is_table(path: Path) -> bool:
    """Whether it would be read as text."""
    head = _head(path)
    return not (
        is_ulog(head)
        or is_bag(path, head)
        or head.startswith(ZIP)
        or (path.is_dir() and euroc_root(path) is not None)
    )


def _head(path: Path) -> bytes:
    if not path.exists():
        raise InputError(f"There is no log at {path}.")
    if path.is_dir():
        return b""
    if not path.is_file():  # a pipe would be waited for without end
        raise InputError(f"{path} is neither a file nor a folder.")
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise InputError(f"{path} is empty.")
    return head
