"""Log files of every format, written by the formats' own libraries or by hand, and read back."""

import numpy as np
import pytest
from log_files import (
    fix_topics,
    flown,
    gps,
    imu_topic,
    ned,
    ned_attitude,
    pose_messages,
    pose_topics,
    px4,
    rows,
    ulog_bytes,
    write_bag1,
    write_bag2,
    write_euroc,
)

import sagewing as sw
from sagewing.logs.geodesy import east_north_up
from sagewing.logs.log import Log
from sagewing.logs.readers import read as reading
from sagewing.logs.readers.map import Map, SignalSource
from sagewing.logs.readers.read import read_log
from sagewing.logs.rotate import from_matrix
from sagewing.logs.signal import Signal

FLIGHT = flown(seconds=2.0, imu_hz=100.0, pose_hz=20.0)
HOME = np.array([47.3977, 8.5456, 488.0])
POSE_KINDS = (
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/TransformStamped",
    "nav_msgs/msg/Odometry",
)


def same_attitude(got, expected, tolerance):
    np.testing.assert_allclose(np.abs(np.sum(got * expected, axis=1)), 1.0, atol=tolerance)


def assert_read(log, flight=FLIGHT, tolerance=1e-9):
    np.testing.assert_allclose(log.acc.t, flight.imu_t, atol=1e-6)
    np.testing.assert_allclose(log.acc.value, flight.acc, atol=10 * tolerance)
    np.testing.assert_allclose(log.gyro.value, flight.gyro, atol=10 * tolerance)
    np.testing.assert_allclose(log.position.t, flight.pose_t, atol=1e-6)
    np.testing.assert_allclose(log.position.value, flight.position, atol=tolerance)
    same_attitude(log.quaternion.value, flight.quaternion, tolerance)


def geodetic(position):
    """Fixes near home whose local metres are the positions, by Newton's method."""
    fixes = np.tile(HOME, (len(position), 1))
    scale = np.array([1.0 / 111_000.0, 1.0 / 75_000.0, 1.0])
    for _ in range(20):
        off = position - east_north_up(fixes, HOME)
        fixes = fixes + off[:, [1, 0, 2]] * scale
    return fixes


def written_ulog(tmp_path, topics):
    path = tmp_path / "flight.bin"  # the suffix is not what tells
    path.write_bytes(ulog_bytes(topics))
    return path


def test_a_ulog_with_motion_capture_is_read_in_our_axes(tmp_path):
    log = read_log(written_ulog(tmp_path, px4(FLIGHT)))
    assert log.format == "PX4 ULog"
    assert_read(log, tolerance=1e-6)


def test_gps_in_a_ulog_becomes_metres_from_the_vehicles_origin(tmp_path):
    t, fixes = FLIGHT.pose_t, geodetic(FLIGHT.position)
    topics = {
        "sensor_combined": px4(FLIGHT)["sensor_combined"],
        "vehicle_gps_position": gps(t, fixes, np.where(np.arange(len(t)) == 3, 1, 3)),
        "vehicle_local_position": rows(
            t,
            f_x=FLIGHT.position[:, 1],
            f_y=FLIGHT.position[:, 0],
            f_z=-FLIGHT.position[:, 2],
            d_ref_lat=np.full(len(t), HOME[0]),
            d_ref_lon=np.full(len(t), HOME[1]),
            f_ref_alt=np.full(len(t), HOME[2]),
        ),
        "vehicle_attitude": rows(t, f_q=ned_attitude(FLIGHT.quaternion)),
    }
    log = read_log(written_ulog(tmp_path, topics))
    fixed = np.arange(len(t)) != 3
    np.testing.assert_allclose(log.position.value, FLIGHT.position[fixed], atol=1e-3)
    np.testing.assert_allclose(log.onboard_position.value, FLIGHT.position, atol=1e-5)
    same_attitude(log.onboard_quaternion.value, FLIGHT.quaternion, 1e-5)
    assert log.quaternion is None
    assert log.position_std == pytest.approx((0.8, 0.8, 1.2))


