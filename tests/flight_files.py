"""A flight of 6 s as an `.npz` file, in the arrays that `read_flight` takes; good or spoilt."""

import re

import numpy as np
import pytest
from log_files import G, attitude_at, position_at, velocity_at

import sagewing as sw
from sagewing.logs.rotate import conjugate, multiply, rotate, rotation_vector

N, DT = 600, 0.01
NAN = float("nan")


def arrays(tau=0.0):
    """A log of 6 s; the pose clock is late by tau."""
    t = DT * np.arange(N)
    e = 1e-3
    q, a = attitude_at(t), (velocity_at(t + e) - velocity_at(t - e)) / (2 * e)
    before, after = attitude_at(t - e), attitude_at(t + e)
    pwm = 30000.0 + 5000.0 * np.sin(t[:, None] + np.arange(4.0))
    return {
        "imu_t": t,
        "acc": rotate(conjugate(q), a + G),
        "gyro": rotation_vector(multiply(conjugate(before), after)) / (2 * e),
        "pose_t": t + tau,
        "pos": position_at(t),
        "quat_wxyz": q,
        "vel": velocity_at(t),
        "mot_t": t,
        "mot": pwm,
        "vbat": np.full(N, 3.8),
        "est_t": t,
        "est_pos": position_at(t) + 0.1,
        "est_quat_wxyz": q,
    }


def write_flight(folder, name="some_flight", without=(), tau=0.0, **changed):
    """Writes a log that differs from a good one, and gives its path."""
    log = arrays(tau) | changed
    path = folder / f"{name}.npz"
    np.savez(path, **{key: value for key, value in log.items() if key not in without})
    return path


def changed(name, rows, value):
    array = np.array(arrays()[name])
    array[rows] = value
    return {name: array}


def without_rows(clock, rows):
    """The log without these rows of everything that shares a clock."""
    shared = {"imu_t": ["acc", "gyro"], "pose_t": ["pos", "quat_wxyz", "vel"]}[clock]
    return {name: np.delete(arrays()[name], rows, axis=0) for name in [clock, *shared]}


def refuses(*parts):
    line = ".*".join(map(re.escape, parts))
    return pytest.raises(sw.InputError, match=rf"\A.*{line}.*\.\Z")
