"""A log of any format: the table of readers, and the choice of one by a look at the file.

A new format is a file in this folder with `FORMAT`, `recognises` and `read`, and its line in
`READERS`.
"""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.log import Log, mask_out_of_range
from sagewing.logs.readers import euroc, npz, rosbag, text, ulog
from sagewing.logs.readers.map import Map


@runtime_checkable
class LogReader(Protocol):
    """A module that reads one format."""

    @property
    def FORMAT(self) -> str:
        """Its name and its suffixes, for messages."""
        ...

    def recognises(self, path: Path) -> bool:
        """Whether this file or folder has the format, by a look at its beginning."""
        ...

    def read(self, path: Path, map: Map | None = None) -> Log:
        """The log; `map` names its columns or topics."""
        ...


# The first that recognises a log reads it; any text is a table, so that `text` comes last.
READERS: tuple[LogReader, ...] = (ulog, rosbag, euroc, npz, text)


def read_log(path: str | Path, map: Map | None = None) -> Log:
    """The log at `path`, whatever its format; `map` names its columns or topics.

    Example: `read_log("flight.ulg").position.value`
    """
    path = Path(path)
    reader = reader_of(path)
    try:
        with np.errstate(all="ignore"):  # numbers of a damaged file overflow
            log = reader.read(path, map)
    except OSError as error:
        raise _unreadable(path, error) from None
    if map is not None and map.pose.position_std is not None:
        log.position_std = (map.pose.position_std,) * 3
    if map is not None and map.pose.attitude_std is not None:
        log.attitude_std = map.pose.attitude_std
    return mask_out_of_range(log)


def reader_of(path: Path) -> LogReader:
    """The reader of the log at `path`; refuses what none recognises."""
    try:
        _check_exists(path)
        for reader in READERS:
            if reader.recognises(path):
                return reader
    except OSError as error:
        raise _unreadable(path, error) from None
    known = "; ".join(reader.FORMAT for reader in READERS)
    raise InputError(f"{path} is no log that we know. Known: {known}.")


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InputError(f"There is no log at {path}.")
    if path.is_dir():
        return
    if not path.is_file():  # reading a pipe would not end
        raise InputError(f"{path} is neither a file nor a folder.")
    with path.open("rb") as file:
        if not file.read(1):
            raise InputError(f"{path} is empty.")


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read: {error.strerror or error}.")
