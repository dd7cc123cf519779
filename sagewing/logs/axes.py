"""Whether the IMU and the pose of a log speak of the same axes."""

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.repair import (
    RATE_WINDOW_S,
    SHORTEST_FLIGHT_S,
    Signal,
    check_gravity,
    check_rates,
    linear,
)
from sagewing.logs.rotate import rotate, turning

ENDS_S = 0.5  # over which a velocity is fitted to positions


def disagreements(
    acc: Signal, gyro: Signal, position: Signal, quaternion: Signal, where: str
) -> list[str]:
    """What a user should look at before an estimate is believed; all signals cleaned."""
    start = max(signal.t[0] for signal in (acc, gyro, position, quaternion))
    stop = min(signal.t[-1] for signal in (acc, gyro, position, quaternion))
    attitude = quaternion.keep((quaternion.t >= start) & (quaternion.t <= stop))
    if stop - start < SHORTEST_FLIGHT_S or len(attitude.t) < 3:
        return []
    force = np.mean(rotate(attitude.value, linear(acc, attitude.t)), axis=0)
    ends = (position.between(start, start + ENDS_S), position.between(stop - ENDS_S, stop))
    before, after = (slope(end) for end in ends)
    found = []
    try:
        check_rates(gyro, turning(attitude, RATE_WINDOW_S), where)
        check_gravity(force - (after - before) / (stop - start), where)
    except InputError as error:
        found.append(f"WARNING: {str(error).removeprefix(f'{where}: ').rstrip('.')}")
    return found


def slope(position: Signal) -> np.ndarray:
    """The velocity that fits some positions."""
    t = position.t - position.t.mean()
    if len(t) < 2 or not t.any():
        return np.zeros(3)
    return t @ (position.value - position.value.mean(axis=0)) / float(t @ t)
