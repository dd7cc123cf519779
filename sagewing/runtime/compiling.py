"""Calls of a C compiler: for a limited time, and again without a pass in which gcc 12 crashes.

gcc 12 crashes on large filters at -O3 ("internal compiler error: in eliminate_stmt"). Without that
pass a step of the universal policy on 19 states takes about 4% longer; with -O2 more than twice as
long.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sagewing.codegen.refusal import NotInC

TIME_LIMIT = 300.0  # seconds for a compiler; our largest filters take about ten
RETRY_FLAG = "-fno-tree-fre"


def run_compiler(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The result of the compiler; if it fails it is called again, with `RETRY_FLAG`."""
    first = run_limited(command, folder)
    if first.returncode == 0:
        return first
    second = run_limited([*command, RETRY_FLAG], folder)
    return second if second.returncode == 0 else first


def run_limited(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The result of a command, which is ended after `TIME_LIMIT` with all of its children."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=TIME_LIMIT)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NotInC(
                    f"The C compiler did not end in {TIME_LIMIT:g} s: {' '.join(command)}"
                ) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
