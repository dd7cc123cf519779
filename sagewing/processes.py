"""A check for forked processes: JAX's threads do not exist in a fork, which waits for them."""

import os

from sagewing.errors import InputError

_started: list[int] = []  # the process in which JAX first ran a filter


def check_not_forked() -> None:
    """Refuse to use JAX in a process that was forked from one in which JAX has run."""
    process = os.getpid()
    if not _started:
        _started.append(process)
    if _started[0] != process:
        raise InputError(
            "This process was forked from one in which JAX had already run, and would wait "
            "forever: start processes with multiprocessing.get_context('spawn') instead."
        )
