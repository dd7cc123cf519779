"""An IMU mounted upside down or on its side: the rotation that makes its z axis point up."""

import numpy as np
from jaxtyping import Float

from sagewing.logs.rotate import ABOUT_X, conjugate, multiply, rotate, shortest_rotation
from sagewing.logs.signal import Signal

UP = np.array([0.0, 0.0, 1.0])
# An IMU further off the vertical is rotated: Euler angles are singular at a pitch of 90 degrees.
LARGEST_TILT_RAD = np.radians(30.0)
LEAST_FORCE_M_S2 = 1.0  # below it the specific force shows no vertical
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])

Quaternion = Float[np.ndarray, "4"]
Imu = Float[np.ndarray, "n 6"]


def upright_rotation(imu: Imu, notes: list[str]) -> Quaternion:
    """The rotation that takes the median specific force to z; the identity within 30 degrees."""
    force = np.median(imu[:, :3], axis=0)
    length = float(np.linalg.norm(force))
    if length < LEAST_FORCE_M_S2 or force[2] / length > np.cos(LARGEST_TILT_RAD):
        return IDENTITY
    if force[2] / length < -np.cos(LARGEST_TILT_RAD):
        notes.append("the body's z axis points down, turned to forward, left, up")
        return ABOUT_X
    tilt = np.degrees(np.arccos(force[2] / length))
    notes.append(f"the IMU is mounted {tilt:.0f} degrees off the vertical; the body is turned")
    return shortest_rotation(force, UP)


def level_attitude(imu: Imu) -> Quaternion:
    """The attitude with yaw 0 in which the first specific force points up."""
    force = imu[0, :3]
    return shortest_rotation(force, UP) if np.linalg.norm(force) > 0.0 else IDENTITY


def rotate_imu(imu: Imu, rotation: Quaternion) -> Imu:
    """Both sensors in the rotated body."""
    if rotation[0] == 1.0:
        return imu
    q = np.broadcast_to(rotation, (len(imu), 4))
    return np.concatenate([rotate(q, imu[:, :3]), rotate(q, imu[:, 3:])], axis=1)


def rotate_body(attitude: Signal, rotation: Quaternion) -> Signal:
    """The attitude of the rotated body."""
    q = np.broadcast_to(rotation, attitude.value.shape)
    return attitude._replace(value=multiply(attitude.value, conjugate(q)))
