"""The results of a sweep in one SQLite file, one row a task; a kill loses no finished task.

Only the driver writes. A row is committed to the disk before the sweep counts it as done. It has
the SHA-256 of its content: a damaged row is refused.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.databases import has_computed_content
from sagewing.errors import InputError
from sagewing.files import sha256

APPLICATION = 0x53575357  # marks the file as ours in SQLite's header
LAYOUT = 2
LAYOUT_WITHOUT_DIGESTS = 1  # the layout before; opening the store adds the digests
# Room beyond the arrays: rows, settings, SQLite's journal of a transaction.
BYTES_A_ROW = 8_192
BYTES_SPARE = 32 * 1024 * 1024
SECONDS_TO_WAIT = 30.0  # for another process that reads the file

TABLE = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,      -- hash of the task's settings
    study TEXT NOT NULL,
    variant TEXT NOT NULL,
    seed INTEGER NOT NULL,
    settings TEXT NOT NULL,    -- JSON
    numbers TEXT NOT NULL,     -- JSON: the row
    arrays TEXT NOT NULL,      -- JSON: names and lengths of what `data` holds, in order
    data BLOB NOT NULL,        -- float32, little endian
    seconds REAL NOT NULL,
    origin TEXT NOT NULL,      -- JSON: commit and versions
    sha256 TEXT                -- of all the others
) WITHOUT ROWID
"""


class Outcome(NamedTuple):
    """The result of a task: the numbers of its row, and its arrays."""

    numbers: dict[str, Any]
    arrays: dict[str, Float[np.ndarray, "n"]]


class Finished(NamedTuple):
    """A finished task: its settings, its outcome, the seconds, and the commit and versions."""

    key: str
    study: str
    variant: str
    seed: int
    settings: dict[str, Any]
    outcome: Outcome
    seconds: float
    origin: dict[str, Any]


