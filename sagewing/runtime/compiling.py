"""How a C compiler is called: for a limited time, and again without a pass in which gcc 12 crashes.

It does so on large filters at -O3 ("internal compiler error: in eliminate_stmt"). Without that pass
a step of the universal policy on 19 states takes about 4% longer; with -O2 more than twice as long.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sagewing.codegen.refusal import NotInC

PATIENCE = 300.0  # seconds for a compiler; our largest filters take about ten
RESCUE = "-fno-tree-fre"


def compiled(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """What the compiler said, at the second attempt if the first one failed."""
    first = ran(command, folder)
    if first.returncode == 0:
        return first
    second = ran([*command, RESCUE], folder)
    return second if second.returncode == 0 else first


def ran(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """What a compiler says; one that takes too long is ended, with all that it has started."""
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
            out, err = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NotInC(
                    f"The C compiler did not end in {PATIENCE:g} s: {' '.join(command)}"
                ) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
