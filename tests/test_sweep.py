"""A sweep does what is missing, once, and says what is wrong before it starts."""

import dataclasses
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import studies

import sagewing as sw
from sagewing.cli.main import main
from sagewing.jobs import store as stores
from sagewing.jobs.local_engine import LocalEngine
from sagewing.jobs.ray_engine import RayEngine
from sagewing.jobs.store import open_store
from sagewing.jobs.sweep import Task, grouped, sweep
from sagewing.jobs.worker import TaskFailed
from sagewing.studies.ablation import VARIANTS, Ablation, variants_named


def _run(study, path, processes=1, **more):
    with open_store(path) as store:
        left = sweep(study, store, LocalEngine(processes), **more)
        return left, list(store.get(task.key for task in study.tasks))


def _rows(results):
    return [
        (r.variant, r.seed, r.outcome.numbers, r.outcome.arrays["errors"].tolist()) for r in results
    ]


def test_a_second_start_does_only_what_is_missing(tmp_path):
    store = tmp_path / "s.sqlite"
    _run(studies.study(tmp_path, 3, studies.noted), store, group=2)
    left, results = _run(studies.study(tmp_path, 5, studies.noted), store, group=2)
    assert studies.notes(tmp_path) == ["0", "1", "2", "3", "4"]
    assert left.tasks == 0
    assert [r.seed for r in results] == [0, 1, 2, 3, 4]
    expected = np.random.default_rng(4).normal(size=4).astype(np.float32)
    np.testing.assert_array_equal(results[4].outcome.arrays["errors"], expected)


def test_a_changed_setting_is_another_task_and_a_name_is_not():
    task = Task("toy", "a", {"seed": 0, "epochs": 10})
    assert dataclasses.replace(task, variant="b").key == task.key
    for changed in ({"seed": 1, "epochs": 10}, {"seed": 0, "epochs": 11}):
        assert dataclasses.replace(task, settings=changed).key != task.key
    assert dataclasses.replace(task, study="other").key != task.key


def test_every_setting_of_the_ablation_makes_another_study():
    def keys(**changes):
        return {task.key for task in Ablation(**changes).study(list(VARIANTS), [0, 1]).tasks}

    assert len(keys()) == 2 * len(VARIANTS)  # no two variants are the same
    for name in ("epochs", "batch", "train_steps", "runs", "steps"):
        assert not keys() & keys(**{name: getattr(Ablation, name) + 1}), name


def test_variants_are_found_by_name_and_by_axis():
    assert variants_named("depth") == ["default", "depth-1", "depth-5"]
    assert variants_named("aux-0") == ["default", "aux-0"]
    assert len(variants_named("paper")) == 9
    assert variants_named("all") == list(VARIANTS)
    with pytest.raises(sw.InputError, match=r"no variant or axis 'width'; known: default, depth-1"):
        variants_named("depth,width")


def test_a_study_that_is_cut_short_is_even():
    study = studies.study(Path(), 4, studies.noted, variants=("a", "b"))
    names = [(g[0].variant, [t.seed for t in g]) for g in grouped(study.tasks, 2)]
    assert names == [("a", [0, 1]), ("b", [0, 1]), ("a", [2, 3]), ("b", [2, 3])]


def test_a_budget_stops_cleanly_and_says_what_is_left(tmp_path):
    """Known costs decide: what would not end in time is not begun, and the rest goes on later."""
    store = tmp_path / "s.sqlite"
    study = studies.study(tmp_path, 12, studies.noted, seconds=0.4)
    left, results = _run(study, store, group=1, budget=0.5)
    assert len(results) == 1  # nothing was known of the first; a second would not end in time
    assert left.tasks == 11
    assert 11 * 0.4 <= left.seconds < 11 * 10.0
    other = studies.study(tmp_path, 3, studies.noted, seconds=0.01)
    assert _run(other, store, group=1, budget=0.5)[1]  # the first study's costs are not its own
    (tmp_path / "notes").write_text("0\n")
    left, results = _run(study, store, group=1, budget=1e-9)
    assert (left.tasks, len(results)) == (11, 1)
    left, results = _run(study, store, group=6, processes=2)
    assert (left.tasks, len(results)) == (0, 12)
    assert sorted(studies.notes(tmp_path), key=int) == [str(i) for i in range(12)]


