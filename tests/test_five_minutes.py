"""The first page, command by command, in a clean virtual environment; and the long example.

They install from an index and compile for minutes, so they run when asked for: `make five-minutes`.
"""

import os
import shutil
import subprocess
import sys

import pytest
from docs_pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.skipif(
    "SAGEWING_FIVE_MINUTES" not in os.environ, reason="takes minutes: make five-minutes"
)
NOT_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@pytest.fixture
def checkout(tmp_path):
    """The files that git has, and nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        copy = tmp_path / "checkout" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy)
    return tmp_path / "checkout"


def _environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    paths = kept["PATH"].split(os.pathsep)
    clean = [path for path in paths if path != os.path.dirname(sys.executable)]  # noqa: PTH120
    return {**kept, "PATH": os.pathsep.join(clean), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_first_page_works_in_a_clean_environment(checkout, tmp_path):
    script = "set -ex\n" + "".join(blocks(DOCS / "start.md", "sh"))
    done = subprocess.run(
        ["bash", "-c", script.replace("python3 -m venv", f'"{sys.executable}" -m venv')],
        cwd=checkout,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    made = ["demo/report.html", "pendulum.png", "flight.npz", "c/sagewing_filter.c"]
    made += ["flight/result.json", "flight/ndr.tum", "flight/report.html"]
    for name in made:
        assert (checkout / "out" / name).is_file(), name


def test_a_flight_log_goes_from_inspect_to_c(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "flight_log.py"), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "out" / "run" / "ndr.tum").is_file()
    assert (tmp_path / "out" / "c" / "sagewing_filter.c").is_file()