class Store:
    """An open store; use `open_store`."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self.path = path
        self._connection = connection

    def check_room(self, count: int, bytes_each: int) -> None:
        """Refuse a disk that cannot hold `count` more rows."""
        each = bytes_each + BYTES_A_ROW
        need = count * each + BYTES_SPARE
        free = shutil.disk_usage(self.path.absolute().parent).free
        if free < need:
            raise InputError(
                f"{self.path}: {count} results need {need / 1e6:.0f} MB and the disk has "
                f"{free / 1e6:.0f} MB free; make room, or name another --store."
            )
        with self._as_input_error("cannot be written"):
            # Only a write detects a quota.
            with self._connection:
                self._connection.execute("CREATE TABLE IF NOT EXISTS probe (data BLOB)")
                self._connection.execute("INSERT INTO probe VALUES (?)", (bytes(each),))
            with self._connection:
                self._connection.execute("DROP TABLE probe")

    def add(self, results: Iterable[Finished]) -> None:
        """Add results in one transaction; they are on the disk when this returns."""
        rows = [
            _with_digest(
                *(done.key, done.study, done.variant, int(done.seed), _json(done.settings)),
                _json(done.outcome.numbers),
                _json([[name, len(a)] for name, a in done.outcome.arrays.items()]),
                b"".join(a.astype("<f4").tobytes() for a in done.outcome.arrays.values()),
                float(done.seconds),  # the type that is read back: the digest covers it
                _json(done.origin),
            )
            for done in results
        ]
        query = f"INSERT OR IGNORE INTO results VALUES ({','.join('?' * 11)})"
        failed = "cannot be written: the tasks finished before are safe in it"
        with self._as_input_error(failed), self._connection:
            self._connection.executemany(query, rows)

    def seconds(self, study: str) -> dict[str, float]:
        """The seconds of every stored task of a study, by key; a damaged row is refused."""
        query = "SELECT * FROM results WHERE study = ?"
        # One row at a time: all arrays together may not fit into memory.
        with self._as_input_error("cannot be read"), closing(self._connection.cursor()) as rows:
            rows.execute(query, (study,))
            return {done.key: done.seconds for done in map(self._checked, rows)}

    def get(self, keys: Iterable[str]) -> Iterator[Finished]:
        """The stored results with these keys, in the order of the keys."""
        for key in keys:
            with self._as_input_error("cannot be read"):
                query = "SELECT * FROM results WHERE key = ?"
                row = self._connection.execute(query, (key,)).fetchone()
            if row is not None:
                yield self._checked(row)

    def _checked(self, row: tuple[Any, ...]) -> Finished:
        """The row as a result; a row whose digest does not match is refused."""
        if len(row) != 11 or row[-1] != _digest(row[:-1]):
            raise InputError(
                f"{self.path}: the row of the task {str(row[0])[:64]} is damaged: its SHA-256 does "
                "not match. Restore an earlier copy of the file, or delete the row, and the next "
                f"sweep runs it again: sqlite3 '{self.path}' \"DELETE FROM results WHERE "
                f"sha256 = '{str(row[-1])[:64]}'\"."
            )
        try:
            return _finished(row[:-1])
        except (ValueError, TypeError, RecursionError):  # a row that was not written by `add`
            raise InputError(f"{self.path}: the row of the task {row[0]!r} is no result.") from None

    @contextmanager
    def _as_input_error(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.path} {what} ({error}); check the disk and its rights, "
                "then start the same command again."
            ) from None


def _finished(row: tuple[Any, ...]) -> Finished:
    key, study, variant, seed, settings, numbers, arrays, data, seconds, origin = row
    by_name, offset = {}, 0
    for name, length in json.loads(arrays):
        by_name[name] = np.frombuffer(data, "<f4", length, offset).astype(np.float32)
        offset += 4 * length
    outcome = Outcome(json.loads(numbers), by_name)
    task = (key, study, variant, seed, json.loads(settings))
    return Finished(*task, outcome, seconds, json.loads(origin))


def _with_digest(*row: Any) -> tuple[Any, ...]:
    return (*row, _digest(row))


def _digest(row: tuple[Any, ...]) -> str:
    return sha256(b"\0".join(v if isinstance(v, bytes) else repr(v).encode() for v in row))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open the store in a file, which is created if absent; only one sweep may have it open."""
    lock = path.with_name(f"{path.name}.lock")
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite's own lock, on a separate file: it is released whenever the process ends,
            # and the store itself stays readable.
            holder = stack.enter_context(closing(sqlite3.connect(lock, timeout=0.0)))
            holder.execute("BEGIN EXCLUSIVE")
            connection = stack.enter_context(
                closing(sqlite3.connect(path, timeout=SECONDS_TO_WAIT))
            )
            _prepare_database(path, connection)
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise InputError(
                    f"{path} is in use by another sweep; wait for it, or name another --store."
                ) from None
            raise InputError(
                f"--store {path} cannot be written: {error}. Name a file in a folder of yours."
            ) from None
        yield Store(path, connection)


def _prepare_database(path: Path, connection: sqlite3.Connection) -> None:
    """Create the table in a new file; refuse any other database."""
    connection.execute("PRAGMA synchronous = FULL")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    layouts = (LAYOUT, LAYOUT_WITHOUT_DIGESTS)
    ours = application == APPLICATION and layout in layouts and not has_computed_content(connection)
    if tables and not ours:
        raise InputError(
            f"--store {path} is a database, but not a store of this version; name another file."
        )
    with connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
        connection.execute(TABLE)
        if tables and layout == LAYOUT_WITHOUT_DIGESTS:
            connection.execute("ALTER TABLE results ADD COLUMN sha256 TEXT")
            for (key,) in connection.execute("SELECT key FROM results").fetchall():
                query = "SELECT * FROM results WHERE key = ?"
                row = connection.execute(query, (key,)).fetchone()
                values = (_digest(row[:-1]), key)
                connection.execute("UPDATE results SET sha256 = ? WHERE key = ?", values)
