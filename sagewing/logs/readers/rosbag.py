"""ROS 1 and ROS 2 bags, by rosbags: an IMU, and the sensor that measured the pose."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.geodesy import check_fixes, east_north_up, receiver_std
from sagewing.logs.log import Log
from sagewing.logs.readers.magic import begins_with
from sagewing.logs.readers.map import Map
from sagewing.logs.readers.rosbag_messages import FIX, IMU, LAYOUTS, ODOMETRY, Messages
from sagewing.logs.readers.text_table import printable
from sagewing.logs.signal import Signal

FORMAT = "a ROS 1 bag (.bag); a ROS 2 bag (a folder, .mcap or .db3)"
ROS1, MCAP, SQLITE = b"#ROSBAG V2.0", b"\x89MCAP0\r\n", b"SQLite format 3\0"
# The message types of a measured pose, the preferred first; odometry is mostly the vehicle's own
# estimate.
POSES = (
    "geometry_msgs/msg/TransformStamped",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/PointStamped",
    FIX,
    ODOMETRY,
)


def recognises(path: Path) -> bool:
    """By its first bytes, or as a folder with a bag's metadata."""
    return (path / "metadata.yaml").is_file() or begins_with(path, ROS1, MCAP, SQLITE)


def read(path: Path, map: Map | None = None) -> Log:
    """The log in a bag; a map may name its topics."""
    map = map or Map()
    messages, notes = _messages(path, map)
    imu, pose = messages["imu"], messages.get("pose")
    values, t = imu.values, imu.t
    log = Log(
        path.stem,
        str(path),
        acc=Signal(f"{imu.topic} acceleration", t, values[:, 25:28]),
        gyro=Signal(f"{imu.topic} rate", t, values[:, 13:16]),
        format="ROS bag",
        notes=notes,
    )
    if _has_attitude(values):
        log.onboard_quaternion = Signal(f"{imu.topic} attitude", t, values[:, [3, 0, 1, 2]])
    if pose is not None:
        log.position, log.quaternion = _pose(pose, 1e-3 * map.pose.delay_ms)
        if pose.kind == FIX:
            # The diagonal of its covariance: east, north, up.
            variance = np.maximum(pose.values[:, [3, 7, 11]], 0.0)
            log.position_std = receiver_std(np.sqrt(variance))
    if "truth" in messages:
        delay = 0.0 if map.truth is None else map.truth.delay_ms
        log.truth_position, log.truth_quaternion = _pose(messages["truth"], 1e-3 * delay)
    if "onboard" in messages:
        log.onboard_position, log.onboard_quaternion = _pose(messages["onboard"], 0.0)
    return log


def _messages(path: Path, map: Map) -> tuple[dict[str, Messages], list[str]]:
    """The messages of the IMU, the pose, the truth and the onboard estimate, and notes."""
    try:
        from sagewing.logs.readers.rosbag_bounded import largest_total, opened
    except ImportError:
        raise InputError(
            "Reading a bag needs rosbags, which is not installed: pip install rosbags."
        ) from None
    ros1, where = begins_with(path, ROS1), str(path)
    try:
        with opened(path, ros1) as reader:
            kinds = {
                name: (info.msgtype, info.msgcount)
                for name, info in reader.topics.items()
                if info.msgtype in LAYOUTS
            }
            chosen, notes = _choose(kinds, map, where)
            gathered = {t: Messages(printable(t), kinds[t][0], not ros1, where) for t in chosen}
            wanted = [c for c in reader.connections if c.topic in gathered]
            left = largest_total(path)
            for connection, time, raw in reader.messages(connections=wanted):
                left -= len(raw)
                if left < 0:
                    raise InputError(f"{path} unpacks to far more than its size; it is damaged.")
                gathered[connection.topic].add(time, bytes(raw))
    except InputError:
        raise
    # A parser of a damaged file may raise anything.
    except (Exception, RecursionError) as error:
        raise InputError(
            f"{path} is not a readable bag ({printable(_reason(error))}); copy it again, or repair "
            "it (rosbag reindex, ros2 bag reindex, mcap recover)."
        ) from None
    messages = {role: gathered[topic] for topic, role in chosen.items()}
    if not len(messages["imu"].t):
        raise InputError(f"{path}: {messages['imu'].topic} has no messages.")
    return {role: found for role, found in messages.items() if len(found.t)}, notes


def _reason(error: BaseException) -> str:
    """The first clause of a parser's message: the rest is about its internals."""
    return re.split(r"[:(\n]", str(error))[0].strip() or type(error).__name__


def _choose(
    kinds: dict[str, tuple[Any, int]], map: Map, where: str
) -> tuple[dict[str, str], list[str]]:
    """The role of each topic that is read: as the map says, else the longest of the best type."""
    listed = ", ".join(f"{printable(t)} ({k[0].split('/')[-1]})" for t, k in sorted(kinds.items()))

    def named(topic: str, of: tuple[str, ...], role: str) -> str:
        if topic not in kinds or kinds[topic][0] not in of:
            raise InputError(f"{where}: [{role}] names the topic {topic!r}; known: {listed}.")
        return topic

    def longest(of: tuple[str, ...]) -> str | None:
        for kind in of:
            some = [t for t, (k, n) in kinds.items() if k == kind and n and t not in roles]
            if some:
                return max(some, key=lambda t: kinds[t][1])
        return None

    roles: dict[str, str] = {}
    imu = named(map.imu.topic, (IMU,), "imu") if map.imu.topic else longest((IMU,))
    if imu is None:
        raise InputError(
            f"{where} has no topic of sensor_msgs/Imu; of the kinds that we read it has "
            f"{listed or 'none'}."
        )
    roles[imu] = "imu"
    if map.truth is not None and map.truth.topic:
        roles[named(map.truth.topic, POSES, "truth")] = "truth"
    pose = named(map.pose.topic, POSES, "pose") if map.pose.topic else longest(POSES)
    if pose is not None:
        roles[pose] = "pose"
    odometry = longest((ODOMETRY,))
    if odometry is not None:
        roles[odometry] = "onboard"
    unused = [printable(topic) for topic in sorted(kinds) if topic not in roles]
    notes = [f"topics that are not used, and that a map could name: {', '.join(unused)}"]
    return roles, notes if unused else []


def _pose(messages: Messages, delay: float) -> tuple[Signal, Signal | None]:
    values, t = messages.values, messages.t - delay
    name = f"{messages.topic} position"
    if messages.kind == FIX:
        fixes = values[:, :3]
        check_fixes(fixes, messages.where, messages.topic)
        return Signal(name, t, east_north_up(fixes)), None
    position = Signal(name, t, values[:, :3])
    if values.shape[1] < 7:
        return position, None
    return position, Signal(f"{messages.topic} attitude", t, values[:, [6, 3, 4, 5]])


def _has_attitude(imu: np.ndarray) -> bool:
    """Whether an IMU has an attitude: without one its covariance is -1, or the quaternion zero."""
    length = np.linalg.norm(imu[:, :4], axis=1)
    return bool(np.all(imu[:, 4] != -1.0) and np.all(np.abs(length - 1.0) < 0.01))
