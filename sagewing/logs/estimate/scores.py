"""A filter's row in the table: errors where there is a reference, and its consistency."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sagewing.logs.flight import Pose, Times
from sagewing.logs.track import Track
from sagewing.metrics.errors import attitude_error, rms


class InnovationSeries(NamedTuple):
    """The innovations of a filter, which channels arrived, and which steps were accepted.

    `restarts` counts how often the filter returned to an earlier state.
    """

    nu: Float[np.ndarray, "T n_z"]
    arrived: Bool[np.ndarray, "T n_z"]
    ok: Bool[np.ndarray, "T"]
    restarts: int


def score(
    track: Track,
    t: Times,
    reference: Pose | None,
    arrived: Times,
    innovations: InnovationSeries | None,
    outages: Sequence[tuple[float, float]],
    separate: bool,
) -> dict[str, Any]:
    """One row; a reference that is not `separate` from the pose counts in the outages only."""
    row: dict[str, Any] = {"filter": track.name}
    if reference is not None:
        distance = np.linalg.norm(track.pose.position - reference.position, axis=1)
        angle = _angles(track.pose.quaternion, reference.quaternion)
        if separate:
            row |= {"pos_rmse_m": rms(distance), "att_rmse_rad": rms(angle)}
        inside = np.zeros(len(t), bool)
        for start, stop in outages:
            inside |= (t >= start) & (t < stop)
        if inside.any():
            row["window_pos_rmse_m"] = rms(distance[inside])
            row["window_att_rmse_rad"] = rms(angle[inside])
            row["worst_m"] = largest(distance[inside])
            row["drift_m"] = max(_last(distance[(t >= a) & (t < b)]) for a, b in outages)
    if innovations is not None and track.nis is not None:
        measured = arrived > 0
        row |= {
            "poses": int(measured.sum()),
            "refused": int((measured & ~innovations.ok).sum()),
            "restarts": innovations.restarts,
            "nis_mean": float(np.mean(track.nis[measured], dtype=np.float64)),
            "nis_expected": float(np.mean(arrived[measured])),
            "whiteness": whiteness(innovations),
        }
    return row


def whiteness(innovations: InnovationSeries) -> float:
    """The correlation of an innovation with the one before it, as the mean of the channels.

    It is 0, within about 2 / sqrt(poses), for a filter with the right noise. Above, the filter
    lags behind its measurements; below, it corrects too much.
    """
    found = []
    for nu, arrived in zip(innovations.nu.T, innovations.arrived.T, strict=True):
        series = nu[arrived].astype(np.float64)
        power = float(series @ series)
        if len(series) > 2 and power > 0.0:
            found.append(float(series[1:] @ series[:-1]) / power)
    return float(np.mean(found)) if found else float("nan")


def _angles(q: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The angles between two attitudes; NaN where one is not known."""
    known = np.isfinite(reference).all(axis=1) & np.isfinite(q).all(axis=1)
    angles = np.full(len(q), np.nan)
    angles[known] = attitude_error(q[known], reference[known])
    return angles


def largest(error: np.ndarray) -> float:
    """The largest finite value."""
    known = error[np.isfinite(error)]
    return float(known.max()) if len(known) else float("nan")


def _last(error: np.ndarray) -> float:
    """The last finite value."""
    known = error[np.isfinite(error)]
    return float(known[-1]) if len(known) else float("nan")
