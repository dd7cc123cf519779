"""A sweep that is killed, or loses a machine, ends with the rows of one that was left in peace."""

import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SEEDS = 4
SMALL = {"seeds": SEEDS, "epochs": 3, "batch": 2, "train-steps": 4, "runs": 8, "steps": 20}
PATIENCE = 120.0


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def surroundings(room):
    """Programs that are compiled once for the file, and hardly optimised."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
        "JAX_COMPILATION_CACHE_DIR": str(room / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _command(place: Path, **more) -> list[str]:
    options = {"variants": "default", "store": place / "s.sqlite", "out": place, **SMALL, **more}
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "sagewing", "sweep", "ablation", *flags]


def _seconds(place: Path) -> dict[str, float]:
    """How long each task in the store took, to the last digit: nobody takes as long twice."""
    path = place / "s.sqlite"
    if not path.exists():
        return {}
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)
    try:
        return dict(connection.execute("SELECT key, seconds FROM results").fetchall())
    except sqlite3.OperationalError:  # the table is being made
        return {}
    finally:
        connection.close()


def _arrays(place: Path) -> dict[str, bytes]:
    connection = sqlite3.connect(place / "s.sqlite")
    found = dict(connection.execute("SELECT key, data FROM results").fetchall())
    connection.close()
    return found


def _rows(place: Path) -> list[dict]:
    return json.loads((place / "result.json").read_text())["rows"]


def _until(what, process, why: str):
    """Wait for something that a running process brings about."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert process.poll() is None, f"ended before {why}"
        assert time.monotonic() < deadline, f"waited in vain until {why}"
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def quiet(room, surroundings):
    """A study that nothing disturbed: one process, all seeds in a group."""
    place = room / "quiet"
    command = _command(place, processes=1, group=SEEDS)
    subprocess.run(command, env=surroundings, check=True, capture_output=True)
    assert [row["seed"] for row in _rows(place)] == list(range(SEEDS))
    return place


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_driver_goes_on_and_its_table_is_the_same_to_the_bit(room, surroundings, quiet):
    """kill -9 in the middle: nothing is lost, nothing is repeated, and no worker lives on."""
    place = room / "killed"
    quietly = {"env": surroundings, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    driver = subprocess.Popen(_command(place, processes=2, group=1), **quietly)
    _until(lambda: _seconds(place), driver, "a task was done")
    workers = _children(driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = _seconds(place)
    assert 0 < len(before) < SEEDS
    _until(lambda: not any(map(_runs, workers)), _Nobody(), "the workers ended")
    again = subprocess.run(
        _command(place, processes=1, group=3), env=surroundings, check=True, capture_output=True
    )
    after = _seconds(place)
    assert len(after) == SEEDS
    assert {key: after[key] for key in before} == before
    assert _rows(place) == _rows(quiet)
    assert _arrays(place) == _arrays(quiet)
    for name in ("table.md", "table.tex"):
        assert (place / name).read_bytes() == (quiet / name).read_bytes()
    assert b"default" in again.stdout


class _Nobody:
    """A process that never ends."""

    def poll(self):
        return None


DRIVER = """
import sys
from pathlib import Path
import studies
from sagewing.studies.ablation import Ablation
from sagewing.jobs.ray_engine import RayEngine
from sagewing.jobs.store import open_store
from sagewing.jobs.sweep import Study, sweep

address, store, seeds, *sizes = sys.argv[1:]
epochs, batch, train_steps, runs, steps = map(int, sizes)
shared = Ablation(epochs, batch, train_steps, runs, steps)
tasks = shared.study(["default"], range(int(seeds))).tasks
with open_store(Path(store)) as opened:
    engine = RayEngine(address)
    assert engine.slots == 2
    left = sweep(Study("ablation", tasks, studies.noted_ablation), opened, engine, group=1)
    engine.close()
assert left.tasks == 0
"""


@pytest.fixture
def cluster(room, surroundings):
    """Two nodes of a Ray cluster, a core each: the address, the nodes, what the driver needs."""
    pytest.importorskip("ray", reason="Ray is the extra `cluster`: pip install 'sagewing[cluster]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    # Ray's sockets lie in it, and the path of a socket is short.
    sockets = tempfile.mkdtemp(prefix="sw-ray-")
    shared = {
        **surroundings,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "NOTES": str(room / "notes"),
    }
    start = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus", "1", "--block"]
    port = address.partition(":")[2]
    head = ["--head", "--port", port, "--include-dashboard=false", "--temp-dir", sockets]
    nodes = {}
    try:
        for name, options in (("first", head), ("second", ["--address", address])):
            said = room / f"{name}.log"
            with said.open("w") as log:
                nodes[name] = subprocess.Popen(
                    [*start, *options],
                    env={**shared, "NODE": name},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            _until(lambda said=said: "Ray runtime started" in said.read_text(), nodes[name], name)
        yield address, nodes, shared
    finally:
        for node in nodes.values():
            _end(node)
        shutil.rmtree(sockets, ignore_errors=True)


def _end(node: subprocess.Popen) -> None:
    """Pull the plug: all of a node's processes at once."""
    if node.poll() is None:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


def test_a_cluster_that_loses_a_node_completes_the_study_with_the_same_rows(room, cluster, quiet):
    address, nodes, shared = cluster
    place, notes = room / "ray", room / "notes"
    place.mkdir()
    sizes = [str(value) for value in SMALL.values()]
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, str(place / "s.sqlite"), *sizes],
        env={**shared, "NODE": "driver"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def begun(node: str) -> list[str]:
        lines = notes.read_text().splitlines() if notes.exists() else []
        return [line.split()[0] for line in lines if line.endswith(node)]

    _until(lambda: begun("second"), driver, "the second node began a task")
    _end(nodes["second"])
    assert len(_seconds(place)) < SEEDS
    _, said = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert begun("second")[-1] in begun("first")  # what the lost node had begun was done again
    assert len(_seconds(place)) == SEEDS
    assert _arrays(place) == _arrays(quiet)
