"""PX4 logs (ULog), by pyulog, in east-north-up and forward-left-up.

A GPS receiver's fixes become metres in `read`, by `geodesy.east_north_up`.
"""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.geodesy import check_fixes, east_north_up, receiver_std
from sagewing.logs.log import Log, ned_log_to_enu
from sagewing.logs.readers.magic import begins_with
from sagewing.logs.readers.map import Map
from sagewing.logs.readers.text_table import printable
from sagewing.logs.readers.ulog_definitions import check_formats
from sagewing.logs.signal import Signal

FORMAT = "a PX4 ULog (.ulg)"
MAGIC = b"ULog\x01\x12\x35"
# The topics that are read, the preferred first: the IMU, an external pose, a GPS receiver, and the
# rest: the vehicle's own estimate and a simulator's truth.
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


def recognises(path: Path) -> bool:
    """By its first bytes."""
    return begins_with(path, MAGIC)


def read(path: Path, map: Map | None = None) -> Log:
    """The log of a PX4 autopilot; a map may name the topics of the IMU and of the pose."""
    map = map or Map()
    topics, notes = _topics(path)
    imu = _chosen(topics, IMU, map.imu.topic, path)
    if imu is None:
        raise InputError(
            f"{path} has no {' or '.join(IMU)}; it has {_list(topics)}. Log sensor_combined at a "
            "high rate (SDLOG_PROFILE)."
        )
    acc, gyro = _inertial(topics, imu, path)
    log = Log(path.stem, str(path), acc, gyro, format="PX4 ULog", notes=notes)
    onboard = _estimate(topics, "vehicle_local_position", "vehicle_attitude", path)
    log.onboard_position, log.onboard_quaternion = onboard
    suffix = "_groundtruth"
    truth = _estimate(topics, f"vehicle_local_position{suffix}", f"vehicle_attitude{suffix}", path)
    log.truth_position, log.truth_quaternion = truth
    pose = _chosen(topics, POSE + GPS, map.pose.topic, path)
    delay = 1e-3 * map.pose.delay_ms
    fixes = None
    if pose in GPS:
        fixes = _fixes(topics[pose], path, pose)
        rows = len(topics[pose]["timestamp"])
        stated = [topics[pose].get(name, np.zeros(rows)) for name in ("eph", "eph", "epv")]
        log.position_std = receiver_std(np.stack(stated, axis=1))
    elif pose is not None:
        log.position, log.quaternion = _odometry(topics[pose], path, pose, delay)
    log = ned_log_to_enu(log)
    if fixes is not None:
        metres = east_north_up(fixes.value, _origin(topics))
        log.position = Signal(f"{pose} position", fixes.t - delay, metres)
    return log


def _topics(path: Path) -> tuple[dict[str, Fields], list[str]]:
    """The columns of the topics that are read, of each topic the first instance that has rows."""
    try:
        from pyulog import ULog
    except ImportError:
        raise InputError(
            "Reading a ULog needs pyulog, which is not installed: pip install pyulog."
        ) from None
    field_counts = check_formats(path)
    wanted = {*IMU, *POSE, *GPS, *OTHER}
    fields_left = MOST_FIELDS

    class Subscription(ULog._MessageAddLogged):
        """Lays out the topics that are read, up to `MOST_FIELDS` fields, and no others."""

        def _parse_format(self, message_formats: Any) -> None:
            nonlocal fields_left
            if self.message_name in wanted:
                fields_left -= field_counts.get(self.message_name, 1)
                if fields_left < 0:
                    raise RuntimeError(f"its topics have more than {MOST_FIELDS} fields")
                super()._parse_format(message_formats)

    class Bounded(ULog):
        _MessageAddLogged = Subscription

    printed = io.StringIO()
    try:
        # pyulog prints warnings on stdout, which is for results.
        with contextlib.redirect_stdout(printed), path.open("rb") as file:
            read: Any = Bounded(file, list(wanted))
    # A parser of a damaged file may raise anything.
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
    """The time of sampling, or else of publishing."""
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
    accelerations = topics["sensor_accel"]
    acc, gyro = (
        Signal(name, _seconds(f), _columns(f, ("x", "y", "z"), path, topic))
        for name, f, topic in (("acc", accelerations, "sensor_accel"), ("gyro", fields, imu))
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


def _estimate(
    topics: dict[str, Fields], position_topic: str, attitude_topic: str, path: Path
) -> tuple[Signal | None, Signal | None]:
    """Position and attitude from topics of their own."""
    position = quaternion = None
    if position_topic in topics:
        fields = topics[position_topic]
        values = _columns(fields, ("x", "y", "z"), path, position_topic)
        position = Signal(position_topic, _seconds(fields), values)
    if attitude_topic in topics:
        fields = topics[attitude_topic]
        values = _quaternion(fields, path, attitude_topic)
        quaternion = Signal(attitude_topic, _seconds(fields), values)
    return position, quaternion


def _fixes(fields: Fields, path: Path, topic: str) -> Signal:
    """Latitude and longitude in degrees and altitude in m; rows without a 3D fix are left out."""
    if "latitude_deg" in fields:
        names = ("latitude_deg", "longitude_deg", "altitude_msl_m")
        value = _columns(fields, names, path, topic)
    else:
        scale = np.array([1e-7, 1e-7, 1e-3])
        value = _columns(fields, ("lat", "lon", "alt"), path, topic) * scale
    check_fixes(value, str(path), topic)
    has_fix = fields["fix_type"] >= 3 if "fix_type" in fields else np.ones(len(value), bool)
    return Signal(topic, _seconds(fields), value).select(has_fix)


def _origin(topics: dict[str, Fields]) -> np.ndarray | None:
    """The origin of the vehicle's own estimate, so that it and the fixes can be compared."""
    for topic in ("vehicle_local_position_groundtruth", "vehicle_local_position"):
        fields = topics.get(topic, {})
        if all(name in fields for name in ("ref_lat", "ref_lon", "ref_alt")):
            origins = np.stack([fields[n] for n in ("ref_lat", "ref_lon", "ref_alt")], axis=1)
            origins = origins[np.isfinite(origins).all(axis=1) & np.any(origins != 0.0, axis=1)]
            if len(origins):
                return origins[-1].astype(np.float64)
    return None
