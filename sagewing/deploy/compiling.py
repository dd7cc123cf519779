"""How a C compiler is called: where it fails, once more without a pass in which gcc 12 crashes.

It does so on large filters at -O3 ("internal compiler error: in eliminate_stmt"). Without that pass
a step of the universal policy on 19 states takes about 4% longer; with -O2 more than twice as long.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

RESCUE = "-fno-tree-fre"


def called(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """What the compiler said, at the second attempt if the first one failed."""
    first = _run(command, folder)
    if first.returncode == 0:
        return first
    second = _run([*command, RESCUE], folder)
    return second if second.returncode == 0 else first


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
