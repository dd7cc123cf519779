"""The terminal: results on stdout, progress and errors on stderr."""

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sagewing.errors import InputError

UNPRINTABLE = "\ufffd"


class Terminal(Console):
    """Prints strings literally: names of files, and names in files, may look like markup.

    A character that is not printable, such as one that moves the cursor, is replaced by U+FFFD.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's, but strings have no markup."""
        super().print(*(Text(_plain(o)) if isinstance(o, str) else o for o in objects), **options)


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else UNPRINTABLE for c in text)


out = Terminal(emoji=False)
err = Terminal(stderr=True, emoji=False)
SECONDS_BETWEEN_LINES = 20.0


class Bar(Progress):
    """A progress bar; without a terminal, a line every 20 seconds."""

    last_line = 0.0

    def update(self, task_id: TaskID, **changed: Any) -> None:
        """Update the bar, or print its values as a line."""
        super().update(task_id, **changed)
        now = time.monotonic()
        self.last_line = self.last_line or now
        if err.is_terminal or now - self.last_line < SECONDS_BETWEEN_LINES:
            return
        self.last_line = now
        task = self.tasks[task_id]
        parts = [f"{task.description} {task.completed:g} of {task.total:g}"]
        if task.time_remaining is not None:
            parts.append(f"{timedelta(seconds=round(task.time_remaining))} left")
        line = ", ".join([*parts, task.fields["note"]])
        err.print(line, soft_wrap=True)


@contextmanager
def progress() -> Iterator[Bar]:
    """A progress bar on stderr, with the time left."""
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=err,
    ) as bar:
        yield bar


@contextmanager
def silenced(quiet: bool) -> Iterator[None]:
    """Hide progress and notes if `quiet`; errors are printed after it."""
    previous, err.quiet = err.quiet, err.quiet or quiet
    try:
        yield
    finally:
        err.quiet = previous


def error(text: str) -> None:
    """Print an error."""
    err.print(Text.assemble(("error:", "bold red"), " ", _plain(text)), soft_wrap=True)


def interrupted(text: str) -> NoReturn:
    """Exit at once with code 1: JAX may still compute, and would crash in a normal exit."""
    err.print(text, soft_wrap=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def at_least_one(command: Any, *options: str) -> None:
    """Refuse a count below one."""
    for name in options:
        if getattr(command, name) < 1:
            raise InputError(f"--{name} must be at least 1; got {getattr(command, name)}.")


def check_writable(folder: Path, json: Path | None) -> None:
    """Refuse folders and files where a result cannot be written."""
    for path in filter(None, (folder, json and json.parent)):
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not nearest.is_dir():
            raise InputError(f"{path} cannot be a folder: {nearest} is a file.")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise InputError(f"{path}: {nearest} is not writable.")
    if json is not None and json.is_dir():
        raise InputError(f"--json takes a file; {json} is a folder.")


def check_absent(paths: Iterable[Path | None], force: bool) -> None:
    """Refuse to replace existing files, unless `force`."""
    existing = [str(path) for path in paths if path is not None and path.exists()]
    if existing and not force:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise InputError(
            f"{existing[0]}{more} would be overwritten; give another path, or --force."
        )


def notes(lines: Sequence[str]) -> None:
    """Print notes about the data."""
    for line in lines:
        err.print(f"note: {line}", soft_wrap=True)


def duration(seconds: float) -> str:
    """The time left, as text."""
    if not math.isfinite(seconds):
        return "time left not known yet"
    minutes = round(seconds / 60.0)
    if minutes < 2:
        return f"about {seconds:.0f} s"
    return f"about {minutes} min" if minutes < 90 else f"about {minutes // 60} h {minutes % 60} min"