def test_a_simulators_truth_in_a_ulog_is_the_truth(tmp_path):
    x, y, z = ned(FLIGHT.position).T
    truth = {
        "vehicle_local_position_groundtruth": rows(FLIGHT.pose_t, f_x=x, f_y=y, f_z=z),
        "vehicle_attitude_groundtruth": rows(FLIGHT.pose_t, f_q=ned_attitude(FLIGHT.quaternion)),
    }
    log = read_log(written_ulog(tmp_path, px4(FLIGHT) | truth))
    np.testing.assert_allclose(log.truth_position.value, FLIGHT.position, atol=1e-5)
    same_attitude(log.truth_quaternion.value, FLIGHT.quaternion, 1e-5)


def test_a_ulog_that_was_cut_off_is_used_as_far_as_it_goes(tmp_path):
    whole = ulog_bytes(dict(reversed(px4(FLIGHT).items())))
    path = tmp_path / "cut.ulg"
    path.write_bytes(whole[: len(whole) - 777])
    log = read_log(path)
    assert 100 < len(log.acc.t) < len(FLIGHT.imu_t)


@pytest.mark.parametrize("kind", POSE_KINDS)
def test_a_ros1_bag_is_read_back(tmp_path, kind):
    path = tmp_path / "flight.bag"
    write_bag1(path, FLIGHT, lambda flight, store: pose_topics(flight, store, kind))
    log = read_log(path)
    assert_read(log)
    assert log.onboard_quaternion is None  # the IMU says that it has no attitude


@pytest.mark.parametrize("storage", ["sqlite3", "mcap"])
def test_a_ros2_bag_is_read_back_as_a_folder_and_as_a_file(tmp_path, storage):
    folder = tmp_path / "bag"
    write_bag2(folder, FLIGHT, storage=storage)
    assert_read(read_log(folder))
    if storage == "mcap":
        assert_read(read_log(next(folder.glob("*.mcap"))))


@pytest.mark.parametrize("storage", ["sqlite3", "mcap"])
def test_the_quality_of_service_of_a_topic_does_not_matter(tmp_path, storage):
    from rosbags import interfaces as ros

    second = ros.QosTime(1, 0)
    qos = ros.Qos(
        ros.QosHistory.KEEP_LAST,
        10,
        ros.QosReliability.RELIABLE,
        ros.QosDurability.VOLATILE,
        second,
        second,
        ros.QosLiveliness.AUTOMATIC,
        second,
        False,
    )
    write_bag2(tmp_path / "bag", FLIGHT, storage=storage, qos=[qos])
    assert "keep_last" in (tmp_path / "bag" / "metadata.yaml").read_text()
    assert_read(read_log(tmp_path / "bag"))


@pytest.mark.parametrize("kind", POSE_KINDS[1:])
def test_names_in_a_ros2_message_may_have_any_length(tmp_path, kind):
    write_bag2(tmp_path / "bag", FLIGHT, lambda f, store: pose_topics(f, store, kind))
    assert_read(read_log(tmp_path / "bag"))


@pytest.mark.parametrize("write", [write_bag1, write_bag2])
def test_fixes_in_a_bag_become_local_metres_with_their_accuracy(tmp_path, write):
    fixes = geodetic(FLIGHT.position)
    path = tmp_path / ("fix.bag" if write is write_bag1 else "fix")
    write(path, FLIGHT, lambda flight, store: fix_topics(flight, store, fixes, std=2.0))
    log = read_log(path)
    moved = FLIGHT.position - FLIGHT.position[0]
    np.testing.assert_allclose(log.position.value, moved, atol=1e-4)
    assert log.quaternion is None
    assert log.position_std == pytest.approx((2.0, 2.0, 2.0))


