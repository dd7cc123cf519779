"""Run a sweep's tasks in a worker process, for either engine."""

import os
import time
import traceback
from collections.abc import Callable
from typing import Any

from sagewing.errors import InputError
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import Work
from sagewing.runtime.xla_cache import enable_compilation_cache

# How often a group is run again after its worker crashed.
RETRIES = 3


class TaskFailed(RuntimeError):
    """A task's own code raised; the message is its traceback."""


def prepare() -> None:
    """Let JAX compute with one thread in this process; call it before JAX is used.

    With several threads the rounding of matrix products depends on their number, so a row would
    depend on the machine. One process for each core is also faster than one with many threads.
    """
    os.environ["NPROC"] = "1"  # the number of cores that XLA's CPU client assumes
    enable_compilation_cache()


def run_group(
    work: Work, settings: list[dict[str, Any]], report: Callable[[float], None]
) -> tuple[list[Outcome] | str | InputError, float]:
    """Run a group; returns its outcomes or its error, and the seconds that it took."""
    began = time.monotonic()
    prepare()
    try:
        return work(settings, report), time.monotonic() - began
    except InputError as error:
        return error, time.monotonic() - began
    except Exception:
        return traceback.format_exc(), time.monotonic() - began


def outcomes_or_raise(answer: list[Outcome] | str | InputError) -> list[Outcome]:
    """The outcomes; raises the error if the group failed."""
    if isinstance(answer, InputError):
        raise answer
    if isinstance(answer, str):
        raise TaskFailed(f"A task failed in its worker:\n{answer}")
    return answer


def crash_error(variant: str, reason: str) -> InputError:
    """The error for a group whose worker crashed at every attempt."""
    return InputError(
        f"A worker on {variant} died {RETRIES + 1} times ({reason}), most likely for want of "
        "memory: use fewer processes or a smaller --group. Finished tasks are in the store."
    )
