"""Tables of text: what is recognised in them, what a map says, and what is refused."""

import numpy as np
import pytest
from log_files import G, flown, ned, ned_attitude, write_imu_csv, write_tum

import sagewing as sw
from sagewing.logs.clock import clock_offset
from sagewing.logs.geodesy import earth_centred, east_north_up
from sagewing.logs.readers.map import Map, SignalSource, read_map
from sagewing.logs.readers.read import read_log
from sagewing.logs.readers.text import tables_of
from sagewing.logs.readers.text_draft import draft
from sagewing.logs.readers.text_table import read_table
from sagewing.logs.rotate import to_euler
from sagewing.logs.signal import Signal
from sagewing.logs.survey import survey

FLIGHT = flown(seconds=3.0, imu_hz=100.0, pose_hz=25.0)


def assert_read(log, flight=FLIGHT, shift=0.0):
    np.testing.assert_allclose(log.acc.value, flight.acc, atol=1e-6)
    np.testing.assert_allclose(log.gyro.value, flight.gyro, atol=1e-6)
    np.testing.assert_allclose(log.position.t, flight.pose_t - shift, atol=1e-6)
    np.testing.assert_allclose(log.position.value, flight.position, atol=1e-6)
    turned = np.abs(np.sum(log.quaternion.value * flight.quaternion, axis=1))
    np.testing.assert_allclose(turned, 1.0, atol=1e-6)


def test_a_tum_trajectory_beside_an_imu_csv_is_a_log(tmp_path):
    write_tum(tmp_path / "groundtruth.txt", FLIGHT)
    write_imu_csv(tmp_path / "imu.csv", FLIGHT)
    assert_read(read_log(tmp_path))


def test_an_imu_without_a_header_is_known_by_gravity(tmp_path):
    write_tum(tmp_path / "pose.tum", FLIGHT)
    table = np.column_stack([FLIGHT.imu_t, FLIGHT.acc, FLIGHT.gyro])
    np.savetxt(tmp_path / "imu.txt", table, fmt="%.9f")
    assert_read(read_log(tmp_path))


def one_table(flight=FLIGHT, every=4):
    """IMU and pose in one table; the pose's cells are empty where none came."""
    head = "time [ms];ax;ay;az;wx;wy;wz;x;y;z;roll;pitch;yaw;mode"
    lines = [head]
    euler = np.degrees(to_euler(flight.quaternion))
    for k, t in enumerate(flight.imu_t):
        imu = [1e3 * t, *(flight.acc[k] / 9.80665), *np.degrees(flight.gyro[k])]
        i = k // every
        seen = k % every == 0 and i < len(flight.position)
        pose = [*(1e3 * flight.position[i]), *euler[i]] if seen else [""] * 6
        lines.append(";".join(str(v) for v in (*imu, *pose, "POSCTL")))
    return "\n".join(lines) + "\n"


