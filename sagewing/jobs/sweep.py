"""A study of many tasks that survives: what is in the store is done, and the rest is computed.

A task is a pure function of its settings, and its key is their hash: a second start does only what
is missing, and a changed setting is another task.
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

# Part of every key: rises when the same settings give other rows than before.
SCHEMA = 1
# Seeds that are trained by one compiled program, if not said otherwise.
GROUP = 5

# Does a group's tasks, given their settings; it is told how far it is by a number in 0..1.
Work = Callable[[list[dict[str, Any]], Callable[[float], None]], list[Outcome]]


@dataclass(frozen=True)
class Task:
    """One training and its evaluation.

    `settings` are plain JSON and say all that the result depends on, a `seed` among it.
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
        known = {"schema": SCHEMA, "study": self.study, **self.settings}
        canonical = json.dumps(known, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class Study:
    """Tasks, what does them, and how many bytes of arrays each leaves behind.

    `work` is a function of a module, so that another process, or another machine, finds it.
    """

    name: str
    tasks: list[Task]
    work: Work
    bytes_each: int = 0


class Said(NamedTuple):
    """What an engine says: how far a group is and, when it is done, what came out."""

    group: list[Task]
    part: float
    outcomes: list[Outcome] | None = None
    seconds: float = 0.0


@runtime_checkable
class Engine(Protocol):
    """Where groups of tasks are done."""

    @property
    def slots(self) -> int:
        """How many groups are done at once."""
        ...

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[Said, None, None]:
        """Do the groups in their order; stop at the first that may not start any more.

        A group whose worker dies is done again. Closing the iterator ends all workers.
        """
        ...


class Status(NamedTuple):
    """Where a sweep is: tasks done and in all, the seconds that the rest may take, what it does."""

    done: float
    total: int
    seconds_left: float
    note: str


class Left(NamedTuple):
    """What a sweep that ran out of time leaves, and the seconds that it would take."""

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
) -> Left:
    """Do what is missing in the store, for `budget` seconds at the most; what is left then.

    A group is started only if those before it let expect that it ends in time; what has been
    started is finished.
    """
    began = time.monotonic()
    known = store.seconds(study.name)
    costs = Costs(engine.slots, group)
    for task in study.tasks:  # those of other settings, in the same store, tell nothing
        if task.key in known:
            costs.add(task.variant, known[task.key])
    missing = {task.key: task for task in study.tasks if task.key not in known}
    groups = grouped(list(missing.values()), group)
    store.make_room(len(missing), study.bytes_each)
    total = len({task.key for task in study.tasks})
    origin = {"commit": commit(), "versions": versions()}
    running: dict[str, float] = {}

    def may_start(tasks: list[Task]) -> bool:
        spent = time.monotonic() - began
        return spent < budget and spent + costs.group(tasks) <= budget

    def tell(note: str) -> None:
        part = sum(running.values(), 0.0)
        rest = costs.rest(missing.values(), part)
        if math.isnan(rest) and part > 0.0:  # nothing has ended yet: as fast as up to here
            rest = (time.monotonic() - began) * (len(missing) - part) / part
        report(Status(total - len(missing) + part, total, rest, note))

    tell("starting")
    with closing(engine.run(study.work, groups, may_start)) as events:
        for tasks, part, outcomes, seconds in events:
            note = f"{tasks[0].variant}, seeds {', '.join(str(t.seed) for t in tasks)}"
            if outcomes is None:
                running[tasks[0].key] = part * len(tasks)
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
            tell(note)
    return Left(len(missing), costs.rest(missing.values()))


def grouped(tasks: Sequence[Task], size: int) -> list[list[Task]]:
    """Groups of one variant each, as one program does them.

    Every variant's first seeds come before any one's next: a study that is cut short is even.
    """
    rounds: list[tuple[int, list[Task]]] = []
    for variant in dict.fromkeys(task.variant for task in tasks):
        of = [task for task in tasks if task.variant == variant]
        rounds += [(i, of[i : i + size]) for i in range(0, len(of), size)]
    return [group for _, group in sorted(rounds, key=lambda pair: pair[0])]


class Costs:
    """What tasks have cost so far, and what others will."""

    def __init__(self, slots: int, group: int):
        self._slots = slots
        self._group = group
        self._seconds: dict[str, list[float]] = {}

    def add(self, variant: str, seconds: float) -> None:
        """A task of this variant took so long, as one of several in a worker."""
        self._seconds.setdefault(variant, []).append(seconds)

    def task(self, variant: str) -> float:
        """What one more will take: as its like did, or as all did; 0 where nothing is known."""
        like = self._seconds.get(variant) or [s for of in self._seconds.values() for s in of]
        return sum(like) / len(like) if like else 0.0

    def group(self, tasks: Sequence[Task]) -> float:
        """What a group will take, one task after another."""
        return sum((self.task(task.variant) for task in tasks), 0.0)

    def rest(self, tasks: Any, part: float = 0.0) -> float:
        """What tasks will take on all slots, `part` of a task being done; NaN if nobody knows."""
        tasks = list(tasks)
        if tasks and not self._seconds:
            return math.nan
        left = 1.0 - part / len(tasks) if tasks else 0.0
        at_once = min(self._slots, -(-len(tasks) // self._group))
        return left * self.group(tasks) / max(1, at_once)
