"""The sweep's engine on one machine: worker processes, each with one group at a time."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from sagewing.jobs import worker
from sagewing.jobs.sweep import Said, Task, Work

# Workers are new processes, not copies of this one: JAX's threads do not survive a copy.
_context = multiprocessing.get_context("spawn")


class _Worker(NamedTuple):
    process: Any
    pipe: Connection


@dataclass(frozen=True)
class LocalEngine:
    """So many worker processes on this machine; each computes with one thread."""

    processes: int = 1

    @property
    def slots(self) -> int:
        """How many groups are done at once."""
        return self.processes

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[Said, None, None]:
        """Do the groups; see `Engine`."""
        waiting = deque(groups)
        deaths = {group[0].key: 0 for group in groups}
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, list[Task]]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.processes:
                    if not may_start(waiting[0]):
                        waiting.clear()
                        break
                    group = waiting.popleft()
                    idle = [one for one in idle if one.process.is_alive()]
                    one = idle.pop() if idle else _start(work)
                    one.pipe.send([task.settings for task in group])
                    busy[one.pipe] = (one, group)
                for pipe in wait(list(busy)) if busy else ():
                    assert isinstance(pipe, Connection)
                    one, group = busy[pipe]
                    try:
                        part, *result = pipe.recv()
                    except (EOFError, OSError):
                        del busy[pipe]
                        one.process.join()
                        deaths[group[0].key] += 1
                        if deaths[group[0].key] > worker.RETRIES:
                            how = f"exit code {one.process.exitcode}"
                            raise worker.died(group[0].variant, how) from None
                        waiting.appendleft(group)
                        yield Said(group, 0.0)
                        continue
                    if not result:
                        yield Said(group, part)
                        continue
                    del busy[pipe]
                    idle.append(one)
                    said, seconds = result
                    yield Said(group, part, worker.outcomes_of(said), seconds)
        finally:
            for one in [*idle, *(one for one, _ in busy.values())]:
                one.process.kill()
                one.process.join()
                one.pipe.close()


def _start(work: Work) -> _Worker:
    ours, theirs = _context.Pipe()
    process = _context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(work: Work, pipe: Connection) -> None:
    """A worker's life: a group comes, how far it is and what came of it go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's, who ends its workers
    threading.Thread(target=_die_with_the_driver, daemon=True).start()
    while True:
        settings = pipe.recv()
        said, seconds = worker.do(work, settings, lambda part: pipe.send((part,)))
        pipe.send((1.0, said, seconds))


def _die_with_the_driver() -> None:
    """A driver that was killed cannot end its workers; they would compute for nobody."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)
