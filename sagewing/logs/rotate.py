"""Quaternions (w, x, y, z) of a whole record at once, in float64.

`scipy.spatial.transform` does what it can. It refuses a zero quaternion, and brings the others to
length 1 or makes them NaN: a log's quaternions, which may be all of that before they are checked,
are multiplied by the plain functions here.
"""

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation, Slerp

from sagewing.logs.signal import Signal

Quaternions = Float[np.ndarray, "T 4"]
Vectors = Float[np.ndarray, "T 3"]

# Half a turn about the body's x axis: forward, left, up becomes forward, right, down.
ABOUT_X = np.array([0.0, 1.0, 0.0, 0.0])
# Half a turn about north-east: north, east, down becomes east, north, up.
ABOUT_NORTH_EAST = np.array([0.0, np.sqrt(0.5), np.sqrt(0.5), 0.0])


def multiply(p: Quaternions, q: Quaternions) -> Quaternions:
    """The Hamilton product: rotation q, then p."""
    pw, pv, qw, qv = p[:, :1], p[:, 1:], q[:, :1], q[:, 1:]
    w = pw * qw - np.sum(pv * qv, axis=1, keepdims=True)
    return np.concatenate([w, pw * qv + qw * pv + np.cross(pv, qv)], axis=1)


def conjugate(q: Quaternions) -> Quaternions:
    """The inverse rotation of a unit quaternion."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(q: Quaternions, v: Vectors) -> Vectors:
    """Vectors from body to world."""
    twice = 2.0 * np.cross(q[:, 1:], v)
    return v + q[:, :1] * twice + np.cross(q[:, 1:], twice)


def flip_body_axes(q: Quaternions) -> Quaternions:
    """The same attitude for a body whose y and z axes point the other way."""
    return multiply(q, np.broadcast_to(ABOUT_X, q.shape))


def enu_from_ned(q: Quaternions) -> Quaternions:
    """From north-east-down and forward-right-down to east-north-up and forward-left-up."""
    return multiply(np.broadcast_to(ABOUT_NORTH_EAST, q.shape), flip_body_axes(q))


def rotation_vector(q: Quaternions) -> Vectors:
    """Axis times angle, the angle at most pi."""
    return Rotation.from_quat(q, scalar_first=True).as_rotvec()


def slerp(signal: Signal, t: np.ndarray) -> Quaternions:
    """Interpolated at constant angular rate; the first and the last sample hold outside."""
    rotations = Rotation.from_quat(signal.value, scalar_first=True)
    inside = np.clip(t, signal.t[0], signal.t[-1])
    return Slerp(signal.t, rotations)(inside).as_quat(scalar_first=True)


def angular_rate(attitude: Signal, window_s: float) -> Signal:
    """The mean angular rate in the body over windows, from attitudes."""
    first, last = attitude.t[0] + window_s, attitude.t[-1] - window_s
    inside = attitude.t[(attitude.t >= first) & (attitude.t <= last)]
    t = inside if len(inside) else attitude.t
    before, after = slerp(attitude, t - 0.5 * window_s), slerp(attitude, t + 0.5 * window_s)
    turned = rotation_vector(multiply(conjugate(before), after))
    return Signal(attitude.name, t, turned / window_s)


def from_euler(angles: Vectors) -> Quaternions:
    """From roll, pitch and yaw: about z, then the new y, then the new x."""
    return Rotation.from_euler("ZYX", angles[:, ::-1]).as_quat(scalar_first=True)


def to_euler(q: Quaternions) -> Vectors:
    """Roll, pitch and yaw; NaN of NaN.

    By hand: SciPy refuses rows of NaN, and at a pitch of 90 degrees it warns and sets roll to 0.
    """
    w, x, y, z = q.T
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return np.stack([roll, pitch, yaw], axis=1)


def to_rotation_vector(q: Quaternions) -> Vectors:
    """Axis times angle, the angle at most pi; NaN of NaN, which SciPy refuses."""
    known = np.isfinite(q).all(axis=1)
    found = np.full((len(q), 3), np.nan)
    found[known] = rotation_vector(q[known])
    return found


def shortest_rotation(a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "4"]:
    """The rotation by the smallest angle that takes the direction a to the direction b."""
    return Rotation.align_vectors(b, a)[0].as_quat(scalar_first=True, canonical=True)


def from_matrix(matrix: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "4"]:
    """The quaternion of a rotation matrix, with w >= 0."""
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True, canonical=True)
