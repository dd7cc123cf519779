"""A limit on the time and the memory of what reads a hostile file."""

import resource
import signal
from contextlib import contextmanager
from pathlib import Path

LONGEST_S = 10.0
LARGEST_BYTES = 1 << 30
# A request beyond this fails at once: a machine is not to be filled by a test.
ROOM_BYTES = 4 << 30
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class TooSlow(BaseException):
    """Not an Exception: a reader that catches what a parser raises must not catch this."""


@contextmanager
def bounded():
    """Ten seconds, and a gigabyte more than the process has."""
    before, limits = _kilobytes("VmRSS"), resource.getrlimit(resource.RLIMIT_AS)
    if CLEAR.exists():
        CLEAR.write_text("5")  # the highest memory so far is that of now
        most = (_kilobytes("VmSize") << 10) + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    handler = signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    used = (_kilobytes("VmHWM") - before) << 10
    assert used < LARGEST_BYTES, f"{used >> 20} MiB"


def _too_slow(*_):
    raise TooSlow(f"more than {LONGEST_S:g} s")


def _kilobytes(name):
    if not STATUS.exists():
        return 0
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])
