"""The parameters of `QuadrotorDynamic` from recorded flights, by least squares.

    specific force, z          thrust / mass * sum(u) - D_z v_z
    specific force, x and y    -D v, and an offset for each flight
    angular acceleration       thrust * span / 2 / J * (difference of commands), for roll and pitch
                               torque / J_z * (difference of commands), for yaw

u are the rotors' commands after a delay and a lag, scaled with the battery's voltage.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.logs.flight import Flight
from sagewing.logs.rotate import conjugate, multiply, rotate
from sagewing.models.quadrotor import CRAZYFLIE, GRAVITY, Vehicle

FULL_V = 4.2  # a charged lithium cell
LAGS_S = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
DELAYS_S = (0.0, 0.01, 0.02, 0.03, 0.04)
# Rows: roll, pitch and yaw torque of the four commands, as in QuadrotorDynamic.wrench.
MIXER = np.array([[-1.0, -1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]])
# Angular accelerations are compared between these two time scales: slower changes are trim and
# aerodynamic moments, faster ones are noise.
SMOOTH_S, TREND_S = 0.03, 0.5
OFF, CLIMB_M, MARGIN_S = 0.05, 0.2, 0.5
CUT_OFF = 1e-6  # an impulse response ends where it has decayed to this share
MIN_ROWS = 500
UP = np.array([0.0, 0.0, GRAVITY])

Rows = Float[np.ndarray, "n m"]
Linear = Float[np.ndarray, "n 7"]  # specific force, velocity in the body, sum of u
Angular = Float[np.ndarray, "n 6"]  # angular acceleration, mixed u


class Frame(NamedTuple):
    """The measured mass and spans, and J_z, which flights determine only relative to the torque."""

    mass: float
    inertia_z: float
    roll_span: float
    pitch_span: float


# 27 g as sold and 3 g of markers; J_z of Luis and Le Ny, "Design of a trajectory tracking
# controller for a nanoquadcopter" (2016); motors 92 mm apart across the diagonal.
CRAZYFLIE_FRAME = Frame(0.030, 2.173e-5, 0.065, 0.065)


class Fit(NamedTuple):
    """How well the model fits: residuals of specific force (m/s^2), then angular acceleration."""

    std: tuple[float, ...]
    r2: tuple[float, ...]
    samples: int


class Identified(NamedTuple):
    """A vehicle, and the lag and delay between its logged commands and those of the model."""

    vehicle: Vehicle
    lag_s: float
    delay_s: float
    fit: Fit

    def commands(self, flight: Flight) -> Float[np.ndarray, "T 4"]:
        """The u of `QuadrotorDynamic`, each row for the step that ends at its time."""
        return rotor_commands(flight, self.lag_s, self.delay_s)

    def score(self, flights: Sequence[Flight]) -> Fit:
        """How well the model fits other flights; each may have its own offset in x and y."""
        c = self.vehicle
        gain = np.array([c.thrust * c.roll_span / 2, c.thrust * c.pitch_span / 2, c.torque])
        gain = gain / np.array(c.inertia)
        linear, angular = _regressors(flights, self.lag_s, self.delay_s)
        force, speed, total = linear[:, :3], linear[:, 3:6], linear[:, 6]
        model = -np.array(c.drag) * speed
        model[:, 2] += c.thrust / c.mass * total
        measured = np.concatenate([force, angular[:, :3]], axis=1)
        residual = measured - np.concatenate([model, gain * angular[:, 3:]], axis=1)
        vertical = force[:, 2:] - force[:, 2].mean()
        centred = np.concatenate([force[:, :2], vertical, measured[:, 3:]], 1)
        r2 = 1.0 - np.sum(residual**2, axis=0) / np.sum(centred**2, axis=0)
        return Fit(tuple(residual.std(axis=0).tolist()), tuple(r2.tolist()), len(measured))


# For a folder without flights to identify the Crazyflie from.
KNOWN_CRAZYFLIE = Identified(CRAZYFLIE, lag_s=0.04, delay_s=0.02, fit=Fit((), (), 0))


def identify(flights: Sequence[Flight], frame: Frame = CRAZYFLIE_FRAME) -> Identified:
    """The vehicle of these flights; lag and delay are those that fit roll and pitch best."""

    def squared_residual(lag_s: float, delay_s: float) -> float:
        _, angular = _regressors(flights, lag_s, delay_s)
        w_dot, u = angular[:, :2], angular[:, 3:5]
        gain = np.sum(u * w_dot, axis=0) / np.sum(u * u, axis=0)
        return float(np.sum((w_dot - gain * u) ** 2))

    grid = [(squared_residual(lag, delay), lag, delay) for lag in LAGS_S for delay in DELAYS_S]
    _, lag_s, delay_s = min(grid)
    linear, angular = _regressors(flights, lag_s, delay_s)
    force, speed, total = linear[:, :3], linear[:, 3:6], linear[:, 6]
    drag_x, drag_y = (-_slopes(speed[:, i : i + 1], force[:, i])[0] for i in (0, 1))
    lift, minus_drag_z = _slopes(np.stack([total, speed[:, 2]], axis=1), force[:, 2])
    roll, pitch, yaw = (_slopes(angular[:, 3 + i : 4 + i], angular[:, i])[0] for i in range(3))
    thrust = lift * frame.mass
    inertia = (
        float(thrust * frame.roll_span / 2 / roll),
        float(thrust * frame.pitch_span / 2 / pitch),
        frame.inertia_z,
    )
    vehicle = Vehicle(
        mass=frame.mass,
        inertia=inertia,
        roll_span=frame.roll_span,
        pitch_span=frame.pitch_span,
        thrust=float(thrust),
        torque=float(yaw * frame.inertia_z),
        drag=(float(drag_x), float(drag_y), float(-minus_drag_z)),
    )
    identified = Identified(vehicle, lag_s, delay_s, Fit((), (), 0))
    return identified._replace(fit=identified.score(flights))


def rotor_drag(flights: Sequence[Flight]) -> tuple[float, float, float]:
    """Drag in x and y of a vehicle that logs no motors; each flight may have its own offset."""
    rows = []
    for flight in flights:
        speed = rotate(conjugate(flight.quaternion), flight.velocity)
        level = np.concatenate([flight.imu[:, :2], speed[:, :2]], axis=1)
        rows.append(level - level.mean(axis=0))
    both = np.concatenate(rows)
    x, y = (-float(_slopes(both[:, 2 + i : 3 + i], both[:, i])[0]) for i in (0, 1))
    return x, y, 0.0


def rotor_commands(flight: Flight, lag_s: float, delay_s: float) -> Float[np.ndarray, "T 4"]:
    """Commands after a delay and a first-order lag, scaled with the battery where it is known."""
    u = flight.require_motors()
    if flight.battery is not None:
        u = u * np.clip(flight.battery / FULL_V, 0.0, 1.0)[:, None]
    delay = round(delay_s / flight.dt)
    decay = np.exp(-flight.dt / lag_s) if lag_s > 0.0 else 0.0
    length = 1 + (int(np.log(CUT_OFF) / np.log(decay)) if decay else 0)
    response = decay ** np.arange(length)
    padded = np.pad(u, ((delay + length - 1, 0), (0, 0)), mode="edge")[: len(u) + length - 1]
    lagged = [np.convolve(column, response / response.sum(), "valid") for column in padded.T]
    return np.stack(lagged, axis=1)


def airborne(flight: Flight) -> np.ndarray:
    """Which rows are in the air, with a margin to take-off and landing, bool [T]."""
    power = flight.require_motors().mean(axis=1)
    height = flight.position[:, 2]
    in_air = power > OFF
    if (~in_air).any():
        in_air &= height > np.median(height[~in_air]) + CLIMB_M
    margin = round(MARGIN_S / flight.dt)
    near_ground = np.convolve(~in_air, np.ones(2 * margin + 1), "same")
    return near_ground < 0.5


def aligned_with_thrust(flight: Flight, drag: tuple[float, float, float]) -> Flight:
    """The flight with its true attitude turned by a constant angle, so that z is the thrust's axis.

    The frame of motion capture markers is tilted against the IMU and the rotors, by up to 4 degrees
    in NanoBench. In level flight the kinematic model takes that tilt for an accelerometer bias; the
    dynamic model cannot, because there the specific force in x and y is the drag.
    """
    rows = airborne(flight)
    window = round(0.05 / flight.dt)
    a = np.gradient(_smooth(flight.velocity, window), flight.dt, axis=0)[rows] + UP
    v, q, D = flight.velocity[rows], flight.quaternion[rows], np.array(drag)
    tilt = np.array([[1.0, 0.0, 0.0, 0.0]])
    for _ in range(3):
        back = conjugate(multiply(q, np.repeat(tilt, len(q), axis=0)))
        force = np.mean(rotate(back, a) + D * rotate(back, v), axis=0)
        turn = np.array([[1.0, -0.5 * force[1] / force[2], 0.5 * force[0] / force[2], 0.0]])
        tilt = multiply(tilt, turn / np.linalg.norm(turn))
    degrees = np.degrees(2.0 * np.arccos(min(abs(tilt[0, 0]), 1.0)))
    return replace(
        flight,
        quaternion=multiply(flight.quaternion, np.repeat(tilt, len(flight.t), axis=0)),
        repairs=(*flight.repairs, f"true attitude turned by {degrees:.1f} degrees to the thrust"),
    )


def _regressors(flights: Sequence[Flight], lag_s: float, delay_s: float) -> tuple[Linear, Angular]:
    """The measured accelerations and their regressors, for all rows in the air."""
    linear, angular = [], []
    for flight in flights:
        rows = airborne(flight)
        if not rows.any():
            continue
        u = rotor_commands(flight, lag_s, delay_s)
        short, long = round(SMOOTH_S / flight.dt), round(TREND_S / flight.dt)
        w_dot = np.gradient(flight.imu[:, 3:], flight.dt, axis=0)
        # The central difference of means over steps is this mean of three angular accelerations.
        mixed = np.pad(u @ MIXER.T, ((1, 1), (0, 0)), mode="edge")
        mixed = 0.25 * (mixed[:-2] + 2.0 * mixed[1:-1] + mixed[2:])
        both = _smooth(np.concatenate([w_dot, mixed], axis=1), short)
        angular.append((both - _smooth(both, long))[rows])
        force, speed = flight.imu[rows, :3], rotate(conjugate(flight.quaternion), flight.velocity)
        level = np.concatenate([force[:, :2], speed[rows, :2]], axis=1)
        level -= level.mean(axis=0)
        z = [force[:, 2:], u[rows].sum(axis=1, keepdims=True)]
        linear.append(np.concatenate([level[:, :2], z[0], level[:, 2:], speed[rows, 2:], z[1]], 1))
    if sum(map(len, linear)) < MIN_ROWS:
        raise InputError(
            f"Identification needs at least {MIN_ROWS} rows in the air; these {len(flights)} "
            f"flights have {sum(map(len, linear))}."
        )
    return np.concatenate(linear), np.concatenate(angular)


def _slopes(regressors: Rows, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(regressors, y, rcond=None)[0]


def _smooth(x: Rows, window: int) -> Rows:
    """The centred mean over an odd number of rows."""
    half = max(window // 2, 0)
    padded = np.pad(x, ((half + 1, half), (0, 0)), mode="edge")
    total = np.cumsum(padded, axis=0)
    return (total[2 * half + 1 :] - total[: -2 * half - 1]) / (2 * half + 1)
