"""The sweep's engine on a Ray cluster: groups go wherever a core is free."""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from sagewing.errors import InputError
from sagewing.jobs import worker
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import Said, Task, Work

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_FOR_AN_ANSWER = 10.0


class RayEngine:
    """A Ray cluster at an address, or one of this machine alone where none is given.

    A group takes one core. Ray runs it again when its worker or its node dies; the nodes need
    this package and nothing else.
    """

    def __init__(self, address: str | None = None):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports home unless told not to
        try:
            import ray
        except ImportError:
            raise InputError(
                "--engine ray needs Ray, which is not installed: pip install 'sagewing[cluster]'."
            ) from None
        self._ray: Any = ray
        if address:
            _knock(address)
        try:
            alone = {} if address else {"include_dashboard": False}
            self._ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **alone,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _nobody(address, str(error).strip().splitlines()[0]) from None

    def close(self) -> None:
        """Leave the cluster; one that was started for this sweep ends."""
        self._ray.shutdown()

    @property
    def slots(self) -> int:
        """The cores of the cluster as it is now: nodes may come and go."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[Said, None, None]:
        """Do the groups; see `Engine`."""
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=worker.RETRIES)(_group)
        waiting = deque(groups)
        running: dict[Any, list[Task]] = {}
        try:
            while waiting or running:
                # No more than there are cores: what is handed in cannot be held back any more.
                while waiting and len(running) < self.slots:
                    if not may_start(waiting[0]):
                        waiting.clear()
                        break
                    group = waiting.popleft()
                    settings = [task.settings for task in group]
                    running[remote.remote(work, settings)] = group
                pending = list(running)
                ready = ray.wait(pending, timeout=SECONDS_BETWEEN_LOOKS)[0] if pending else []
                for reference in ready:
                    group = running.pop(reference)
                    try:
                        said, seconds = ray.get(reference)
                    except (ray.exceptions.RayError, OSError) as error:
                        raise worker.died(group[0].variant, type(error).__name__) from error
                    yield Said(group, 1.0, worker.outcomes_of(said), seconds)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _knock(address: str) -> None:
    """Refuse an address where nobody listens; Ray would wait there for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--address takes HOST:PORT; got {address}.")
    try:
        socket.create_connection((host, int(port)), SECONDS_FOR_AN_ANSWER).close()
    except OSError as error:
        raise _nobody(address, str(error)) from None


def _nobody(address: str | None, why: str) -> InputError:
    return InputError(
        f"No Ray cluster answers at --address {address} ({why}); start one with "
        "`ray start --head --port 6379` and give its HOST:6379 (see docs/ablation.md)."
    )


def _group(
    work: Work, settings: list[dict[str, Any]]
) -> tuple[list[Outcome] | str | InputError, float]:
    return worker.do(work, settings, lambda part: None)
