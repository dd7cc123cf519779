"""Quaternions of a whole record at once, in NumPy and float64."""

import numpy as np
from jaxtyping import Float

from sagewing.flights.repair import Signal

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
