"""Attitudes as roll, pitch and yaw, for curves over time."""

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.logs.flight import Quaternions, Times, Vectors
from sagewing.models.angles import wrap_angle
from sagewing.models.rotations import euler_angles


def euler(q: Quaternions) -> Vectors:
    """Roll, pitch and yaw of many attitudes, in radians."""
    return np.asarray(jax.vmap(euler_angles)(jnp.asarray(q)))


def angle_near(angle: Times, truth: Times) -> Times:
    """Unwrapped to lie near the truth; where the truth makes a full turn, wrapped to ±π."""
    angle = truth + np.asarray(wrap_angle(jnp.asarray(angle - truth)))
    if np.ptp(truth) < 2.0 * np.pi:
        return angle
    wrapped = np.asarray(wrap_angle(jnp.asarray(angle)))
    jumps = np.abs(np.diff(wrapped, prepend=wrapped[0])) > np.pi
    return np.where(jumps, np.nan, wrapped)


def euler_std(angles: Vectors, std: Vectors) -> Vectors:
    """Standard deviations of roll, pitch and yaw, from those of a rotation in body axes."""
    (roll, pitch, _), (x, y, z) = angles.T, np.square(std).T
    with np.errstate(divide="ignore", invalid="ignore"):
        heading = (np.sin(roll) ** 2 * y + np.cos(roll) ** 2 * z) / np.cos(pitch) ** 2
        tilted = np.sin(pitch) ** 2 * heading
        squares = x + tilted, np.cos(roll) ** 2 * y + np.sin(roll) ** 2 * z, heading
        return np.sqrt(np.stack(squares, axis=1))
