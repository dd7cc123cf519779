"""A study of many tasks that can be resumed: tasks in the store are skipped, the rest are run.

A task is a pure function of its settings, and its key is their hash: a second start runs only
what is missing, and a changed setting makes another task.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sagewing.jobs.store import Finished, Outcome, Store
from sagewing.results import commit, versions

# Part of every key; to be raised when the same settings give other rows than before.
SCHEMA = 1
# Seeds that are trained by one compiled program, by default.
GROUP = 5

# Runs a group's tasks, given their settings, and reports its progress as a number in 0..1.
Work = Callable[[list[dict[str, Any]], Callable[[float], None]], list[Outcome]]


@dataclass(frozen=True)
class Task:
    """One training and its evaluation.

    `settings` are plain JSON and hold everything that the result depends on, with a `seed`.
    """

    study: str
    variant: str
    settings: dict[str, Any] = field(hash=False)

    @property
    def seed(self) -> int:
        """The seed that all its random numbers come from."""
        return self.settings["seed"]

    @cached_property
    def key(self) -> str:
        """The hash of what the result depends on; a variant's name is not among it."""
        identity = {"schema": SCHEMA, "study": self.study, **self.settings}
        canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class Study:
    """Tasks, the function that runs them, and how many bytes of arrays each one stores.

    `work` is a function of a module, so that another process or machine can import it.
    """

    name: str
    tasks: list[Task]
    work: Work
    bytes_each: int = 0


class GroupProgress(NamedTuple):
    """What an engine reports: a group's progress in 0..1 and, at the end, its outcomes."""

    group: list[Task]
    fraction: float
    outcomes: list[Outcome] | None = None
    seconds: float = 0.0


@runtime_checkable
class Engine(Protocol):
    """Runs groups of tasks."""

    @property
    def slots(self) -> int:
        """How many groups run at the same time."""
        ...

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[GroupProgress, None, None]:
        """Run the groups in their order; stop at the first that may no longer start.

        A group whose worker crashes is run again. Closing the iterator ends all workers.
        """
        ...


class Status(NamedTuple):
    """A sweep's progress: tasks done, tasks in total, seconds left, and the current task."""

    done: float
    total: int
    seconds_left: float
    note: str


class Remaining(NamedTuple):
    """The tasks that a sweep left undone when its time was spent, and their estimated seconds."""

    tasks: int
    seconds: float


def sweep(
    study: Study,
    store: Store,
    engine: Engine,
    *,
    group: int = GROUP,
    budget: float = math.inf,
    report: Callable[[Status], None] = lambda status: None,
) -> Remaining:
    """Run the tasks that are missing in the store, for at most `budget` seconds.

    Returns what remains. A group is started only if it is expected to end in time, judged by the
    tasks before it; a group that has started is finished.
    """
    started = time.monotonic()
    stored = store.seconds(study.name)
    costs = Costs(engine.slots, group)
    for task in study.tasks:  # the store may hold tasks with other settings
        if task.key in stored:
            costs.add(task.variant, stored[task.key])
    missing = {task.key: task for task in study.tasks if task.key not in stored}
    groups = grouped(list(missing.values()), group)
    store.check_room(len(missing), study.bytes_each)
    total = len({task.key for task in study.tasks})
    origin = {"commit": commit(), "versions": versions()}
    running: dict[str, float] = {}

    def may_start(tasks: list[Task]) -> bool:
        spent = time.monotonic() - started
        return spent < budget and spent + costs.group(tasks) <= budget

    def report_status(note: str) -> None:
        done = sum(running.values(), 0.0)
        rest = costs.rest(missing.values(), done)
        if math.isnan(rest) and done > 0.0:  # nothing has ended yet: extrapolate the speed so far
            rest = (time.monotonic() - started) * (len(missing) - done) / done
        report(Status(total - len(missing) + done, total, rest, note))

    report_status("starting")
    with closing(engine.run(study.work, groups, may_start)) as events:
        for tasks, fraction, outcomes, seconds in events:
            note = f"{tasks[0].variant}, seeds {', '.join(str(t.seed) for t in tasks)}"
            if outcomes is None:
                running[tasks[0].key] = fraction * len(tasks)
            else:
                running.pop(tasks[0].key, None)
                each = seconds / len(tasks)
                store.add(
                    Finished(t.key, t.study, t.variant, t.seed, t.settings, outcome, each, origin)
                    for t, outcome in zip(tasks, outcomes, strict=True)
                )
                for task in tasks:
                    costs.add(task.variant, each)
                    del missing[task.key]
                note = f"done: {note}"
            report_status(note)
    return Remaining(len(missing), costs.rest(missing.values()))


def grouped(tasks: Sequence[Task], size: int) -> list[list[Task]]:
    """Groups of at most `size` tasks of one variant, each for one compiled program.

    The first group of every variant comes before the second of any: a study that is cut short
    has about as many seeds of each variant.
    """
    rounds: list[tuple[int, list[Task]]] = []
    for variant in dict.fromkeys(task.variant for task in tasks):
        same = [task for task in tasks if task.variant == variant]
        rounds += [(i, same[i : i + size]) for i in range(0, len(same), size)]
    return [group for _, group in sorted(rounds, key=lambda pair: pair[0])]


class Costs:
    """The time that tasks have taken, and estimates for those that remain."""

    def __init__(self, slots: int, group: int):
        self._slots = slots
        self._group = group
        self._seconds: dict[str, list[float]] = {}

    def add(self, variant: str, seconds: float) -> None:
        """Add the seconds of a task of this variant: its share of its group's time."""
        self._seconds.setdefault(variant, []).append(seconds)

    def task(self, variant: str) -> float:
        """Estimated seconds of a task: the mean of its variant, or of all tasks; 0 if unknown."""
        seconds = self._seconds.get(variant) or [s for v in self._seconds.values() for s in v]
        return sum(seconds) / len(seconds) if seconds else 0.0

    def group(self, tasks: Sequence[Task]) -> float:
        """Estimated seconds of a group."""
        return sum((self.task(task.variant) for task in tasks), 0.0)

    def rest(self, tasks: Any, done: float = 0.0) -> float:
        """Estimated seconds of tasks on all slots, `done` tasks' worth finished; NaN if unknown."""
        tasks = list(tasks)
        if tasks and not self._seconds:
            return math.nan
        left = 1.0 - done / len(tasks) if tasks else 0.0
        at_once = min(self._slots, -(-len(tasks) // self._group))
        return left * self.group(tasks) / max(1, at_once)
