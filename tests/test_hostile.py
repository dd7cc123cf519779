"""Hostile files, through the command line: a result, or exit code 2 and one message that names it.

The corpus is in `tests/hostile`; `make.py` there says how it was made.
"""

import hashlib
import os
import shutil
import warnings
from pathlib import Path

import pytest
from bounds import bounded
from log_files import flown, write_imu_csv, write_tum

import sagewing as sw
from sagewing.cli import console
from sagewing.cli.main import main
from sagewing.jobs.store import open_store
from sagewing.logs.readers.read import read_log
from sagewing.report.page.result_page import overview_in

CORPUS = Path(__file__).parent / "hostile"
FLIGHT = flown(seconds=1.3, imu_hz=50.0, pose_hz=20.0)


def files(kind):
    return sorted(path.name for path in (CORPUS / kind).iterdir())


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in; a file called "executed" there is what hostile code would make."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(place):
    """A good log."""
    folder = place / "good"
    folder.mkdir()
    write_imu_csv(folder / "imu.csv", FLIGHT)
    write_tum(folder / "pose.csv", FLIGHT)
    return folder


def copied(kind, name, place):
    source, copy = CORPUS / kind / name, place / name
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, copy)
    return copy


def contents(folder):
    digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digests[path.relative_to(folder)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def outcome(words, place, capsys, name, written=()):
    """The exit code; a refusal is one message with the name, and leaves all files as they were."""
    before = contents(place)
    with bounded():
        try:
            # A warning would be a second message.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                main(words)
            code = 0
        except SystemExit as end:
            code = end.code
    said = capsys.readouterr().err
    after = contents(place)
    for path in written:
        after.pop(Path(path), None)
    assert after == before
    assert code in (0, 2), said
    if code == 2:
        assert said.count("error:") == 1, said
        assert "Traceback" not in said
        assert name in said
        assert len(said) < 3000
    return code


@pytest.mark.parametrize("name", files("logs"))
def test_a_hostile_log_is_inspected_or_refused(place, capsys, name):
    copied("logs", name, place)
    outcome(["inspect", name], place, capsys, name)
    # None of them is a whole flight, so that nothing is estimated.
    assert outcome(["run", name, "--filter", "ekf"], place, capsys, name) == 2


@pytest.mark.parametrize("name", files("maps"))
def test_a_hostile_map_is_refused(log, place, capsys, name):
    copied("maps", name, place)
    assert outcome(["inspect", "good", "--map", name], place, capsys, name) == 2


@pytest.mark.parametrize("name", files("policies"))
def test_a_hostile_policy_is_refused(log, place, capsys, name):
    copied("policies", name, place)
    words = ["run", "good", "--filter", "ndr", "--policy", f"./{name}"]
    assert outcome(words, place, capsys, name) == 2


@pytest.mark.parametrize("name", files("results"))
def test_a_hostile_result_is_shown_or_refused(place, capsys, name):
    copied("results", name, place)
    words = ["report", f"{name}/result.json", "--out", "page.html"]
    if outcome(words, place, capsys, name, ["page.html"]) == 0:
        (place / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", files("stores"))
def test_a_hostile_store_is_refused_and_left_as_it_is(place, name):
    store = copied("stores", name, place)
    before = store.read_bytes()
    with bounded(), pytest.raises(sw.InputError, match=name), open_store(store):
        pass
    assert store.read_bytes() == before


@pytest.mark.parametrize("kind", ["csv", "ulg", "npz", "toml", "json"])
def test_a_pipe_and_a_device_are_refused_and_not_waited_for(log, place, capsys, kind):
    words = {"toml": ["inspect", "good", "--map"], "json": ["report"]}.get(kind, ["inspect"])
    os.mkfifo(place / f"pipe.{kind}")
    (place / f"device.{kind}").symlink_to("/dev/zero")
    for name in (f"pipe.{kind}", f"device.{kind}"):
        assert outcome([*words, name], place, capsys, name) == 2


def test_a_table_with_a_hole_of_gigabytes_is_not_read_into_memory(place, capsys):
    table = place / "hole.csv"
    header = "timestamp,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z,x,y,z\n"
    table.write_text(header + "1,2,3,4,5,6,7,8,9,0\n" * 5000)  # beyond what is looked at first
    os.truncate(table, 3 << 30)
    try:
        with bounded(), pytest.raises(sw.InputError, match=r"hole.csv: line \d+ has more than"):
            read_log(table)
    finally:
        table.unlink()


def test_a_picture_with_a_hole_of_gigabytes_is_left_out_of_a_page(place):
    (place / "overview.png").write_bytes(b"\x89PNG\r\n")
    assert len(overview_in(place)) == 1
    os.truncate(place / "overview.png", 3 << 30)
    with bounded():
        assert overview_in(place) == []


def test_a_log_whose_name_is_not_utf8_is_run_and_shown(log, place, capsys):
    name = os.fsdecode(b"fl\xffght")
    log.rename(place / name)
    main(["inspect", name, "--write-map", "map.toml", "--json", "found.json"])
    main(["run", name, "--filter", "ekf", "--out", "out"])
    main(["report", "out/result.json", "--out", "again.html"])
    for page in ("out/report.html", "again.html"):
        assert "fl?ght" in (place / page).read_text(encoding="utf-8")
    assert "fl?ght" in (place / "out/result.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["[/bold]:warning:.csv", ":x:", "[red]a"])
def test_a_name_like_markup_is_shown_as_it_is(place, capsys, name):
    with pytest.raises(SystemExit):
        main(["inspect", name])
    assert f"error: There is no log at {name}." in capsys.readouterr().err
    console.err.print(f"Written: {name}")
    console.notes([name])
    assert capsys.readouterr().err == f"Written: {name}\nnote: {name}\n"


def test_a_name_does_not_move_the_cursor(place, capsys):
    with pytest.raises(SystemExit):
        main(["inspect", "a\x1b[2Jb\r"])
    assert "There is no log at a\ufffd[2Jb\ufffd." in capsys.readouterr().err
