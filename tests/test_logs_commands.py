"""The commands `run` and `inspect`: what they print and write, and what they refuse."""

import json
import re

import numpy as np
import pytest
from log_files import (
    flown,
    log_of,
    ned,
    ned_attitude,
    position_at,
    px4,
    ulog_bytes,
    with_noise,
)

from sagewing.cli import main as cli
from sagewing.logs.readers.map import read_map
from sagewing.logs.survey import survey
from sagewing.logs.timeline import timeline
from sagewing.report.log import caption, clocks_and_noise
from sagewing.report.page import results_table


@pytest.fixture(scope="module")
def flight():
    return flown(seconds=6.0, imu_hz=250.0, pose_hz=40.0, late=0.5)


def run_command(*args):
    cli.main([str(a) for a in args])


def test_run_writes_a_trajectory_a_filter_and_never_over_what_is_there(tmp_path, flight, capsys):
    log, out = tmp_path / "flight.ulg", tmp_path / "out"
    log.write_bytes(ulog_bytes(px4(with_noise(flight))))
    given = ("run", log, "--filter", "ekf,ndr", "--outage", "3:4", "--smooth", "--out", out)
    run_command(*given, "--json", tmp_path / "copy.json", "--quiet")
    said = capsys.readouterr()
    assert "NDR-SHKF" in said.out
    assert "1 is consistent" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 80
    assert said.err == ""
    result = json.loads((out / "result.json").read_text())
    assert (result["schema"], result["command"]) == (1, "run")
    names = ["ekf", "ekf-smoothed", "ndr", "ndr-smoothed"]
    assert [row["filter"] for row in result["rows"]] == names
    worst = [row["worst_m"] for row in result["rows"]]
    assert worst[1] < worst[0]
    smoothed = np.loadtxt(out / "ekf-smoothed.tum")
    np.testing.assert_allclose(smoothed[:, 1:4], position_at(smoothed[:, 0] - 100.0), atol=0.5)
    assert result == json.loads((tmp_path / "copy.json").read_text())
    assert "NDR-SHKF" in (out / "report.html").read_text()
    rows = np.loadtxt(out / "ndr.tum")
    np.testing.assert_allclose(rows[:, 1:4], position_at(rows[:, 0] - 100.0), atol=0.5)
    run_command("report", out / "result.json", "--out", tmp_path / "again.html", "--quiet")
    assert (tmp_path / "again.html").read_bytes() == (out / "report.html").read_bytes()
    before = (out / "ekf.tum").read_bytes()
    with pytest.raises(SystemExit) as refused:
        run_command(*given)
    assert refused.value.code == 2
    assert "--force" in capsys.readouterr().err
    assert (out / "ekf.tum").read_bytes() == before


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--filter", "ekf,magic"), "no filter 'magic'; known: ekf"),
        (("--outage", "5"), "--outage takes T0:T1"),
        (("--outage", "90:95"), "not within the log, which lasts 5"),
        (("--outage", "3:2"), "ends before it begins"),
        (("--map", "nowhere.toml"), "no map at nowhere.toml"),
        (("--policy", "flight-real-good-ekf-tuned"), "holds tuned noise"),
    ],
)
def test_a_wrong_option_is_a_sentence_and_exit_code_2(tmp_path, flight, capsys, args, why):
    log = tmp_path / "flight.ulg"
    log.write_bytes(ulog_bytes(px4(flight)))
    with pytest.raises(SystemExit) as refused:
        run_command("run", log, "--out", tmp_path / "out", *args)
    assert refused.value.code == 2
    assert re.search(why, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out").exists()


def test_inspect_drafts_a_map_that_run_can_use(tmp_path, flight, capsys):
    table = np.column_stack([flight.imu_t, flight.gyro, flight.acc])
    np.savetxt(
        tmp_path / "[bold]imu.csv",  # no markup to a terminal
        table,
        delimiter=",",
        header="timestamp,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z",
        comments="",
    )
    pose = np.column_stack([flight.pose_t, flight.position, flight.quaternion])
    head = "timestamp,px,py,pz,qw,qx,qy,qz"
    np.savetxt(tmp_path / "pose.csv", pose, delimiter=",", header=head, comments="")
    drafted = tmp_path / "made" / "map.toml"
    run_command("inspect", tmp_path, "--write-map", drafted, "--json", tmp_path / "seen.json")
    said = capsys.readouterr()
    assert "gyroscope" in said.out
    assert "clock agrees with the IMU's" in said.out
    assert '"[bold]imu.csv"' in drafted.read_text()
    out = tmp_path / "out"
    run_command("run", tmp_path, "--map", drafted, "--filter", "ekf", "--out", out, "--quiet")
    assert (out / "ekf.tum").exists()
    with pytest.raises(SystemExit):
        run_command("inspect", tmp_path, "--write-map", drafted)
    assert "would be overwritten" in " ".join(capsys.readouterr().err.split())


def test_inspect_leaves_gaps_to_fill_in_where_it_recognises_nothing(tmp_path, flight, capsys):
    table = np.column_stack([flight.imu_t, flight.acc, flight.gyro])[:50]
    log, drafted = tmp_path / "log.csv", tmp_path / "map.toml"
    np.savetxt(log, table, delimiter=",", header="Zeit,b1,b2,b3,k1,k2,k3", comments="")
    run_command("inspect", log, "--write-map", drafted)
    text = drafted.read_text()
    assert all(f"log.csv: {name}, " in text for name in ("Zeit", "b1", "k3"))
    assert read_map(drafted).imu.gyro == read_map(drafted).pose.position == ("?",) * 3
    assert "map.toml where it has question marks" in " ".join(capsys.readouterr().err.split())
    log.write_text("Dear all,\nhere is the flight.\n")
    with pytest.raises(SystemExit):
        run_command("inspect", log)
    assert "no columns of numbers" in capsys.readouterr().err


def test_a_late_and_an_early_clock_are_told_apart(flight):
    for late, said in ((0.02, "20 ms late"), (-0.02, "20 ms early"), (0.0, "agrees with")):
        log = log_of(flight._replace(pose_t=flight.pose_t + late))
        assert said in " ".join(clocks_and_noise(survey(log)))


def test_a_pose_of_other_axes_than_the_imu_is_warned_of(flight):
    def warned(log):
        found = survey(log).warnings, timeline(log).notes
        assert any("WARNING" in note for note in found[0]) == any("WARN" in n for n in found[1])
        return " ".join(found[1])

    assert "WARNING" not in warned(log_of(flight))
    log = log_of(flight)
    log.quaternion = log.quaternion._replace(value=flight.quaternion[:, [1, 2, 3, 0]])
    assert "do not turn about the same axes" in warned(log)
    log = log_of(flight)
    log.acc, log.gyro = (s._replace(value=s.value * [1, -1, -1]) for s in (log.acc, log.gyro))
    log.position = log.position._replace(value=ned(flight.position))
    log.quaternion = log.quaternion._replace(value=ned_attitude(flight.quaternion))
    assert 'frame = "ned"' in warned(log)


def test_the_vehicles_own_row_says_that_nothing_was_hidden_from_it():
    rows = [{"filter": "ekf", "window_pos_rmse_m": 0.5, "drift_m": 1.0, "nis_mean": 1e-4}]
    rows += [{"filter": "onboard", "window_pos_rmse_m": 0.1, "drift_m": 0.1}]
    assert "no pose was hidden" in caption(rows)
    assert "no pose was hidden" in results_table.caption(rows)[0]
    assert "hidden" not in caption([{"filter": "ekf", "nis_mean": 6.0}])


def test_the_new_commands_show_an_example(capsys):
    for command in ("run", "inspect"):
        with pytest.raises(SystemExit) as done:
            run_command(command, "--help")
        assert done.value.code == 0
        assert f"Example: sagewing {command}" in capsys.readouterr().out
