"""The filters of a user's own log, and the noise that they begin with."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing import catalogue
from sagewing.errors import InputError
from sagewing.filters import Filter, per_prediction_step
from sagewing.logs.rotate import to_euler
from sagewing.models import QuadrotorKinematic
from sagewing.models.quadrotor import ANGLES, N_Z
from sagewing.problems.flight.attitude import (
    NOMINAL,
    Attitude,
    attitude_of,
    variances,
    with_attitude,
)

# Noise is given for steps of this length: those of the flights it was tuned or trained on.
NOMINAL_STEP_S = 0.01
# Without a measured attitude only the IMU tells it, and fitted noise, which leans on angles that
# are measured, loses it. Then the process is as noisy as an IMU of a small vehicle is, a second:
# position, velocity (0.1 m/s), attitude (0.01 rad), rate, and the biases (0.01 m/s^2 and 0.001
# rad/s).
INERTIAL_Q = NOMINAL_STEP_S * np.array([1e-4, 1e-2, 1e-4, 1e-3, 1e-4, 1e-6])
# Near a pitch of 90 degrees a filter with Euler angles is wrong; from here on a user is told.
STEEP_RAD = np.deg2rad(80.0)
# Of filters without a learned part; the others have the attitude that their part was trained for.
DEFAULT_ATTITUDE: Attitude = "error-state"


def check_filters(names: Sequence[str]) -> None:
    """Refuse a name that is not known, cannot be built or comes twice."""
    catalogue.check_names(names)
    if len(set(names)) < len(names):
        raise InputError(f"A filter is named twice in {', '.join(names)}.")


class LogNoise(NamedTuple):
    """Variances of the process over a step of `NOMINAL_STEP_S`, and of the pose."""

    q: np.ndarray
    r: np.ndarray


def build(name: str, noise: LogNoise, learned: Any, step_s: float, steps: float = 1.0) -> Filter:
    """A filter by its name, driven by the IMU, for so many steps of this length to a pose."""
    model = with_attitude(QuadrotorKinematic(jacobian="euler"), log_attitude(learned))
    q, r = noise.q * step_s / NOMINAL_STEP_S, noise.r
    filt = catalogue.build(name, model, q, r, learned, own_noise=False)
    return per_prediction_step(filt, steps) if catalogue.entry(name).adapts else filt


def log_attitude(learned: Any) -> Attitude:
    """The kind of attitude of a filter with this learned part."""
    return attitude_of(learned, DEFAULT_ATTITUDE)


def noise_of(
    learned: Any,
    position_std: Sequence[float] | None,
    attitude_std: float | None,
    turns: bool,
) -> LogNoise:
    """The filter's own noise, and what the log says of the pose's; `turns`: it has an attitude.

    Fitted noise is fitted as a whole, and there a better pose than it was fitted to is no reason to
    change it; a worse one is.
    """
    own = catalogue.learned_noise(learned)
    fitted, attitude = own is not None, log_attitude(learned)
    _, Q0, R0 = NOMINAL[attitude]
    q, r = (Q0, R0) if own is None else (own.q, own.r)
    q, r = np.array(q, np.float64), np.atleast_2d(np.array(r, np.float64))[0]
    told = np.full(N_Z, np.nan)
    if position_std is not None:
        told[:3] = np.square(position_std)
    if attitude_std is not None:
        told[ANGLES] = attitude_std**2
    r = np.fmax(r, told) if fitted else np.where(np.isnan(told), r, told)
    return LogNoise(q if turns else variances(attitude, INERTIAL_Q), r)


def steep(
    names: Sequence[str], learned: Mapping[str, Any], attitudes: Float[np.ndarray, "T 4"]
) -> list[str]:
    """What a user should know of filters with Euler angles in a log of these attitudes."""
    pitch = np.abs(to_euler(attitudes[np.isfinite(attitudes).all(axis=1)])[:, 1])
    if not len(pitch) or pitch.max() < STEEP_RAD:
        return []
    return [
        f"WARNING: {name} was trained with Euler angles, which are singular at a pitch of 90 "
        f"degrees, and the log has {np.rad2deg(pitch.max()):.0f}: do not trust its attitude"
        for name in names
        if log_attitude(learned.get(name)) == "euler"
    ]
