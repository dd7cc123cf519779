"""The sweep's engine on a Ray cluster: each group runs where a core is free."""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from sagewing.errors import InputError
from sagewing.jobs import worker
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import GroupProgress, Task, Work

SECONDS_BETWEEN_POLLS = 1.0
SECONDS_TO_CONNECT = 10.0


class RayEngine:
    """A Ray cluster at an address, or one on this machine alone where none is given.

    A group takes one core. Ray runs it again when its worker or its node crashes. The nodes need
    only this package.
    """

    def __init__(self, address: str | None = None):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        try:
            import ray
        except ImportError:
            raise InputError(
                "--engine ray needs Ray, which is not installed: pip install 'sagewing[cluster]'."
            ) from None
        self._ray: Any = ray
        if address:
            _check_reachable(address)
        try:
            local_options = {} if address else {"include_dashboard": False}
            self._ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **local_options,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable(address, str(error).strip().splitlines()[0]) from None

    def close(self) -> None:
        """Disconnect; a cluster that was started for this sweep is shut down."""
        self._ray.shutdown()

    @property
    def slots(self) -> int:
        """The cores that the cluster has now: nodes may join and leave."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Work, groups: Sequence[list[Task]], may_start: Callable[[list[Task]], bool]
    ) -> Generator[GroupProgress, None, None]:
        """Run the groups; see `Engine`."""
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=worker.RETRIES)(_run_group)
        waiting = deque(groups)
        running: dict[Any, list[Task]] = {}
        try:
            while waiting or running:
                # No more than there are cores: a submitted group can no longer be held back.
                while waiting and len(running) < self.slots:
                    if not may_start(waiting[0]):
                        waiting.clear()
                        break
                    group = waiting.popleft()
                    settings = [task.settings for task in group]
                    running[remote.remote(work, settings)] = group
                pending = list(running)
                ready = ray.wait(pending, timeout=SECONDS_BETWEEN_POLLS)[0] if pending else []
                for reference in ready:
                    group = running.pop(reference)
                    try:
                        answer, seconds = ray.get(reference)
                    except (ray.exceptions.RayError, OSError) as error:
                        raise worker.crash_error(group[0].variant, type(error).__name__) from error
                    yield GroupProgress(group, 1.0, worker.outcomes_or_raise(answer), seconds)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _check_reachable(address: str) -> None:
    """Refuse an address that accepts no connection; Ray would wait for it for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--address takes HOST:PORT; got {address}.")
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str | None, reason: str) -> InputError:
    return InputError(
        f"No Ray cluster answers at --address {address} ({reason}); start one with "
        "`ray start --head --port 6379` and give its HOST:6379 (see docs/ablation.md)."
    )


def _run_group(
    work: Work, settings: list[dict[str, Any]]
) -> tuple[list[Outcome] | str | InputError, float]:
    return worker.run_group(work, settings, lambda part: None)
