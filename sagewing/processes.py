"""JAX does not survive a fork: its threads are gone in the child, which waits for them forever."""

import os

from sagewing.errors import InputError

_started: list[int] = []  # the process in which a filter has first been run by JAX


def check_not_forked() -> None:
    """Refuse to compute with JAX in a process that was forked from one that has."""
    here = os.getpid()
    if not _started:
        _started.append(here)
    if _started[0] != here:
        raise InputError(
            "This process was forked from one in which JAX had already run, and would wait "
            "forever: start processes with multiprocessing.get_context('spawn') instead."
        )