def test_progress_counts_what_was_there_before(tmp_path):
    store, said = tmp_path / "s.sqlite", []
    _run(studies.study(tmp_path, 2, studies.noted), store)
    _run(studies.study(tmp_path, 4, studies.noted), store, group=2, report=said.append)
    assert (said[0].done, said[0].total) == (2, 4)
    assert any(s.done == 3.0 for s in said)  # half a group
    assert (said[-1].done, said[-1].seconds_left) == (4, 0.0)


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    quiet = _run(studies.study(tmp_path, 3, studies.noted), tmp_path / "quiet.sqlite")[1]
    (tmp_path / "notes").unlink()
    study = studies.study(tmp_path, 3, studies.mortal)
    results = _run(study, tmp_path / "s.sqlite", group=1, processes=2)[1]
    assert sorted(studies.notes(tmp_path)) == ["0", "0", "1", "1", "2", "2"]
    assert _rows(results) == _rows(quiet)
    with pytest.raises(sw.InputError, match=r"on a died 4 times \(exit code -9\).*smaller --group"):
        _run(studies.study(tmp_path, 1, studies.doomed), tmp_path / "d.sqlite")


def test_an_error_in_a_task_is_told_and_what_was_finished_is_kept(tmp_path):
    study = studies.study(tmp_path, 2, studies.wrong)
    with pytest.raises(TaskFailed, match=r"ZeroDivisionError: in a task"):
        _run(study, tmp_path / "s.sqlite", group=1)
    with open_store(tmp_path / "s.sqlite") as store:
        assert [r.seed for r in store.get(task.key for task in study.tasks)] == [0]


def test_ray_that_is_not_there_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sw.InputError, match=r"pip install 'sagewing\[cluster\]'"):
        RayEngine()


def test_a_cluster_that_does_not_answer_is_told_at_once():
    pytest.importorskip("ray", reason="Ray is the extra `cluster`")
    with pytest.raises(sw.InputError, match=r"at --address 127\.0\.0\.1:1 .*ray start"):
        RayEngine("127.0.0.1:1")
    with pytest.raises(sw.InputError, match=r"takes HOST:PORT; got here"):
        RayEngine("here")


def test_two_sweeps_do_not_share_a_store(tmp_path):
    path = tmp_path / "s.sqlite"
    again = pytest.raises(sw.InputError, match=r"in use by another sweep")
    with open_store(path), again, open_store(path):
        pass
    with open_store(path):
        pass


def _refused(capsys, *args):
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", "ablation", *map(str, args)])
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_a_store_that_cannot_be_written_is_refused_before_any_training(
    tmp_path, capsys, monkeypatch
):
    out = ("--out", tmp_path / "out")
    (tmp_path / "file").write_text("no database, and longer than its header would be\n" * 9)
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    for place, why in (
        (tmp_path / "file" / "s.sqlite", "cannot be written"),
        (tmp_path, "cannot be written"),
        ("/proc/s.sqlite", "cannot be written"),
        (tmp_path / "file", "file is not a database"),
        (tmp_path / "other.sqlite", "not a store of this version"),
    ):
        assert why in _refused(capsys, *out, "--store", place)
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda path: _Disk())
    said = _refused(capsys, *out, "--store", tmp_path / "s.sqlite")
    assert "90 results need" in said
    assert "the disk has 5 MB free" in said


class _Disk:
    free = 5_000_000


FULL = """
import resource, signal, sys
from sagewing.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
main(sys.argv[1:])
"""


def test_a_disk_that_takes_no_more_is_found_by_writing(tmp_path):
    """A file may not grow beyond 40 kB here, as under a quota, whatever the free space says."""
    command = ["sweep", "ablation", "--store", str(tmp_path / "s"), "--out", str(tmp_path / "o")]
    run = subprocess.run([sys.executable, "-c", FULL, *command], capture_output=True, text=True)
    assert run.returncode == 2, run.stderr
    assert "cannot be written" in run.stderr
    assert "start the same command again" in run.stderr
    assert not (tmp_path / "o" / "result.json").exists()
