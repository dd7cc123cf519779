"""What a page draws of a scene: a few thousand points a curve, whatever the record's length."""

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
PATH_POINTS = 6000  # of a path in space: ten a second in ten minutes, so that a curve is one
COLUMNS = 600  # of a heat map
NIS_WINDOW_S = 1.0  # over which NIS is averaged

# The arrays of a drawing: how many rows (None: as many as there are channels) and whose length.
SHARED = {
    "t": (1, "t"),
    "heat/t": (1, "heat/t"),
    "path/t": (1, "path/t"),
    "nis/low": (1, "t"),
    "nis/high": (1, "t"),
}
OF_ONE = {
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
    """Arrays by name, time last, and what is not a number: a plain JSON object.

    Those of `SHARED`, and those of `OF_ONE` under `truth/`, `measured/`, and `i/` for filter i.
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
        made = _pose(str(i), track.pose, reference, curves)
        made |= {f"{i}/{k}": v for k, v in _said(track, scene, curves, columns).items()}
        made[f"{i}/path"] = track.pose.position[path].T
        arrays |= made
    about = {
        "name": scene.name,
        "tracks": [track.name for track in scene.tracks],
        "outages": [list(outage) for outage in scene.outages],
        "nis_window_s": NIS_WINDOW_S,
        "imu_measured": bool(np.any((scene.arrived > 0) & _unseen(scene.measured))),
    }
    return Drawing(about, {name: _plain(array) for name, array in arrays.items()})


def _unseen(pose: Pose) -> np.ndarray:
    """Where no pose was measured; what arrived there is the IMU."""
    seen = np.concatenate([pose.position, pose.quaternion], axis=1)
    return np.isfinite(seen).sum(axis=1) == 0


def _plain(array: np.ndarray) -> np.ndarray:
    """What a page can draw: short, and NaN for what is no number."""
    with np.errstate(over="ignore"):
        short = np.asarray(array, np.float32)
    return np.where(np.isfinite(short), short, np.float32(np.nan))


def _reference(scene: Scene) -> Vectors:
    """Angles that the others are drawn beside: the truth's, else those of the last filter."""
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


def _said(track: Track, scene: Scene, curves: Buckets, columns: Buckets) -> dict[str, np.ndarray]:
    """What else a filter said, and how wrong it was."""
    made: dict[str, np.ndarray] = {}
    if track.position_std is not None:
        made["position_std"] = curves.largest(track.position_std).T
    if track.attitude_std is not None:
        std = euler_std(euler(track.pose.quaternion), track.attitude_std)
        made["angles_std"] = np.degrees(curves.largest(std)).T
    if scene.truth is not None:
        apart = np.linalg.norm(track.pose.position - scene.truth.position, axis=1)
        turned = attitude_error(track.pose.quaternion, scene.truth.quaternion)
        made["error"] = curves.extremes(np.stack([apart, np.degrees(turned)], axis=1)).T
    if track.nis is not None:
        mean = _in_window(track.nis, scene) / _in_window(scene.arrived, scene)
        made["nis"] = curves.extremes(mean[:, None])[:, 0]
    for key, noise in (("q", track.q), ("r", track.r), ("d", track.d)):
        if noise is not None:
            made[key] = columns.largest(noise).T
    return made


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
    """Where 95% of the means over a window lie, by degree of freedom, if a filter is consistent."""
    freedom = _in_window(scene.arrived, scene)
    low, high = (chdtri(freedom, tail) / freedom for tail in (0.975, 0.025))
    return {name: curves.extremes(of[:, None])[:, 0] for name, of in (("low", low), ("high", high))}
