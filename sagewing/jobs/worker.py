"""What happens in a process that does a sweep's tasks, whichever engine started it."""

import os
import time
import traceback
from collections.abc import Callable
from typing import Any

from sagewing.errors import InputError
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import Work
from sagewing.runtime.xla_cache import enable_compilation_cache

# How often a group is begun anew after its worker died: more is no accident.
RETRIES = 3


class TaskFailed(RuntimeError):
    """A task's own code raised; the message is what its process said."""


def prepare() -> None:
    """Make this process compute as every other worker does; call it before JAX computes.

    With several threads the sums in a product of matrices depend on how many there are, so a row
    would depend on the machine; and a process for each core is faster than one with many threads.
    """
    os.environ["NPROC"] = "1"  # what XLA's CPU client takes for the number of cores
    enable_compilation_cache()


def do(
    work: Work, settings: list[dict[str, Any]], report: Callable[[float], None]
) -> tuple[list[Outcome] | str | InputError, float]:
    """Do a group; its outcomes or what went wrong, and the seconds."""
    began = time.monotonic()
    prepare()
    try:
        return work(settings, report), time.monotonic() - began
    except InputError as error:
        return error, time.monotonic() - began
    except Exception:
        return traceback.format_exc(), time.monotonic() - began


def outcomes_of(said: list[Outcome] | str | InputError) -> list[Outcome]:
    """The outcomes, or the error."""
    if isinstance(said, InputError):
        raise said
    if isinstance(said, str):
        raise TaskFailed(f"A task failed in its worker:\n{said}")
    return said


def died(variant: str, how: str) -> InputError:
    """A worker that died again and again."""
    return InputError(
        f"A worker on {variant} died {RETRIES + 1} times ({how}), most likely for want of memory: "
        "use fewer processes or a smaller --group. What was finished is in the store."
    )
