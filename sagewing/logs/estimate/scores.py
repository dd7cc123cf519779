"""What a table says of a filter on a log: errors where there is a truth, consistency always."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sagewing.logs.flight import Pose, Times
from sagewing.logs.track import Track
from sagewing.metrics.errors import attitude_error, rms


class InnovationSeries(NamedTuple):
    """What each measurement was off by, which channels of it arrived, and where all was well.

    `restarts` is how often the filter had to go back to an earlier state.
    """

    nu: Float[np.ndarray, "T n_z"]
    arrived: Bool[np.ndarray, "T n_z"]
    ok: Bool[np.ndarray, "T"]
    restarts: int


def score(
    track: Track,
    t: Times,
    truth: Pose | None,
    arrived: Times,
    seen: InnovationSeries | None,
    outages: Sequence[tuple[float, float]],
    separate: bool,
) -> dict[str, Any]:
    """One row. A truth that is not `separate` from the pose counts inside the outages alone."""
    row: dict[str, Any] = {"filter": track.name}
    if truth is not None:
        apart = np.linalg.norm(track.pose.position - truth.position, axis=1)
        turned = _turned(track.pose.quaternion, truth.quaternion)
        if separate:
            row |= {"pos_rmse_m": rms(apart), "att_rmse_rad": rms(turned)}
        inside = np.zeros(len(t), bool)
        for start, stop in outages:
            inside |= (t >= start) & (t < stop)
        if inside.any():
            row["window_pos_rmse_m"] = rms(apart[inside])
            row["window_att_rmse_rad"] = rms(turned[inside])
            row["drift_m"] = max(_last(apart[(t >= a) & (t < b)]) for a, b in outages)
    if seen is not None and track.nis is not None:
        came = arrived > 0
        row |= {
            "poses": int(came.sum()),
            "refused": int((came & ~seen.ok).sum()),
            "restarts": seen.restarts,
            "nis_mean": float(np.mean(track.nis[came], dtype=np.float64)),
            "nis_expected": float(np.mean(arrived[came])),
            "whiteness": whiteness(seen),
        }
    return row


def whiteness(seen: InnovationSeries) -> float:
    """How alike an innovation is to the one before it: the mean of the channels' correlations.

    It is 0 for a filter that knows its noise, within about 2 / sqrt(poses). Above, the filter lags
    behind its measurements; below, it overreacts.
    """
    found = []
    for nu, arrived in zip(seen.nu.T, seen.arrived.T, strict=True):
        series = nu[arrived].astype(np.float64)
        power = float(series @ series)
        if len(series) > 2 and power > 0.0:
            found.append(float(series[1:] @ series[:-1]) / power)
    return float(np.mean(found)) if found else float("nan")


def _turned(q: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The angles between; NaN where there is no truth."""
    known = np.isfinite(truth).all(axis=1) & np.isfinite(q).all(axis=1)
    angles = np.full(len(q), np.nan)
    angles[known] = attitude_error(q[known], truth[known])
    return angles


def _last(error: np.ndarray) -> float:
    """The last number there is."""
    known = error[np.isfinite(error)]
    return float(known[-1]) if len(known) else float("nan")
