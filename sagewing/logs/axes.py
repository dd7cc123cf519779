"""Whether the IMU and the pose of a log have the same axes."""

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.checks import RATE_WINDOW_S, check_gravity, check_rates
from sagewing.logs.gaps import SHORTEST_FLIGHT_S
from sagewing.logs.rotate import angular_rate, rotate
from sagewing.logs.signal import Signal, interpolate

# The first and the last velocity are fitted to the positions of so many seconds.
ENDS_S = 0.5


def disagreements(
    acc: Signal, gyro: Signal, position: Signal, quaternion: Signal, where: str
) -> list[str]:
    """Warnings for the user where rates or gravity do not agree; all signals are repaired."""
    start = max(signal.t[0] for signal in (acc, gyro, position, quaternion))
    stop = min(signal.t[-1] for signal in (acc, gyro, position, quaternion))
    attitude = quaternion.select((quaternion.t >= start) & (quaternion.t <= stop))
    if stop - start < SHORTEST_FLIGHT_S or len(attitude.t) < 3:
        return []
    force = np.mean(rotate(attitude.value, interpolate(acc, attitude.t)), axis=0)
    ends = (position.window(start, start + ENDS_S), position.window(stop - ENDS_S, stop))
    before, after = (fitted_velocity(end) for end in ends)
    found = []
    try:
        check_rates(gyro, angular_rate(attitude, RATE_WINDOW_S), where)
        check_gravity(force - (after - before) / (stop - start), where)
    except InputError as error:
        found.append(f"WARNING: {str(error).removeprefix(f'{where}: ').rstrip('.')}")
    return found


def fitted_velocity(position: Signal) -> np.ndarray:
    """The slope of the straight line through some positions, by least squares."""
    t = position.t - position.t.mean()
    if len(t) < 2 or not t.any():
        return np.zeros(3)
    return t @ (position.value - position.value.mean(axis=0)) / float(t @ t)
