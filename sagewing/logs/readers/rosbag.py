"""ROS 1 and ROS 2 bags, by rosbags: an IMU, and what saw the pose."""

import bz2
import contextlib
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sagewing.databases import computes
from sagewing.errors import InputError
from sagewing.files import read_regular
from sagewing.logs.geodesy import accuracy, check_fixes, local
from sagewing.logs.log import Log
from sagewing.logs.readers.columns import Map
from sagewing.logs.readers.ros_messages import FIX, IMU, LAYOUTS, ODOMETRY, Messages
from sagewing.logs.readers.tables import printable
from sagewing.logs.repair import Signal

ROS1, MCAP, SQLITE = b"#ROSBAG V2.0", b"\x89MCAP0\r\n", b"SQLite format 3\0"
METADATA = "metadata.yaml"
# Of what saw the pose, the preferred first; odometry is mostly the vehicle's own belief.
POSES = (
    "geometry_msgs/msg/TransformStamped",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/PointStamped",
    FIX,
    ODOMETRY,
)
# A chunk is some megabytes: one that unpacks to more than this is no log's. All messages together
# are at most so many times the bag, and some for a small one. Where chunks of a ROS 1 bag overlap
# in time each is unpacked again and again: all that work is bounded, too.
LARGEST_CHUNK, INFLATION, SMALL_BYTES = 1 << 28, 100, 1 << 26
AGAIN = 10
# A parser of YAML takes long for brackets within brackets; metadata have them two deep.
LARGEST_METADATA, DEEPEST_METADATA = 1 << 20, 20
# What YAML calls by a name it may merge with itself, over and over.
ANCHOR = r"(?:^|[\s,:\[{])&\S"


def is_bag(path: Path, head: bytes) -> bool:
    """By its magic, or as a folder with a bag's metadata."""
    return (path / METADATA).is_file() or head.startswith((ROS1, MCAP, SQLITE))


def read_bag(path: Path, by: Map | None = None) -> Log:
    """The log in a bag; a map may name its topics."""
    by = by or Map()
    found, notes = _messages(path, by)
    imu, pose = found["imu"], found.get("pose")
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
        log.position, log.quaternion = _pose(pose, 1e-3 * by.pose.delay_ms)
        if pose.kind == FIX:
            # The diagonal of its covariance: east, north, up.
            log.position_std = accuracy(np.sqrt(np.maximum(pose.values[:, [3, 7, 11]], 0.0)))
    if "truth" in found:
        delay = 0.0 if by.truth is None else by.truth.delay_ms
        log.truth_position, log.truth_quaternion = _pose(found["truth"], 1e-3 * delay)
    if "onboard" in found:
        log.onboard_position, log.onboard_quaternion = _pose(found["onboard"], 0.0)
    return log


def _messages(path: Path, by: Map) -> tuple[dict[str, Messages], list[str]]:
    try:
        from rosbags.rosbag1 import Reader as Reader1
        from rosbags.rosbag2 import Reader as Reader2
    except ImportError:
        raise InputError(
            "Reading a bag needs rosbags, which is not installed: pip install rosbags."
        ) from None
    first = _is_ros1(path)
    where = str(path)
    if not first:
        _check_folder(path)
    allowed = max(SMALL_BYTES, INFLATION * _size(path))
    try:
        with (
            _bounded(path, AGAIN * allowed if first else allowed),
            (Reader1 if first else Reader2)(path) as reader,
        ):
            kinds = {
                name: (info.msgtype, info.msgcount)
                for name, info in reader.topics.items()
                if info.msgtype in LAYOUTS
            }
            if isinstance(reader, Reader2) and reader.compression_mode:
                raise _compressed(path, reader.compression_mode)
            chosen, notes = _choose(kinds, by, where)
            gathered = {t: Messages(printable(t), kinds[t][0], not first, where) for t in chosen}
            wanted = [c for c in reader.connections if c.topic in gathered]
            left = allowed
            for connection, time, raw in reader.messages(connections=wanted):
                left -= len(raw)
                if left < 0:
                    raise InputError(f"{path} unpacks to far more than its size; it is damaged.")
                gathered[connection.topic].add(time, bytes(raw))
    except InputError:
        raise
    # What a damaged file makes a parser do is not known beforehand.
    except (Exception, RecursionError) as error:
        raise InputError(
            f"{path} is not a readable bag ({printable(_reason(error))}); copy it again, or repair "
            "it (rosbag reindex, ros2 bag reindex, mcap recover)."
        ) from None
    found = {role: gathered[topic] for topic, role in chosen.items()}
    for role, messages in list(found.items()):
        if not len(messages.t):
            if role == "imu":
                raise InputError(f"{path}: {messages.topic} has no messages.")
            del found[role]
    return found, notes


def _reason(error: BaseException) -> str:
    """The first clause of what a parser says: the rest is of its own insides."""
    return re.split(r"[:(\n]", str(error))[0].strip() or type(error).__name__


