"""Where signals have gaps, and the values of a pose outside of them."""

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.flight import Pose
from sagewing.logs.repair import count, merge_messages
from sagewing.logs.rotate import slerp
from sagewing.logs.signal import Signal, interpolate

# In 0.1 s a quadrotor at 10 m/s^2 departs from a straight line by 12 mm, and at 20 rad/s^2 from a
# constant rate by 1.4 degrees: over a longer gap an interpolated pose is no reference.
LONGEST_GAP_S = 0.1
SHORTEST_FLIGHT_S = 1.0
# A step this much longer than the usual one means that samples were lost.
LOST_SAMPLE = 1.5


def pose_at(signals: tuple[Signal, Signal], t: np.ndarray) -> Pose:
    """Position and attitude at the times t; NaN in a gap of either, and before and after both."""
    position, quaternion = signals
    pose = Pose(interpolate(position, t), slerp(quaternion, t))
    for signal in signals:
        inside = np.zeros(len(t), bool)
        for start, stop in gap_free_intervals(signal):
            inside |= (t >= start - 1e-9) & (t <= stop + 1e-9)
        pose.position[~inside] = np.nan
        pose.quaternion[~inside] = np.nan
    return pose


def gap_free_intervals(signal: Signal) -> list[tuple[float, float]]:
    """The start and the end of each part of a signal that has no gap."""
    cuts = np.flatnonzero(np.diff(signal.t) > LONGEST_GAP_S)
    starts = np.concatenate([signal.t[:1], signal.t[cuts + 1]])
    stops = np.concatenate([signal.t[cuts], signal.t[-1:]])
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def longest_common_interval(
    signals: list[Signal], where: str, repairs: list[str]
) -> tuple[float, float]:
    """The longest interval in which no signal has a gap; reports the gaps and what is cut off."""
    common = [(-np.inf, np.inf)]
    for signal in signals:
        intervals = gap_free_intervals(signal)
        steps = np.diff(signal.t)
        lost = (steps > LOST_SAMPLE * np.median(steps)) & (steps <= LONGEST_GAP_S)
        if lost.any():
            repairs.append(
                f"{signal.name}: {count(lost, 'gap')} of up to {1e3 * steps[lost].max():.0f} ms "
                "interpolated"
            )
        if len(intervals) > 1:
            gaps = count(steps > LONGEST_GAP_S, "gap")
            repairs.append(
                f"{signal.name}: {gaps} above {LONGEST_GAP_S:g} s, the longest {steps.max():.2f} s"
            )
        both = ((max(a, c), min(b, d)) for a, b in common for c, d in intervals)
        common = [(start, stop) for start, stop in both if start < stop]
    start, stop = max(common, key=lambda interval: interval[1] - interval[0], default=(0.0, 0.0))
    if stop - start < SHORTEST_FLIGHT_S:
        names = ", ".join(signal.name for signal in signals)
        found = "; ".join(merge_messages(repairs)) or "nothing to repair"
        raise InputError(
            f"{where}: there is no {SHORTEST_FLIGHT_S:g} s in which {names} all run without a gap "
            f"above {LONGEST_GAP_S:g} s (are the times in seconds?), the longest is "
            f"{stop - start:.2f} s; found: {found}."
        )
    if len(common) > 1:
        whole = common[-1][1] - common[0][0]
        repairs.append(
            f"kept the longest stretch without a gap, {stop - start:.1f} of {whole:.1f} s"
        )
    return start, stop
