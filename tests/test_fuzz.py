"""Mutated files of every format: each is read or refused by name, in bounded time and memory.

In the suite for seconds; `make fuzz` tries as many as one likes (FUZZ_EXAMPLES).
"""

import contextlib
import os
import shutil
from collections import Counter

import jax
import mutations
import numpy as np
import pytest
from bounds import bounded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_files import (
    flown,
    gps,
    px4,
    ulog_bytes,
    write_bag1,
    write_bag2,
    write_euroc,
    write_imu_csv,
    write_tum,
)
from scenes import ROWS, circle

import sagewing as sw
from sagewing.cli.report import Report
from sagewing.logs.readers.map import read_map
from sagewing.logs.readers.npz import read_flight
from sagewing.logs.readers.read import read_log
from sagewing.logs.survey import survey
from sagewing.logs.timeline import timeline
from sagewing.report.page.drawing import drawing_of
from sagewing.report.page.scene_file import SCENE, write_scene
from sagewing.results import BenchResult

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
FLIGHT = flown(seconds=1.3, imu_hz=50.0, pose_hz=20.0)
MAP = """\
frame = "enu"
[imu]
file = "imu.csv"
time = "timestamp"
time_unit = "s"
acc = ["acc_x", "acc_y", "acc_z"]
acc_unit = "m/s^2"
gyro = ["gyro_x", "gyro_y", "gyro_z"]
gyro_unit = "rad/s"
[pose]
file = "pose.csv"
time = "timestamp"
time_unit = "s"
position = ["tx", "ty", "tz"]
position_unit = "m"
quaternion = ["qw", "qx", "qy", "qz"]
delay_ms = 3.0
position_std = 0.02
attitude_std = 0.01
[truth]
file = "pose.csv"
time = "timestamp"
euler = ["qx", "qy", "qz"]
euler_unit = "deg"
gps = ["tx", "ty", "tz"]
"""


def read(path, by=None):
    """All that `inspect` and `run` do before they estimate."""
    log = read_log(path, by)
    survey(log)
    timeline(log)


def read_with_map(path):
    read(path, read_map(path / "map.toml"))


def page(path):
    Report(path / "result.json", out=path / "page.html", force=True)()


def read_npz(path):
    with contextlib.suppress(sw.InputError):
        read(path)
    read_flight(path)


def policy(path):
    sw.Policy.load(path)


def make_npz(root):
    np.savez(
        root / "log.npz",
        imu_t=FLIGHT.imu_t,
        acc=FLIGHT.acc,
        gyro=FLIGHT.gyro,
        pose_t=FLIGHT.pose_t,
        pos=FLIGHT.position,
        quat_wxyz=FLIGHT.quaternion,
        mot_t=FLIGHT.imu_t,
        mot=np.full((len(FLIGHT.imu_t), 4), 3e4),
        vbat=np.full(len(FLIGHT.imu_t), 3.7),
    )


def make_tables(root):
    folder = root / "log"
    folder.mkdir()
    write_imu_csv(folder / "imu.csv", FLIGHT)
    write_tum(folder / "pose.csv", FLIGHT)
    (folder / "pose.csv").write_text((folder / "pose.csv").read_text().replace(" ", ","))
    (folder / "map.toml").write_text(MAP)


def make_ulog(root):
    degrees = FLIGHT.position * [1e-5, 1e-5, 1.0] + [47.4, 8.5, 500.0]
    topics = px4(FLIGHT) | {"vehicle_gps_position": gps(FLIGHT.pose_t, degrees)}
    (root / "log.ulg").write_bytes(ulog_bytes(topics))


def make_result(root):
    folder = root / "log"
    folder.mkdir()
    drawing = drawing_of(circle(seconds=2.0, rate=20.0))
    BenchResult("run", {"log": "a.ulg", "notes": ["one"]}, 0, ROWS).write(folder / "result.json")
    write_scene(folder / SCENE, drawing)


def make_policy(root):
    made = sw.Policy(sw.Architecture(3, 2), key=jax.random.key(0))
    made.save(root / "log", {"training": {"epochs": 3}})


D, T = mutations.damaged, mutations.table
# What makes the file or folder "log", what reads it, and its files with what may happen to each.
FORMATS = {
    "npz": (make_npz, read_npz, [("log.npz", D), ("log.npz", mutations.archive)]),
    "csv": (make_tables, read, [("imu.csv", D), ("imu.csv", T), ("pose.csv", T)]),
    "map": (make_tables, read_with_map, [("map.toml", mutations.toml), ("map.toml", D)]),
    "csv with map": (make_tables, read_with_map, [("imu.csv", T), ("pose.csv", T), ("imu.csv", D)]),
    "euroc": (
        lambda root: write_euroc(root / "log", FLIGHT, "vicon0", np.eye(4)),
        read,
        [
            ("mav0/imu0/data.csv", T),
            ("mav0/vicon0/data.csv", T),
            ("mav0/vicon0/data.csv", D),
            ("mav0/vicon0/sensor.yaml", T),
        ],
    ),
    "ulog": (make_ulog, read, [("log.ulg", D), ("log.ulg", mutations.ulog)]),
    "ROS 1 bag": (lambda root: write_bag1(root / "log.bag", FLIGHT), read, [("log.bag", D)]),
    "ROS 2 db3": (
        lambda root: write_bag2(root / "log", FLIGHT),
        read,
        [
            ("log.db3", D),
            ("log.db3", mutations.database),
            ("metadata.yaml", D),
            ("metadata.yaml", T),
        ],
    ),
    "ROS 2 mcap": (
        lambda root: write_bag2(root / "log", FLIGHT, storage="mcap"),
        read,
        [("log.mcap", D), ("metadata.yaml", T)],
    ),
    "policy": (
        make_policy,
        policy,
        [("policy.json", mutations.json_file), ("policy.json", D), ("weights.safetensors", D)],
    ),
    "result": (
        make_result,
        page,
        [
            ("result.json", mutations.json_file),
            ("result.json", D),
            (SCENE, D),
            (SCENE, mutations.archive),
        ],
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A good file or folder of each format, made once."""
    made = {}

    def of(name):
        if name not in made:
            root = tmp_path_factory.mktemp(name.replace(" ", "-"))
            FORMATS[name][0](root)
            (made[name],) = root.iterdir()
        return made[name]

    return of


@pytest.mark.parametrize("name", FORMATS)
def test_the_files_that_are_mutated_below_are_good_ones(good, name, tmp_path):
    copy = _copied(good(name), tmp_path / "copy")
    FORMATS[name][1](copy)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_is_read_or_refused_by_name_in_bounded_time_and_memory(good, name, tmp_path):
    _, use, ways = FORMATS[name]
    whole, seen = good(name), Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def tried(data):
        copy = _copied(whole, tmp_path / "copy")
        inside, way = data.draw(st.sampled_from(ways))
        part = copy / inside if copy.is_dir() else copy
        if way is mutations.database:
            way(data.draw, part)
        else:
            part.write_bytes(way(data.draw, part.read_bytes()))
        message = None
        try:
            with bounded():
                use(copy)
        except sw.InputError as refusal:
            message = str(refusal)
        seen["read" if message is None else "refused"] += 1
        assert message is None or str(tmp_path) in message, "the message does not name the file"

    tried()
    print(f"{name}: {seen.total()} mutations, {seen['read']} read, {seen['refused']} refused")


def _copied(source, to):
    if to.is_dir():
        shutil.rmtree(to)
    to = to.with_suffix(source.suffix)
    if source.is_dir():
        shutil.copytree(source, to)
    else:
        shutil.copyfile(source, to)
    return to