def _choose(
    kinds: dict[str, tuple[Any, int]], by: Map, where: str
) -> tuple[dict[str, str], list[str]]:
    """Which topic plays which part: those of the map, else the fullest of the best kind."""
    listed = ", ".join(f"{printable(t)} ({k[0].split('/')[-1]})" for t, k in sorted(kinds.items()))

    def named(topic: str, of: tuple[str, ...], role: str) -> str:
        if topic not in kinds or kinds[topic][0] not in of:
            raise InputError(f"{where}: [{role}] names the topic {topic!r}; known: {listed}.")
        return topic

    def fullest(of: tuple[str, ...]) -> str | None:
        for kind in of:
            some = [t for t, (k, n) in kinds.items() if k == kind and n and t not in parts]
            if some:
                return max(some, key=lambda t: kinds[t][1])
        return None

    parts: dict[str, str] = {}
    imu = named(by.imu.topic, (IMU,), "imu") if by.imu.topic else fullest((IMU,))
    if imu is None:
        raise InputError(
            f"{where} has no topic of sensor_msgs/Imu; of the kinds that we read it has "
            f"{listed or 'none'}."
        )
    parts[imu] = "imu"
    if by.truth is not None and by.truth.topic:
        parts[named(by.truth.topic, POSES, "truth")] = "truth"
    pose = named(by.pose.topic, POSES, "pose") if by.pose.topic else fullest(POSES)
    if pose is not None:
        parts[pose] = "pose"
    odometry = fullest((ODOMETRY,))
    if odometry is not None:
        parts[odometry] = "onboard"
    unused = [printable(topic) for topic in sorted(kinds) if topic not in parts]
    notes = [f"topics that are not used, and that a map could name: {', '.join(unused)}"]
    return parts, notes if unused else []


def _pose(messages: Messages, delay: float) -> tuple[Signal, Signal | None]:
    values, t = messages.values, messages.t - delay
    name = f"{messages.topic} position"
    if messages.kind == FIX:
        fixes = values[:, :3]
        check_fixes(fixes, messages.where, messages.topic)
        return Signal(name, t, local(fixes)), None
    position = Signal(name, t, values[:, :3])
    if values.shape[1] < 7:
        return position, None
    return position, Signal(f"{messages.topic} attitude", t, values[:, [6, 3, 4, 5]])


def _has_attitude(imu: np.ndarray) -> bool:
    """An IMU without one says -1 for its covariance, or has it all zero."""
    length = np.linalg.norm(imu[:, :4], axis=1)
    return bool(np.all(imu[:, 4] != -1.0) and np.all(np.abs(length - 1.0) < 0.01))


def _is_ros1(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(ROS1)) == ROS1


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [p for p in path.iterdir() if p.is_file()]
    return sum(file.stat().st_size for file in files)


def _check_folder(path: Path) -> None:
    """A pipe among its files would be waited for without end, and metadata may be a maze."""
    file = path / METADATA
    if not file.is_file():
        return
    for other in path.iterdir():
        if not other.is_file() and not other.is_dir():
            raise InputError(f"{path}: {printable(other.name)} is no file; take it out.")
    text = read_regular(file, LARGEST_METADATA).decode("utf-8", "replace")
    if _depth(text) > DEEPEST_METADATA:
        raise InputError(f"{file} has brackets more than {DEEPEST_METADATA} deep; it is damaged.")
    if re.search(ANCHOR, text):
        raise InputError(f"{file} has anchors (&), which no bag has; it is damaged.")


def _depth(text: str) -> int:
    """How deep brackets stand within brackets."""
    steps = [1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text)]
    return max(accumulate(steps), default=0)


def _compressed(path: Path, mode: str) -> InputError:
    return InputError(f"{path} is compressed by {mode}; unpack it first: ros2 bag convert.")


@contextlib.contextmanager
def _bounded(path: Path, allowed: int) -> Iterator[None]:
    """Chunks do not unpack without end while this lasts; rosbags itself sets no bound.

    All together unpack to no more than is allowed. A bag compressed as a whole is not unpacked to
    disk, however large it says it is. A database that computes some of its tables is not read. And
    the quality of service of a topic, YAML that nobody here needs, is not parsed.
    """
    import apsw
    import lz4.frame
    from rosbags.rosbag1 import reader as ros1
    from rosbags.rosbag2 import reader as ros2
    from rosbags.rosbag2 import storage_mcap, storage_sqlite3

    mcap: Any = storage_mcap

    def no_qos(_: Any) -> list[Any]:
        return []

    def no_files() -> Any:
        raise _compressed(path, "file")

    def opened(*args: Any, **options: Any) -> Any:
        database = apsw.Connection(*args, **options)
        if computes(database):
            raise InputError(
                f"{path} computes some of its tables, and a bag's are stored; record it again."
            )
        return database

    left = allowed

    def limited(make: Callable[[], Any]) -> Callable[..., bytes]:
        def unpack(data: bytes, *_: Any) -> bytes:
            nonlocal left
            most = min(LARGEST_CHUNK, left)
            out = make().decompress(data, max_length=most + 1)
            left -= len(out)
            if len(out) > most:
                raise InputError(
                    f"{path}: a chunk unpacks to more than {LARGEST_CHUNK >> 20} MiB, or all "
                    f"chunks to more than {allowed >> 20} MiB; no log of its size does: it is "
                    "damaged, or made to fill the memory."
                )
            return out

        return unpack

    lz4_limited = limited(lz4.frame.LZ4FrameDecompressor)
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (ros1.decompressors, {"bz2": limited(bz2.BZ2Decompressor), "lz4": lz4_limited}),
        (mcap.DECOMPRESSORS, {"zstd": limited(mcap.zstd.ZstdDecompressor), "lz4": lz4_limited}),
    ]
    replaced += [(vars(module), {"parse_qos": no_qos}) for module in (ros2, mcap, storage_sqlite3)]
    replaced += [(vars(ros2), {"TemporaryDirectory": no_files})]
    stored = SimpleNamespace(**vars(apsw) | {"Connection": opened})
    replaced += [(vars(storage_sqlite3), {"apsw": stored})]
    before = [{name: table[name] for name in new} for table, new in replaced]
    for table, new in replaced:
        table.update(new)
    try:
        yield
    finally:
        for (table, _), old in zip(replaced, before, strict=True):
            table.update(old)
