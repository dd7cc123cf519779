"""Units and axes that cannot be right are refused, with what they look like.

Medians, quantiles and means of cosines: a crash at the end of a log must not outweigh the flight.
"""

import numpy as np
from jaxtyping import Bool, Float

from sagewing.errors import InputError
from sagewing.logs.signal import Signal, derivative, window_means

FASTEST_M_S = 150.0
# Positions and velocities agree to half the speed, and to this much in hover.
SPEED_MARGIN = 0.1
BATTERY_V = (1.0, 100.0)
# The median length of the specific force in flight, in m/s^2 and in g.
FORCE_M_S2 = (4.0, 25.0)
FORCE_G = (0.4, 2.5)
# The gyroscope's rate against that of the attitude: degrees and radians differ by a factor of 57.
RATE_RATIO = 20.0
RATE_WINDOW_S = 0.1
STILL_RAD_S = 0.05
# The axes are compared where the vehicle turns faster than this, if so many rows do.
MOVING_RAD_S, MOVING_ROWS = 0.2, 50
LEAST_COSINE = 0.3
UP_M_S2 = np.array([0.0, 0.0, 9.81])
# A tenth of gravity for scale and bias, and as much for the attitude.
GRAVITY_MARGIN = 2.0


def check_force(acc: Signal, where: str) -> None:
    """The accelerometer reads about 9.81 m/s^2 in flight, gravity included."""
    force = float(np.median(np.linalg.norm(acc.value, axis=1)))
    if FORCE_G[0] < force < FORCE_G[1]:
        raise InputError(
            f"{where}: {acc.name} is {force:.2f} in the median, as if it were in g; expected "
            "m/s^2: multiply it by 9.81."
        )
    if not FORCE_M_S2[0] < force < FORCE_M_S2[1]:
        raise InputError(
            f"{where}: {acc.name} is {force:.3g} in the median; expected the specific force in "
            "m/s^2, which is about 9.81 with gravity in it."
        )


def check_rates(gyro: Signal, rate: Signal, where: str) -> None:
    """The gyroscope's rate against `rate`, the attitude's in the body: size and direction."""
    smooth = window_means(gyro, rate.t, RATE_WINDOW_S)
    lengths = [np.linalg.norm(vectors, axis=1) for vectors in (smooth, rate.value)]
    measured, derived = (float(np.quantile(length, 0.9)) for length in lengths)
    if measured > RATE_RATIO * max(derived, STILL_RAD_S):
        raise InputError(
            f"{where}: {gyro.name} is {measured:.3g} rad/s where the attitude turns at "
            f"{derived:.3g}, as if it were in degrees; expected rad/s: multiply it by pi / 180."
        )

    def cosine(rows: Bool[np.ndarray, "T"]) -> float:
        products = np.sum(smooth * rate.value, axis=1)[rows]
        lengths_of_both = np.maximum(lengths[0] * lengths[1], np.finfo(float).tiny)
        return float(np.mean(products / lengths_of_both[rows]))

    # In hover a noisy attitude seems to turn, but about other axes than the gyroscope does.
    turns = lengths[1] > STILL_RAD_S
    dead = not smooth.any()
    if derived > max(RATE_RATIO * measured, STILL_RAD_S) and (
        dead or abs(cosine(turns)) > LEAST_COSINE
    ):
        raise InputError(
            f"{where}: {gyro.name} is {measured:.3g} rad/s where the attitude turns at "
            f"{derived:.3g}, as if radians had been taken for degrees and converted again; "
            "expected rad/s."
        )
    moving = np.minimum(*lengths) > MOVING_RAD_S
    if moving.sum() >= MOVING_ROWS and cosine(moving) < LEAST_COSINE:
        raise InputError(
            f"{where}: {gyro.name} and {rate.name} do not turn about the same axes (mean "
            f"cosine {cosine(moving):.2f}); check the body's axes, the offset of the clocks, and "
            "that quaternions are w first and body to world."
        )


def check_speed(velocity: Signal, position: Signal, where: str) -> None:
    """The logged velocity agrees with that of the positions, and both are possible."""
    slope = derivative(position)
    t = np.clip(velocity.t, slope.t[0], slope.t[-1])
    derived, logged = (window_means(v, t, RATE_WINDOW_S) for v in (slope, velocity))
    speed, other, difference = (
        float(np.quantile(np.linalg.norm(v, axis=1), 0.9))
        for v in (derived, logged, derived - logged)
    )
    if max(speed, other) > FASTEST_M_S:
        raise InputError(
            f"{where}: {position.name} moves at {speed:.0f} m/s and {velocity.name} says "
            f"{other:.0f}, as if in millimetres; expected metres and m/s."
        )
    if difference > 0.5 * speed + SPEED_MARGIN:
        raise InputError(
            f"{where}: {position.name} moves at {speed:.2g} m/s and {velocity.name} differs from "
            f"that by {difference:.2g}; expected the velocity in the world, in m/s."
        )


def check_battery(battery: Signal, where: str) -> None:
    """The battery is in volts."""
    volts = float(np.median(battery.value))
    if not BATTERY_V[0] < volts < BATTERY_V[1]:
        raise InputError(f"{where}: {battery.name} is {volts:.4g} in the median; expected volts.")


def check_gravity(force: Float[np.ndarray, "3"], where: str) -> None:
    """`force` is the mean specific force in the world less the mean acceleration: 9.81 upwards."""
    if np.linalg.norm(force - UP_M_S2) > GRAVITY_MARGIN:
        x, y, z = force
        raise InputError(
            f"{where}: in the world the accelerometer's mean is ({x:.1f}, {y:.1f}, {z:.1f}) "
            "m/s^2 and should be (0, 0, 9.8); check the body's axes, that quaternions are w first "
            'and body to world, and that the world\'s z is up (a map may say frame = "ned").'
        )
