"""The flight problem: the estimator's model, start and noise, and the degradation of its data."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.models import (
    QDRONE,
    QuadrotorDrag,
    QuadrotorDynamic,
    QuadrotorKinematic,
    Switched,
    Vehicle,
)
from sagewing.models.quadrotor import GRAVITY, N_X, Q
from sagewing.problems.flight.attitude import NOMINAL, Attitude, with_attitude
from sagewing.problems.flight.records import WithoutPose
from sagewing.problems.problem import Problem
from sagewing.sim.degradation import Degradation

# The paper's, of its 19 states.
P0, Q0, R0 = NOMINAL["euler"]
DT = 0.01

# The paper's magnitudes are for samples at 1000 Hz; a row of our flights is the mean of ten.
AVERAGED = Degradation().averaged(10)
_AS_FLOWN = Degradation().as_flown()
PoseNoise = Literal["paper", "good"]
# The noise of the pose; nothing is added to the IMU.
NOISE: dict[str, Degradation] = {
    "paper": _AS_FLOWN,
    # A good positioning system: real ones are better than the paper's.
    "good": replace(
        _AS_FLOWN,
        position_std=0.05,
        position_outlier_std=0.25,
        position_outlier_probability=0.01,
        attitude_std=0.02,
    ),
}

# The inputs of the estimator: the mode, the IMU (accelerometer, gyroscope) and four motors.
N_U = 11
_ACC_Z, _MOTORS = 3, slice(7, 11)
_HOVER = 0.5  # motor command near hover


def estimator(
    vehicle: Vehicle = QDRONE,
    without_pose: WithoutPose = "dynamic",
    attitude: Attitude = "euler",
) -> Switched:
    """The paper's two models: the IMU is the input and the pose is measured; without a pose the
    motors are the input and the IMU is measured.

    With `without_pose="drag"` the IMU stays the input, and the accelerometer measures the airspeed
    through the rotors' drag.
    """
    kinematic = with_attitude(QuadrotorKinematic(jacobian="euler"), attitude)
    if without_pose == "drag":
        drag = QuadrotorDrag(jacobian="euler", drag=vehicle.drag[:2])
        return Switched((kinematic, with_attitude(drag, attitude)), inputs=((0, 6), (0, 6)))
    dynamic = QuadrotorDynamic(jacobian="euler", vehicle=vehicle)
    return Switched((kinematic, with_attitude(dynamic, attitude)), inputs=((0, 6), (6, 10)))


def degradation(noise: str, imu: str) -> Degradation:
    """The noise of the pose, and the paper's faults of the IMU unless it is "as-flown"."""
    pose = NOISE[noise]
    if imu == "as-flown":
        return pose
    return replace(
        AVERAGED,
        position_std=pose.position_std,
        position_outlier_std=pose.position_outlier_std,
        position_outlier_probability=pose.position_outlier_probability,
        attitude_std=pose.attitude_std,
    )


def problem(training: dict[str, Any]) -> Problem:
    """The flight problem with the vehicle and the attitude of a card's `training`.

    By default the QDrone, and Euler angles: cards from before there was a choice name none.
    """
    without_pose, attitude = training.get("without_pose", "dynamic"), training.get("attitude")
    attitude = "error-state" if attitude == "error-state" else "euler"
    model = estimator(_vehicle(training.get("vehicle")), without_pose, attitude)
    start, q, r = NOMINAL[attitude]
    return Problem(model, q, r, np.eye(N_X)[Q.start], start, N_U, DT, near_hover)


def near_hover(u: Float[np.ndarray, "T n_u"]) -> Float[np.ndarray, "T n_u"]:
    """Small normal draws turned into inputs of a quadrotor near hover."""
    u = u.copy()
    u[:, _ACC_Z] += GRAVITY
    u[:, _MOTORS] = _HOVER + 0.1 * u[:, _MOTORS]
    return u


def _vehicle(card: Any) -> Vehicle:
    if card is None:
        return QDRONE
    try:
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in card.items()
        }
        vehicle = Vehicle(**values)
        for value, expected in zip(vehicle, QDRONE, strict=True):
            array = np.asarray(value)
            if array.dtype.kind not in "if" or array.shape != np.shape(expected):
                raise TypeError(value)
            if not np.all((array > 0.0) & (array < np.inf)):
                raise TypeError(value)
        return vehicle
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "policy.json describes no vehicle: its provenance.training.vehicle needs "
            f"{', '.join(Vehicle._fields)} as positive numbers."
        ) from None
