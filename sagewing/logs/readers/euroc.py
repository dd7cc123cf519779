"""EuRoC/ASL folders: `mav0/imu0`, `state_groundtruth_estimate0`, `vicon0`, `leica0`."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.log import Log
from sagewing.logs.readers.map import Map, SignalSource
from sagewing.logs.readers.text_mapped import read_mapped
from sagewing.logs.readers.text_table import Table, read_table
from sagewing.logs.rotate import conjugate, from_matrix, multiply, rotate
from sagewing.logs.signal import Signal

FORMAT = "an EuRoC/ASL folder (mav0/imu0/data.csv)"
IMU, TRUTH = "imu0", "state_groundtruth_estimate0"
# The folders of a measured pose, the preferred first; mocap0 is TUM-VI's.
POSES = ("vicon0", "mocap0", "leica0")
LARGEST_YAML_BYTES = 1 << 16
ORTHOGONAL = 1e-3  # the largest error of R R^T


def recognises(path: Path) -> bool:
    """By the table of the IMU."""
    return _root(path) is not None


def _root(folder: Path) -> Path | None:
    """The folder that contains `imu0`; None if there is none."""
    for root in (folder, folder / "mav0"):
        if (root / IMU / "data.csv").is_file():
            return root
    return None


def read(path: Path, map: Map | None = None) -> Log:
    """The log of a folder; a map may name another sensor's folder as a topic, or a delay."""
    root = _root(path)
    if root is None:
        raise InputError(f"{path} has no mav0/{IMU}/data.csv.")
    map = map or Map()
    there = [name for name in (*POSES, TRUTH) if (root / name / "data.csv").is_file()]
    chosen = map.pose.topic or (there[0] if there else None)
    if chosen is not None and chosen not in there:
        raise InputError(f"{path} has no {chosen}/data.csv; it has {', '.join(there) or 'none'}.")
    where = str(path)
    imu = SignalSource(time="0", time_unit="ns", gyro=("1", "2", "3"), acc=("4", "5", "6"))
    log = read_mapped(path.name, [_numbered(root / IMU)], where, Map(imu=imu))
    log.format = "EuRoC"
    if chosen is not None:
        log.position, log.quaternion = _pose(root / chosen, map.pose.delay_ms, log.notes)
    if chosen != TRUTH and TRUTH in there:
        log.truth_position, log.truth_quaternion = _pose(root / TRUTH, 0.0, log.notes)
    return log


def _numbered(folder: Path) -> Table:
    """The table with its columns named by their numbers: the format fixes their order."""
    table = read_table(folder / "data.csv")
    return replace(table, names=tuple(map(str, range(len(table.names)))))


def _pose(folder: Path, delay_ms: float, notes: list[str]) -> tuple[Signal, Signal | None]:
    """A sensor's pose as that of the body: its mount `T_BS` is removed."""
    table = _numbered(folder)
    has_attitude = len(table.names) >= 8
    values = table.columns([str(i) for i in range(8 if has_attitude else 4)])
    t = 1e-9 * values[:, 0] - 1e-3 * delay_ms
    position = Signal(f"{folder.name} position", t, values[:, 1:4])
    mount = _mount(folder / "sensor.yaml")
    if not has_attitude:
        if np.linalg.norm(mount[:3, 3]) > 0.0:
            notes.append(
                f"{folder.name} shows a point {np.linalg.norm(mount[:3, 3]):.2f} m from the IMU, "
                "and without attitude that is not taken out"
            )
        return position, None
    q = values[:, 4:8]
    if not np.allclose(mount, np.eye(4)):
        q = multiply(q, conjugate(np.broadcast_to(from_matrix(mount[:3, :3]), q.shape)))
        lever = np.broadcast_to(mount[:3, 3], (len(q), 3))
        position = position._replace(value=position.value - rotate(q, lever))
    return position, Signal(f"{folder.name} attitude", t, q)


def _mount(path: Path) -> np.ndarray:
    """`T_BS` of a sensor.yaml, the pose of the sensor in the body; the identity without one.

    Found by a regular expression: the rest of the file is not parsed.
    """
    if not path.is_file() or path.stat().st_size > LARGEST_YAML_BYTES:
        return np.eye(4)
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(r"T_BS:[^\[\]]*?data:\s*\[([^\]]*)\]", text)
    if found is None:
        return np.eye(4)
    try:
        mount = np.array([float(v) for v in found[1].split(",")]).reshape(4, 4)
    except ValueError as error:
        raise InputError(f"{path}: T_BS must be 16 numbers; {error}.") from None
    rotation = mount[:3, :3]
    error = np.abs(rotation @ rotation.T - np.eye(3)).max()
    if not np.isfinite(mount).all() or error > ORTHOGONAL or np.linalg.det(rotation) < 0.0:
        raise InputError(f"{path}: T_BS is no rotation and shift; correct it or take it out.")
    return mount