def test_odometry_beside_motion_capture_is_the_vehicles_own_and_a_map_may_choose(tmp_path):
    kinds = {"/mocap": POSE_KINDS[0], "/odom": POSE_KINDS[2]}

    def topics(flight, store):
        return [
            imu_topic(flight, store),
            *((topic, kind, pose_messages(flight, store, kind)) for topic, kind in kinds.items()),
        ]

    path = tmp_path / "two.bag"
    write_bag1(path, FLIGHT, topics)
    log = read_log(path)
    assert log.position.name.startswith("/mocap")
    assert log.onboard_position.name.startswith("/odom")
    chosen = read_log(path, Map(pose=SignalSource(topic="/odom", delay_ms=40.0)))
    assert chosen.position.name.startswith("/odom")
    np.testing.assert_allclose(chosen.position.t, FLIGHT.pose_t - 0.04, atol=1e-6)
    with pytest.raises(sw.InputError, match=r"/nowhere.*known: .*/mocap \(PoseStamped\)"):
        read_log(path, Map(pose=SignalSource(topic="/nowhere")))


def test_an_euroc_folder_is_read_and_its_only_pose_is_the_ground_truth(tmp_path):
    log = read_log(write_euroc(tmp_path / "V1", FLIGHT))
    assert_read(log, tolerance=1e-6)
    assert log.truth_position is None
    assert_read(read_log(tmp_path / "V1" / "mav0"), tolerance=1e-6)


def test_the_mount_of_euroc_motion_capture_is_taken_out(tmp_path):
    mount = np.eye(4)
    mount[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    mount[:3, 3] = [0.1, -0.2, 0.3]
    log = read_log(write_euroc(tmp_path / "V1", FLIGHT, "vicon0", mount))
    assert_read(log, tolerance=1e-6)
    np.testing.assert_allclose(log.truth_position.value, FLIGHT.position, atol=1e-6)


def test_a_matrix_and_its_quaternion_are_one_rotation():
    half = np.diag([-1.0, 1.0, -1.0])
    np.testing.assert_allclose(from_matrix(half), [0.0, 0.0, 1.0, 0.0], atol=1e-12)


def test_a_mount_that_mirrors_is_refused(tmp_path):
    folder = write_euroc(tmp_path / "V1", FLIGHT, "vicon0", np.eye(4))
    file = next(folder.rglob("vicon0/sensor.yaml"))
    mirror = ", ".join(map(str, np.diag([1.0, 1.0, -1.0, 1.0]).ravel()))
    file.write_text(f"T_BS:\n  cols: 4\n  rows: 4\n  data: [{mirror}]\n")
    with pytest.raises(sw.InputError, match="T_BS is no rotation and shift"):
        read_log(folder)


def test_a_new_format_is_one_line_in_the_table(tmp_path, monkeypatch):
    class Known:
        FORMAT = "a made-up log (.known)"

        def recognises(self, path):
            return path.suffix == ".known"

        def read(self, path, map=None):
            t, nothing = np.arange(3.0), np.zeros((3, 3))
            return Log(path.stem, str(path), Signal("acc", t, nothing), Signal("gyro", t, nothing))

    monkeypatch.setattr(reading, "READERS", (Known(), *reading.READERS))
    (tmp_path / "one.known").write_bytes(b"x")
    (tmp_path / "one.other").write_bytes(b"\x00")
    assert read_log(tmp_path / "one.known").name == "one"
    with pytest.raises(sw.InputError, match="a made-up log"):
        read_log(tmp_path / "one.other")


def test_what_is_no_log_is_refused_with_what_is(tmp_path):
    picture = tmp_path / "picture.bag"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(sw.InputError, match=r"no log that we know.*ULog.*ROS 1 bag.*EuRoC.*npz"):
        read_log(picture)
    with pytest.raises(sw.InputError, match=r"There is no log at .*none\.$"):
        read_log(tmp_path / "none")
