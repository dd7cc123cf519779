"""The curves of a page: a few thousand points each, whatever the length of the record."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from sagewing.logs.flight import Pose, Times, Vectors
from sagewing.logs.track import Scene, Track
from sagewing.metrics.errors import attitude_error
from sagewing.report.page.angles import angle_near, euler, euler_std
from sagewing.report.page.decimate import Buckets

POINTS = 3600  # of a curve over time
PATH_POINTS = 6000  # of a path in space: ten a second for ten minutes
COLUMNS = 600  # of a heat map
NIS_WINDOW_S = 1.0  # over which NIS is averaged

# The arrays of a drawing: the number of rows (None: one for each channel), and the array whose
# length they share.
SHARED_ARRAYS = {
    "t": (1, "t"),
    "heat/t": (1, "heat/t"),
    "path/t": (1, "path/t"),
    "nis/low": (1, "t"),
    "nis/high": (1, "t"),
}
TRACK_ARRAYS = {
    "position": (3, "t"),
    "angles": (3, "t"),
    "position_std": (3, "std"),
    "angles_std": (3, "std"),
    "path": (3, "path/t"),
    "error": (2, "t"),
    "nis": (1, "t"),
    **dict.fromkeys(("q", "r", "d"), (None, "heat/t")),
}


@dataclass(frozen=True)
class Drawing:
    """Arrays by name, with time as the last axis, and the rest as a JSON object.

    The names are those of `SHARED_ARRAYS`, and those of `TRACK_ARRAYS` under `truth/`, `measured/`,
    and `i/` for filter i.
    """

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def drawing_of(scene: Scene) -> Drawing:
    """Decimate a scene: curves to their extremes, paths to every so many rows."""
    curves, columns = (Buckets.of(len(scene.t), n) for n in (POINTS, 2 * COLUMNS))
    path = np.unique(np.linspace(0, len(scene.t) - 1, PATH_POINTS).astype(int))
    reference = _reference(scene)
    arrays = {
        "t": curves.times(scene.t),
        "heat/t": columns.largest(scene.t[:, None])[:, 0],
        "path/t": scene.t[path],
        **{f"nis/{k}": v for k, v in _nis_band(scene, curves).items()},
        **_pose("measured", scene.measured, reference, curves),
    }
    if scene.truth is not None:
        arrays |= _pose("truth", scene.truth, reference, curves)
        arrays["truth/path"] = scene.truth.position[path].T
    for i, track in enumerate(scene.tracks):
        of_track = _pose(str(i), track.pose, reference, curves)
        of_track |= {f"{i}/{k}": v for k, v in _track_arrays(track, scene, curves, columns).items()}
        of_track[f"{i}/path"] = track.pose.position[path].T
        arrays |= of_track
    about = {
        "name": scene.name,
        "tracks": [track.name for track in scene.tracks],
        "outages": [list(outage) for outage in scene.outages],
        "nis_window_s": NIS_WINDOW_S,
        "imu_measured": bool(np.any((scene.arrived > 0) & _without_pose(scene.measured))),
    }
    return Drawing(about, {name: _single(array) for name, array in arrays.items()})


def _without_pose(pose: Pose) -> np.ndarray:
    """The steps without a measured pose, in which the IMU is the measurement."""
    values = np.concatenate([pose.position, pose.quaternion], axis=1)
    return np.isfinite(values).sum(axis=1) == 0


def _single(array: np.ndarray) -> np.ndarray:
    """As float32, with NaN for every value that is not finite."""
    with np.errstate(over="ignore"):
        short = np.asarray(array, np.float32)
    return np.where(np.isfinite(short), short, np.float32(np.nan))


def _reference(scene: Scene) -> Vectors:
    """The angles near which all others are unwrapped: the truth's, else the last filter's."""
    pose = scene.truth or (scene.tracks[-1].pose if scene.tracks else scene.measured)
    angles = euler(pose.quaternion)
    known = np.where(np.isfinite(angles), angles, 0.0)
    return np.unwrap(known, axis=0)


def _pose(name: str, pose: Pose, reference: Vectors, curves: Buckets) -> dict[str, np.ndarray]:
    angles = euler(pose.quaternion)
    near = [angle_near(angles[:, i], reference[:, i]) for i in range(3)]
    return {
        f"{name}/position": curves.extremes(pose.position).T,
        f"{name}/angles": np.degrees(curves.extremes(np.stack(near, axis=1))).T,
    }


def _track_arrays(
    track: Track, scene: Scene, curves: Buckets, columns: Buckets
) -> dict[str, np.ndarray]:
    """Standard deviations, errors, NIS and noise of a filter."""
    arrays: dict[str, np.ndarray] = {}
    if track.position_std is not None:
        arrays["position_std"] = curves.largest(track.position_std).T
    if track.attitude_std is not None:
        std = euler_std(euler(track.pose.quaternion), track.attitude_std)
        arrays["angles_std"] = np.degrees(curves.largest(std)).T
    if scene.truth is not None:
        distance = np.linalg.norm(track.pose.position - scene.truth.position, axis=1)
        angle = attitude_error(track.pose.quaternion, scene.truth.quaternion)
        arrays["error"] = curves.extremes(np.stack([distance, np.degrees(angle)], axis=1)).T
    if track.nis is not None:
        mean = _in_window(track.nis, scene) / _in_window(scene.arrived, scene)
        arrays["nis"] = curves.extremes(mean[:, None])[:, 0]
    for key, noise in (("q", track.q), ("r", track.r), ("d", track.d)):
        if noise is not None:
            arrays[key] = columns.largest(noise).T
    return arrays


def _in_window(values: Times, scene: Scene) -> Times:
    """The sum over the window around each step; NaN where nothing arrived in it."""
    counted = np.where(scene.arrived > 0, np.nan_to_num(values), 0.0).astype(np.float64)
    total = np.append(0.0, np.cumsum(counted))
    half = 0.5 * NIS_WINDOW_S
    first = np.searchsorted(scene.t, scene.t - half, "left")
    last = np.searchsorted(scene.t, scene.t + half, "right")
    arrived = np.append(0.0, np.cumsum(scene.arrived))
    return np.where(arrived[last] > arrived[first], total[last] - total[first], np.nan)


def _nis_band(scene: Scene, curves: Buckets) -> dict[str, np.ndarray]:
    """The 95% band of the mean NIS of a consistent filter, by degree of freedom."""
    freedom = _in_window(scene.arrived, scene)
    low, high = (chdtri(freedom, tail) / freedom for tail in (0.975, 0.025))
    return {name: curves.extremes(of[:, None])[:, 0] for name, of in (("low", low), ("high", high))}