MAP = """
[imu]
time = "time [ms]"
time_unit = "ms"
acc = ["ax", "ay", "az"]
acc_unit = "g"
gyro = ["wx", "wy", "wz"]
gyro_unit = "deg/s"

[pose]
time = "time [ms]"
time_unit = "ms"
position = ["x", "y", "z"]
position_unit = "mm"
euler = ["roll", "pitch", "yaw"]
euler_unit = "deg"
delay_ms = 3.0
position_std = 0.05
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "flight.csv"
    path.write_text(one_table())
    return path


def test_any_csv_is_read_by_its_map(tmp_path, table):
    (tmp_path / "map.toml").write_text(MAP)
    log = read_log(table, read_map(tmp_path / "map.toml"))
    # The pose stands in the row of the IMU sample before it, 3 ms late by the map.
    assert_read(log, shift=0.3 / 100.0 + 0.003)
    assert log.position_std == (0.05,) * 3


def test_a_draft_finds_columns_and_units_and_survives_its_own_file(tmp_path, table):
    found, lacks = draft(tables_of(table))
    assert not lacks
    assert found.imu == read_map(_written(tmp_path, MAP)).imu
    assert found.pose.euler_unit == "deg"
    again = read_map(_written(tmp_path, found.toml()))
    assert again == found


def _written(tmp_path, text):
    path = tmp_path / "some.toml"
    path.write_text(text)
    return path


def test_a_pose_that_is_held_until_the_next_counts_once(tmp_path):
    k = np.minimum(np.arange(len(FLIGHT.imu_t)) // 4, len(FLIGHT.position) - 1)
    names = "t,gx,gy,gz,acc_x,acc_y,acc_z,px,py,pz,qw,qx,qy,qz".replace("g", "gyro_")
    columns = (FLIGHT.imu_t, FLIGHT.gyro, FLIGHT.acc, FLIGHT.position[k], FLIGHT.quaternion[k])
    np.savetxt(
        tmp_path / "held.csv", np.column_stack(columns), delimiter=",", header=names, comments=""
    )
    log = read_log(tmp_path / "held.csv")
    assert len(log.position.t) == len(FLIGHT.position)
    assert any("repeated" in note for note in log.notes)


def test_latitude_and_longitude_become_metres(tmp_path):
    fixes = np.array([[47.0, 8.0, 400.0], [47.0001, 8.0, 400.0], [47.0, 8.0001, 410.0]])
    metres = east_north_up(fixes)
    # A minute of latitude is a nautical mile, to half a percent.
    np.testing.assert_allclose(metres[1], [0.0, 0.006 * 1852.0, 0.0], atol=0.06)
    np.testing.assert_allclose(metres[2], [7.602, 0.0, 10.0], atol=0.01)
    far = np.array([[0.0, 0.0, 0.0], [90.0, 0.0, 0.0]])
    expected = [[6378137.0, 0.0, 0.0], [0.0, 0.0, 6356752.3142]]
    np.testing.assert_allclose(earth_centred(far), expected, atol=1e-3)


def test_axes_of_north_east_down_are_turned(tmp_path):
    over = np.array([1.0, -1.0, -1.0])
    head = "t,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z"
    imu = FLIGHT._replace(gyro=FLIGHT.gyro * over, acc=FLIGHT.acc * over)
    write_imu_csv(tmp_path / "imu.csv", imu, head)
    pose = FLIGHT._replace(
        position=ned(FLIGHT.position), quaternion=ned_attitude(FLIGHT.quaternion)
    )
    write_tum(tmp_path / "pose.txt", pose)
    found, _ = draft(tables_of(tmp_path))
    assert_read(read_log(tmp_path, Map(found.imu, found.pose, frame="ned")))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("acc_unit", "gee"), r"\[imu\] has no setting 'gee'"),
        (('"g"', '"lb"'), r"acc_unit must be one of m/s\^2, g; got 'lb'"),
        (('["ax", "ay", "az"]', '["ax"]'), "acc must be a list of 3 columns"),
        (("delay_ms = 3.0", "delay_ms = true"), "delay_ms must be a number"),
        (("[pose]", "[pose"), "not a readable TOML file"),
        (("[pose]", '[pose]\nfile = "../x.csv"'), "a name in the log's folder"),
        (("position_std = 0.05", "position_std = -1"), "must be between 1e-09 and"),
    ],
)
def test_a_wrong_map_is_refused_with_what_is_wrong(tmp_path, change, why):
    with pytest.raises(sw.InputError, match=why):
        read_map(_written(tmp_path, MAP.replace(*change)))


def test_a_table_without_names_that_we_know_asks_for_a_map(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("alpha,beta\n" + "1,2\n" * 50)
    with pytest.raises(sw.InputError, match=r"alpha, beta.*inspect .*odd.csv --write-map"):
        read_log(path)


def test_a_word_where_a_number_should_be_is_named(tmp_path, table):
    text = table.read_text().splitlines()
    text[5] = text[5].replace(";", ";broken", 1)
    table.write_text("\n".join(text))
    found = Map(imu=SignalSource(time="time [ms]", acc=("ax", "ay", "az"), gyro=("wx", "wy", "wz")))
    with pytest.raises(sw.InputError, match=r"flight.csv is not a table of numbers.*broken"):
        read_log(table, found)


def test_names_from_a_header_cannot_steer_a_terminal(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t,\x1b[31mred\x07,\u202etxt\n1,2,3\n")
    assert read_table(path).names == ("t", "[31mred", "txt")


def test_the_survey_sees_rates_gaps_and_units(tmp_path, table):
    (tmp_path / "map.toml").write_text(MAP.replace('acc_unit = "g"', ""))
    log = read_log(table, read_map(tmp_path / "map.toml"))
    found = survey(log)
    seen = {s.role: s for s in found.signals}
    assert seen["gyroscope"].rate_hz == pytest.approx(100.0, rel=1e-3)
    assert seen["position"].rate_hz == pytest.approx(25.0, rel=1e-3)
    assert seen["accelerometer"].unit == "g?"
    assert any("acc_unit" in warning for warning in found.warnings)


@pytest.mark.parametrize("late", [-0.12, 0.0, 0.047])
def test_a_late_clock_is_found(late):
    flight = flown(seconds=20.0, imu_hz=200.0, pose_hz=60.0)
    gyro = Signal("gyro", flight.imu_t, flight.gyro)
    pose = Signal("attitude", flight.pose_t + late, flight.quaternion)
    offset = clock_offset(gyro, pose)
    assert offset.late_s == pytest.approx(late, abs=0.002)
    assert offset.credible


def test_the_made_up_flight_obeys_its_own_gravity():
    assert np.median(np.linalg.norm(FLIGHT.acc, axis=1)) == pytest.approx(G[2], rel=0.1)


def test_gx_is_a_gyroscope_and_a_vehicle_may_stand_still(tmp_path):
    rows = np.zeros((200, 10))
    rows[:, 0], rows[:, 3] = 0.01 * np.arange(200), 9.81
    head = "time,ax,ay,az,gx,gy,gz,x,y,z"
    np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header=head, comments="")
    log = read_log(tmp_path / "log.csv")
    assert (log.gyro.value == 0.0).all()
    assert len(log.position.t) == 200
