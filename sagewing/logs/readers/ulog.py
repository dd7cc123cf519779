"""PX4 logs (ULog), by pyulog; north, east, down and forward, right, down become our axes."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.geodesy import accuracy, check_fixes, local
from sagewing.logs.log import Log, enu_of_ned
from sagewing.logs.readers.columns import Map
from sagewing.logs.readers.tables import printable
from sagewing.logs.readers.ulog_formats import check_formats
from sagewing.logs.repair import Signal

MAGIC = b"ULog\x01\x12\x35"
# The topics that are read, the preferred first: the gyroscope with the accelerometer, what saw the
# pose from outside, a receiver of GPS, a simulator's truth, and what the vehicle believed.
IMU = ("sensor_combined", "sensor_gyro")
POSE = ("vehicle_mocap_odometry", "vehicle_visual_odometry", "att_pos_mocap")
GPS = ("vehicle_gps_position", "sensor_gps")
OTHER = (
    "sensor_accel",
    "vehicle_local_position",
    "vehicle_attitude",
    "vehicle_local_position_groundtruth",
    "vehicle_attitude_groundtruth",
)
# A log has some hundred fields of these topics; a parser needs some hundred bytes for each.
MOST_FIELDS = 1 << 16

Fields = dict[str, np.ndarray]


def read_ulog(path: Path, by: Map | None = None) -> Log:
    """The log of a PX4 autopilot; a map may name the topics of the IMU and of the pose."""
    by = by or Map()
    topics, notes = _topics(path)
    imu = _chosen(topics, IMU, by.imu.topic, path)
    if imu is None:
        raise InputError(
            f"{path} has no {' or '.join(IMU)}; it has {_list(topics)}. Log sensor_combined at a "
            "high rate (SDLOG_PROFILE)."
        )
    acc, gyro = _inertial(topics, imu, path)
    log = Log(path.stem, str(path), acc, gyro, format="PX4 ULog", notes=notes)
    onboard = _signals(topics, "vehicle_local_position", "vehicle_attitude", path)
    log.onboard_position, log.onboard_quaternion = onboard
    suffix = "_groundtruth"
    truth = _signals(topics, f"vehicle_local_position{suffix}", f"vehicle_attitude{suffix}", path)
    log.truth_position, log.truth_quaternion = truth
    pose = _chosen(topics, POSE + GPS, by.pose.topic, path)
    delay = 1e-3 * by.pose.delay_ms
    fixes = None
    if pose in GPS:
        fixes = _fixes(topics[pose], path, pose)
        rows = len(topics[pose]["timestamp"])
        said = [topics[pose].get(name, np.zeros(rows)) for name in ("eph", "eph", "epv")]
        log.position_std = accuracy(np.stack(said, axis=1))
    elif pose is not None:
        log.position, log.quaternion = _odometry(topics[pose], path, pose, delay)
    log = enu_of_ned(log)
    if fixes is not None:  # east, north, up already
        east = local(fixes.value, _origin(topics))
        log.position = Signal(f"{pose} position", fixes.t - delay, east)
    return log


def _topics(path: Path) -> tuple[dict[str, Fields], list[str]]:
    """The wanted topics' columns, each by the first of its instances that has rows."""
    try:
        from pyulog import ULog
    except ImportError:
        raise InputError(
            "Reading a ULog needs pyulog, which is not installed: pip install pyulog."
        ) from None
    laid_out = check_formats(path)
    wanted = {*IMU, *POSE, *GPS, *OTHER}
    room = MOST_FIELDS

    class Subscription(ULog._MessageAddLogged):
        """A topic that is not wanted is not laid out, and the others have so much room."""

        def _parse_format(self, message_formats: Any) -> None:
            nonlocal room
            if self.message_name in wanted:
                room -= laid_out.get(self.message_name, 1)
                if room < 0:
                    raise RuntimeError(f"its topics have more than {MOST_FIELDS} fields")
                super()._parse_format(message_formats)

    class Bounded(ULog):
        _MessageAddLogged = Subscription

    said = io.StringIO()
    try:
        # It prints what it doubts; stdout is for results.
        with contextlib.redirect_stdout(said), path.open("rb") as file:
            read: Any = Bounded(file, list(wanted))
    # What a damaged file makes a parser do is not known beforehand.
    except (Exception, RecursionError) as error:
        raise InputError(
            f"{path} is not a readable ULog: {type(error).__name__}: {printable(str(error))}; "
            "copy it from the vehicle again."
        ) from None
    topics: dict[str, Fields] = {}
    for data in sorted(read.data_list, key=lambda data: data.multi_id):
        rows = len(data.data.get("timestamp", ()))
        if data.name not in topics and rows:
            topics[data.name] = data.data
    damaged = ["the file is damaged or cut off; what could be read is used"]
    return topics, damaged if read.file_corruption else []


