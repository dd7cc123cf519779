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
from sagewing.jobs.sweep import GroupProgress, Task, Work

# Workers are new processes, not copies of this one: JAX's threads do not survive a copy.
_context = multiprocessing.get_context("spawn")


class _Worker(NamedTuple):
    process: Any
    pipe: Connection


@dataclass(frozen=True)
class LocalEngine:
    """A fixed number of worker processes on this machine; each computes with one thread."""

    processes: int = 1

    @property
    def slots(self) -> int:
        """How many groups run at the same time."""
        return self.processes

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[GroupProgress, None, None]:
        """Run the groups; see `Engine`."""
        waiting = deque(groups)
        crashes = {group[0].key: 0 for group in groups}
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, list[Task]]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.processes:
                    if not may_start(waiting[0]):
                        waiting.clear()
                        break
                    group = waiting.popleft()
                    idle = [member for member in idle if member.process.is_alive()]
                    member = idle.pop() if idle else _start(work)
                    member.pipe.send([task.settings for task in group])
                    busy[member.pipe] = (member, group)
                for pipe in wait(list(busy)) if busy else ():
                    assert isinstance(pipe, Connection)
                    member, group = busy[pipe]
                    try:
                        fraction, *result = pipe.recv()
                    except (EOFError, OSError):
                        del busy[pipe]
                        member.process.join()
                        crashes[group[0].key] += 1
                        if crashes[group[0].key] > worker.RETRIES:
                            how = f"exit code {member.process.exitcode}"
                            raise worker.crash_error(group[0].variant, how) from None
                        waiting.appendleft(group)
                        yield GroupProgress(group, 0.0)
                        continue
                    if not result:
                        yield GroupProgress(group, fraction)
                        continue
                    del busy[pipe]
                    idle.append(member)
                    answer, seconds = result
                    yield GroupProgress(group, fraction, worker.outcomes_or_raise(answer), seconds)
        finally:
            for member in [*idle, *(member for member, _ in busy.values())]:
                member.process.kill()
                member.process.join()
                member.pipe.close()


def _start(work: Work) -> _Worker:
    driver_end, worker_end = _context.Pipe()
    process = _context.Process(target=_serve, args=(work, worker_end), daemon=True)
    process.start()
    worker_end.close()
    return _Worker(process, driver_end)


def _serve(work: Work, pipe: Connection) -> None:
    """A worker's main loop: receive a group, send its progress and then its outcomes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C and ends its workers
    threading.Thread(target=_exit_with_driver, daemon=True).start()
    while True:
        settings = pipe.recv()
        answer, seconds = worker.run_group(work, settings, lambda fraction: pipe.send((fraction,)))
        pipe.send((1.0, answer, seconds))


def _exit_with_driver() -> None:
    """Exit when the driver ends: a driver that is killed cannot end its workers itself."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)
