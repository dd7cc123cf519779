"""What the terminal shows: results on stdout, progress and errors on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sagewing.errors import InputError

out = Console()
err = Console(stderr=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress bar with the time left; it leaves stdout alone."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=err,
    ) as bar:
        yield bar


def at_least_one(command: Any, *options: str) -> None:
    """Refuse a count below one."""
    for name in options:
        if getattr(command, name) < 1:
            raise InputError(f"--{name} must be at least 1; got {getattr(command, name)}.")
