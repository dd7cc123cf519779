"""What workers do in the tests of the sweep; in a module, so that another process finds it."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import Study, Task
from sagewing.studies import ablation


def study(folder: Path, seeds: int, work, *, variants=("a",), seconds: float = 0.0) -> Study:
    tasks = [
        Task("toy", variant, {"seed": seed, "notes": str(folder / "notes"), "seconds": seconds})
        for variant in variants
        for seed in range(seeds)
    ]
    return Study("toy", tasks, work, bytes_each=16)


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


def _note(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(line + "\n")


def noted(settings, report):
    """A task that leaves a note when it begins."""
    outcomes = []
    for task in settings:
        _note(task["notes"], str(task["seed"]))
        time.sleep(task["seconds"])
        drawn = np.random.default_rng(task["seed"]).normal(size=4).astype(np.float32)
        outcomes.append(Outcome({"value": float(drawn[0])}, {"errors": drawn}))
        report(len(outcomes) / len(settings))
    return outcomes


def mortal(settings, report):
    """A task whose first worker is killed, as for want of memory."""
    begun = notes(Path(settings[0]["notes"]).parent)
    outcomes = noted(settings, report)
    if str(settings[0]["seed"]) not in begun:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcomes


def doomed(settings, report):
    """A task whose workers are killed every time."""
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(settings, report):
    """A task with an error of its own."""
    if settings[0]["seed"] == 1:
        raise ZeroDivisionError("in a task")
    return noted(settings, report)


def noted_ablation(settings, report):
    """The real thing, with a note of the node that begins it."""
    _note(os.environ["NOTES"], f"{settings[0]['seed']} {os.environ['NODE']}")
    return ablation.work(settings, report)
