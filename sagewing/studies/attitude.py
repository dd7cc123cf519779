"""Flights through every attitude, by an EKF with Euler angles and one with an error state."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from sagewing.filters import EKF, Result, run
from sagewing.models.quadrotor import GRAVITY, N_X, Q, QuadrotorKinematic
from sagewing.problems.flight.attitude import Attitude, variances, with_attitude

DT = 0.01
STEPS = 1500
# Standard deviations of the pose, in m and rad.
POSITION, ANGLE = 0.02, 0.01
# Variances of position, velocity, attitude, rate, and the biases of accelerometer and gyroscope.
PROCESS = (1e-8, 1e-6, 1e-6, 1e-3, 1e-8, 1e-10)
START = (1e-4, 1e-2, 1e-4, 1e-2, 1e-4, 1e-6)

LEVEL, ON_TAIL = Rotation.identity(), Rotation.from_rotvec([0.0, -0.5 * np.pi, 0.0])


class Turn(NamedTuple):
    """A turn about a body axis at a constant rate, in s and degrees; then it `holds` until then."""

    begins: float
    ends: float
    holds: float
    axis: int
    degrees: float
    name: str


TURNS = (
    Turn(2.0, 3.0, 5.0, 1, -90.0, "nose up"),
    Turn(5.0, 6.0, 8.0, 1, -90.0, "inverted"),
    Turn(8.0, 9.0, 11.0, 1, -90.0, "nose down"),
    Turn(11.0, 12.0, 12.0, 1, -90.0, "level"),
    Turn(12.0, 13.5, 13.5, 2, 360.0, "yaw"),
    Turn(13.5, 15.0, 15.0, 0, 360.0, "roll"),
)

BodyRates = Callable[[Float[np.ndarray, "T"]], Float[np.ndarray, "T 3"]]


class TrueFlight(NamedTuple):
    """The readings of an IMU without noise, and the truth before the first one and after each."""

    imu: Float[np.ndarray, "T 6"]
    position: Float[np.ndarray, "T+1 3"]
    velocity: Float[np.ndarray, "T+1 3"]
    attitude: Rotation


class FlownAttitude(NamedTuple):
    """Angles in degrees between estimated and true attitudes, and the result that has them."""

    errors: Float[np.ndarray, "*B T"]
    result: Result


def loops(t: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T 3"]:
    """Rates of a vehicle that turns over again and again, inverted and through any yaw."""
    return np.stack([0.7 * np.sin(0.9 * t), np.full_like(t, 2.5), 0.5 * np.cos(0.4 * t)], axis=1)


def aerobatics(t: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T 3"]:
    """Rates of a vehicle that turns as `TURNS` says, and stays as it is between."""
    rates = np.zeros((len(t), 3))
    for turn in TURNS:
        now = (t > turn.begins) & (t <= turn.ends)
        rates[now, turn.axis] = np.deg2rad(turn.degrees) / (turn.ends - turn.begins)
    return rates


def still(t: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T 3"]:
    """Rates of a vehicle that does not turn."""
    return np.zeros((len(t), 3))


def flight(rates: BodyRates, start: Rotation = LEVEL) -> TrueFlight:
    """The position oscillates by less than a metre; the accelerometer measures what that needs."""
    t = DT * np.arange(STEPS + 1)
    body = rates(t - 0.5 * DT)
    turns, attitude = Rotation.from_rotvec(DT * body[1:]), [start]
    for turn in turns:
        attitude.append(attitude[-1] * turn)
    attitude = Rotation.concatenate(attitude)
    p = 0.5 * np.stack([np.sin(t), np.cos(1.3 * t), np.sin(0.7 * t)], axis=1)
    v = 0.5 * np.stack([np.cos(t), -1.3 * np.sin(1.3 * t), 0.7 * np.cos(0.7 * t)], axis=1)
    a = -0.5 * np.stack([np.sin(t), 1.69 * np.cos(1.3 * t), 0.49 * np.sin(0.7 * t)], axis=1)
    halfway = attitude[:-1] * Rotation.from_rotvec(0.5 * DT * body[1:])
    force = halfway.inv().apply(0.5 * (a[1:] + a[:-1]) + np.array([0.0, 0.0, GRAVITY]))
    return TrueFlight(np.concatenate([force, body[1:]], axis=1), p, v, attitude)


def flown(made: TrueFlight, attitude: Attitude, off: Float[np.ndarray, "*B 3"]) -> FlownAttitude:
    """An EKF that starts with its attitude off by the rotation vectors `off`, in rad."""
    rng = np.random.default_rng(1)
    position = made.position[1:] + POSITION * rng.normal(size=(STEPS, 3))
    seen = made.attitude[1:] * Rotation.from_rotvec(ANGLE * rng.normal(size=(STEPS, 3)))
    angles = seen.as_euler("ZYX")[:, ::-1] if attitude == "euler" else seen.as_rotvec()
    z = np.concatenate([position, angles], axis=1)

    batch = off.shape[:-1]
    x0 = np.zeros((*batch, N_X))
    x0[..., :3] = made.position[0]
    x0[..., 3:6] = made.attitude[0].inv().apply(made.velocity[0])
    x0[..., Q] = (made.attitude[0] * Rotation.from_rotvec(off)).as_quat(scalar_first=True)
    spread = float(np.max(np.sum(off**2, axis=-1)))
    P0 = np.diag(variances(attitude, (*START[:2], max(START[2], spread), *START[3:])))

    model = with_attitude(QuadrotorKinematic(), attitude)
    r = np.repeat([POSITION**2, ANGLE**2], 3)
    filt = EKF(model, variances(attitude, PROCESS), r)
    result = run(filt, x0, P0, np.broadcast_to(z, (*batch, *z.shape)), made.imu, dt=DT)
    q = np.asarray(result.x)[..., Q]
    found = Rotation.from_quat(q.reshape(-1, 4), scalar_first=True)
    true = Rotation.concatenate([made.attitude[1:]] * int(np.prod(batch)))
    return FlownAttitude(np.rad2deg((true.inv() * found).magnitude()).reshape(q.shape[:-1]), result)