def _chosen(
    topics: dict[str, Fields], known: tuple[str, ...], named: str | None, path: Path
) -> str | None:
    if named is None:
        return next((topic for topic in known if topic in topics), None)
    if named not in known or named not in topics:
        has = _list({topic: topics[topic] for topic in known if topic in topics})
        raise InputError(f"{path} has no topic {named!r} of this kind; it has {has}.")
    return named


def _list(topics: dict[str, Fields]) -> str:
    return ", ".join(printable(name) for name in sorted(topics)) or "none of the topics we know"


def _columns(fields: Fields, names: tuple[str, ...], path: Path, topic: str) -> np.ndarray:
    for name in names:
        if name not in fields:
            raise InputError(f"{path}: {topic} has no field {name!r}; is this a log of PX4?")
    return np.stack([fields[name] for name in names], axis=1).astype(np.float64)


def _three(name: str) -> tuple[str, ...]:
    return tuple(f"{name}[{i}]" for i in range(3))


def _seconds(fields: Fields) -> np.ndarray:
    """When it was sampled, or else published."""
    sampled = fields.get("timestamp_sample")
    stamp = fields["timestamp"] if sampled is None or not np.all(sampled) else sampled
    return 1e-6 * stamp.astype(np.float64)


def _inertial(topics: dict[str, Fields], imu: str, path: Path) -> tuple[Signal, Signal]:
    fields = topics[imu]
    if imu == "sensor_combined":
        gyro = _columns(fields, _three("gyro_rad"), path, imu)
        acc = _columns(fields, _three("accelerometer_m_s2"), path, imu)
        t = 1e-6 * fields["timestamp"].astype(np.float64)
        return Signal("acc", t, acc), Signal("gyro", t, gyro)
    if "sensor_accel" not in topics:
        raise InputError(f"{path} has {imu} and no sensor_accel; log sensor_combined.")
    felt = topics["sensor_accel"]
    acc, gyro = (
        Signal(name, _seconds(f), _columns(f, ("x", "y", "z"), path, topic))
        for name, f, topic in (("acc", felt, "sensor_accel"), ("gyro", fields, imu))
    )
    return acc, gyro


def _quaternion(fields: Fields, path: Path, topic: str) -> np.ndarray:
    return _columns(fields, tuple(f"q[{i}]" for i in range(4)), path, topic)


def _odometry(fields: Fields, path: Path, topic: str, delay: float) -> tuple[Signal, Signal | None]:
    t = _seconds(fields) - delay
    names = _three("position") if "position[0]" in fields else ("x", "y", "z")
    position = Signal(f"{topic} position", t, _columns(fields, names, path, topic))
    if "q[0]" not in fields:
        return position, None
    return position, Signal(f"{topic} attitude", t, _quaternion(fields, path, topic))


def _signals(
    topics: dict[str, Fields], place: str, turn: str, path: Path
) -> tuple[Signal | None, Signal | None]:
    position = quaternion = None
    if place in topics:
        values = _columns(topics[place], ("x", "y", "z"), path, place)
        position = Signal(place, _seconds(topics[place]), values)
    if turn in topics:
        quaternion = Signal(turn, _seconds(topics[turn]), _quaternion(topics[turn], path, turn))
    return position, quaternion


def _fixes(fields: Fields, path: Path, topic: str) -> Signal:
    """Latitude, longitude (degrees) and altitude (m); rows without a fix in space are none."""
    if "latitude_deg" in fields:
        names = ("latitude_deg", "longitude_deg", "altitude_msl_m")
        value = _columns(fields, names, path, topic)
    else:
        scale = np.array([1e-7, 1e-7, 1e-3])
        value = _columns(fields, ("lat", "lon", "alt"), path, topic) * scale
    check_fixes(value, str(path), topic)
    good = fields["fix_type"] >= 3 if "fix_type" in fields else np.ones(len(value), bool)
    return Signal(topic, _seconds(fields), value).keep(good)


def _origin(topics: dict[str, Fields]) -> np.ndarray | None:
    """Where the vehicle put its own origin, so that its estimate and the fixes agree."""
    for topic in ("vehicle_local_position_groundtruth", "vehicle_local_position"):
        fields = topics.get(topic, {})
        if all(name in fields for name in ("ref_lat", "ref_lon", "ref_alt")):
            told = np.stack([fields[n] for n in ("ref_lat", "ref_lon", "ref_alt")], axis=1)
            told = told[np.isfinite(told).all(axis=1) & np.any(told != 0.0, axis=1)]
            if len(told):
                return told[-1].astype(np.float64)
    return None


def is_ulog(head: bytes) -> bool:
    """By its magic."""
    return head.startswith(MAGIC)
