"""Quaternions of a whole record at once, in NumPy and float64."""

import numpy as np
from jaxtyping import Float

from sagewing.logs.repair import Signal

Quaternions = Float[np.ndarray, "T 4"]
Vectors = Float[np.ndarray, "T 3"]


def multiply(p: Quaternions, q: Quaternions) -> Quaternions:
    """The rotation q, then p."""
    pw, pv, qw, qv = p[:, :1], p[:, 1:], q[:, :1], q[:, 1:]
    w = pw * qw - np.sum(pv * qv, axis=1, keepdims=True)
    return np.concatenate([w, pw * qv + qw * pv + np.cross(pv, qv)], axis=1)


def conjugate(q: Quaternions) -> Quaternions:
    """The rotation back."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(q: Quaternions, v: Vectors) -> Vectors:
    """From body to world."""
    twice = 2.0 * np.cross(q[:, 1:], v)
    return v + q[:, :1] * twice + np.cross(q[:, 1:], twice)


def turned_over(q: Quaternions) -> Quaternions:
    """The attitude of a body whose y and z axes are renamed to point the other way."""
    half_turn = np.broadcast_to([0.0, 1.0, 0.0, 0.0], q.shape)
    return multiply(q, half_turn)


def rotation_vector(q: Quaternions) -> Vectors:
    """Axis times angle, the short way round."""
    q = np.where(q[:, :1] < 0.0, -q, q)
    sine = np.linalg.norm(q[:, 1:], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, q[:, :1])
    return q[:, 1:] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-12), 2.0)


def slerp(signal: Signal, t: np.ndarray) -> Quaternions:
    """Even turns between samples of unit length and continuous sign."""
    k = np.clip(np.searchsorted(signal.t, t, side="right") - 1, 0, len(signal.t) - 2)
    s = np.clip((t - signal.t[k]) / (signal.t[k + 1] - signal.t[k]), 0.0, 1.0)[:, None]
    a, b = signal.value[k], signal.value[k + 1]
    angle = np.arccos(np.clip(np.sum(a * b, axis=1, keepdims=True), -1.0, 1.0))
    sine = np.maximum(np.sin(angle), 1e-12)
    even = angle < 1e-6
    q = np.where(even, 1.0 - s, np.sin((1.0 - s) * angle) / sine) * a
    q += np.where(even, s, np.sin(s * angle) / sine) * b
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def turning(signal: Signal, window_s: float) -> Signal:
    """The angular rate in the body, as the mean over windows, from attitudes."""
    inside = signal.t[(signal.t >= signal.t[0] + window_s) & (signal.t <= signal.t[-1] - window_s)]
    t = inside if len(inside) else signal.t
    before, after = slerp(signal, t - 0.5 * window_s), slerp(signal, t + 0.5 * window_s)
    return Signal(signal.name, t, rotation_vector(multiply(conjugate(before), after)) / window_s)


def from_euler(angles: Vectors) -> Quaternions:
    """Of roll, pitch and yaw: about z, then the new y, then the new x."""
    zero = np.zeros(len(angles))
    cosine, sine = np.cos(0.5 * angles), np.sin(0.5 * angles)
    roll = np.stack([cosine[:, 0], sine[:, 0], zero, zero], axis=1)
    pitch = np.stack([cosine[:, 1], zero, sine[:, 1], zero], axis=1)
    yaw = np.stack([cosine[:, 2], zero, zero, sine[:, 2]], axis=1)
    return multiply(multiply(yaw, pitch), roll)


def to_euler(q: Quaternions) -> Vectors:
    """Roll, pitch and yaw."""
    w, x, y, z = q.T
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return np.stack([roll, pitch, yaw], axis=1)


def between(a: np.ndarray, b: np.ndarray) -> Quaternions:
    """The shortest rotation that takes the direction a to the direction b, as one row."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    w = 1.0 + float(a @ b)
    if w < 1e-9:  # opposite: half a turn about x, or about y where x is what turns
        return np.array([[0.0, 1.0, 0.0, 0.0] if abs(a[0]) < 0.9 else [0.0, 0.0, 1.0, 0.0]])
    q = np.append(w, np.cross(a, b))
    return (q / np.linalg.norm(q))[None]


def north_east_down(q: Quaternions) -> Quaternions:
    """East, north, up and forward, left, up, from an attitude in NED of forward, right, down."""
    half = np.sqrt(0.5)
    swap = np.broadcast_to([0.0, half, half, 0.0], q.shape)  # half a turn about north-east
    return multiply(swap, turned_over(q))


def from_matrix(turn: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation matrix: the eigenvector of its largest eigenvalue (Bar-Itzhack).

    No case for any trace: it is as good near half a turn as near none.
    """
    (a, b, c), (d, e, f), (g, h, i) = turn
    K = np.array(
        [
            [a + e + i, h - f, c - g, d - b],
            [h - f, a - e - i, b + d, c + g],
            [c - g, b + d, e - a - i, f + h],
            [d - b, c + g, f + h, i - a - e],
        ]
    )
    q = np.linalg.eigh(K)[1][:, -1]
    return q if q[0] >= 0.0 else -q
