"""The times of a log's IMU samples, and the pose at those of them at which one was measured."""

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.logs.flight import Pose, Times
from sagewing.logs.gaps import LONGEST_GAP_S, LOST_SAMPLE, SHORTEST_FLIGHT_S
from sagewing.logs.repair import count
from sagewing.logs.rotate import slerp
from sagewing.logs.signal import Signal, interpolate


def imu_samples(
    acc: Signal, gyro: Signal, where: str, notes: list[str]
) -> tuple[Times, Float[np.ndarray, "n 6"]]:
    """The gyroscope's times, with lost samples filled in, and both sensors interpolated there."""
    inside = (gyro.t >= acc.t[0]) & (gyro.t <= acc.t[-1])
    t = gyro.t[inside]
    if len(t) < 2 or t[-1] - t[0] < SHORTEST_FLIGHT_S:
        raise InputError(
            f"{where}: {acc.name} and {gyro.name} share less than {SHORTEST_FLIGHT_S:g} s (are the "
            "times in seconds, and of one clock?)."
        )
    steps = np.diff(t)
    median = float(np.median(steps))
    lost = steps > LOST_SAMPLE * median
    missing = np.where(lost, np.ceil(steps / median - 1e-6) - 1.0, 0.0)
    if missing.sum() > len(t):
        raise InputError(
            f"{where}: {gyro.name} has gaps of up to {steps.max():.3g} s where its steps are "
            f"{median:.3g} s, longer in all than the rest; cut the log there, or check its times."
        )
    if lost.any():
        notes.append(
            f"{gyro.name}: {count(lost, 'gap')} of up to {1e3 * steps.max():.0f} ms filled by "
            "straight lines"
        )
        parts = missing.astype(int) + 1
        k = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        t = np.append(np.repeat(t[:-1], parts) + k * np.repeat(steps / parts, parts), t[-1])
    return t, np.concatenate([interpolate(acc, t), interpolate(gyro, t)], axis=1)


def pose_rows(t: Times, position: Signal, quaternion: Signal | None) -> Pose:
    """Each pose sample at the nearest of the times t, interpolated to it; NaN at the others."""
    p, q = np.full((len(t), 3), np.nan), np.full((len(t), 4), np.nan)
    rows = _nearest_rows(t, position)
    p[rows] = _moved(position, t[rows], interpolate(position, t[rows]))
    if quaternion is not None:
        rows = _nearest_rows(t, quaternion)
        q[rows] = _moved(quaternion, t[rows], slerp(quaternion, t[rows]))
    return Pose(p, q)


def _nearest_rows(t: Times, signal: Signal) -> np.ndarray:
    """The rows of t that are nearest to a sample, at most half a step away."""
    after = np.clip(np.searchsorted(t, signal.t), 1, len(t) - 1)
    nearest = after - (signal.t - t[after - 1] < t[after] - signal.t)
    inside = np.abs(t[nearest] - signal.t) <= 0.5 * (t[after] - t[after - 1]) + 1e-9
    return np.unique(nearest[inside])


def _moved(signal: Signal, t: Times, interpolated: np.ndarray) -> np.ndarray:
    """The interpolated values; the nearest sample itself where the next one is after a gap."""
    after = np.clip(np.searchsorted(signal.t, t), 1, len(signal.t) - 1)
    before = after - 1
    far = signal.t[after] - signal.t[before] > LONGEST_GAP_S
    nearest = np.where(t - signal.t[before] < signal.t[after] - t, before, after)
    return np.where(far[:, None], signal.value[nearest], interpolated)
