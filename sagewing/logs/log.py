"""A log as its reader found it, and the one `Flight` on a uniform clock that it becomes."""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.logs.checks import (
    RATE_WINDOW_S,
    check_battery,
    check_force,
    check_gravity,
    check_rates,
    check_speed,
)
from sagewing.logs.flight import Flight
from sagewing.logs.gaps import longest_common_interval, pose_at
from sagewing.logs.repair import clean, clean_pose, merge_messages
from sagewing.logs.rotate import angular_rate, enu_from_ned, flip_body_axes, rotate, slerp
from sagewing.logs.signal import Signal, derivative, interpolate, window_means

# The body's z points down where a hovering accelerometer reads about -9.81 along it.
DOWN_M_S2 = -4.0
FLIPPED_BODY = np.array([1.0, -1.0, -1.0])
# The limits of a value, in any unit, and of a time: no sensor and no clock goes beyond.
LARGEST, LARGEST_S = 1e9, 1e11
WORLD_SIGNALS = (
    "position",
    "quaternion",
    "truth_position",
    "truth_quaternion",
    "velocity",
    "onboard_position",
    "onboard_quaternion",
)


@dataclass
class Log:
    """What a reader found in a log, in SI units, each signal with its own times.

    The times share one origin: a reader subtracts clock offsets. `motors` are in 0..1 and in the
    order of `QuadrotorDynamic`. `position` and `quaternion` are the measured pose (a GPS receiver
    measures no attitude), `truth_...` a better, separate reference, and `onboard_...` the vehicle's
    own estimate.
    """

    name: str
    where: str  # the path, for messages
    acc: Signal
    gyro: Signal
    position: Signal | None = None
    quaternion: Signal | None = None
    truth_position: Signal | None = None
    truth_quaternion: Signal | None = None
    velocity: Signal | None = None
    motors: Signal | None = None
    thrust: Signal | None = None
    battery: Signal | None = None
    onboard_position: Signal | None = None
    onboard_quaternion: Signal | None = None
    position_std: tuple[float, ...] | None = None  # m, if the log states it
    attitude_std: float | None = None  # rad
    format: str = "npz"
    notes: list[str] = field(default_factory=list)  # what the reader assumed or left out

    def flight(self, fastest_hz: float = np.inf) -> Flight:
        """Repaired, checked, aligned and resampled; `Flight.repairs` lists the repairs.

        The rows have the IMU's rate, or are means over longer steps above `fastest_hz`.
        """
        repairs = list(self.notes)
        acc = clean(self.acc, self.where, repairs)
        gyro = clean(self.gyro, self.where, repairs)
        position, quaternion = self.reference(repairs)
        velocity, motors, thrust, battery = (
            None if signal is None else clean(signal, self.where, repairs)
            for signal in (self.velocity, self.motors, self.thrust, self.battery)
        )
        onboard = clean_pose(self.onboard_position, self.onboard_quaternion, self.where, repairs)
        check_force(acc, self.where)
        if np.median(acc.value[:, 2]) < DOWN_M_S2:
            repairs.append("the body's z axis points down, turned to forward, left, up")
            acc, gyro = (s._replace(value=FLIPPED_BODY * s.value) for s in (acc, gyro))
            quaternion = quaternion._replace(value=flip_body_axes(quaternion.value))
            if onboard:
                onboard = onboard[0], onboard[1]._replace(value=flip_body_axes(onboard[1].value))
            if thrust:
                thrust = thrust._replace(value=-thrust.value)
        if velocity is None:
            repairs.append("velocity derived from the positions")
            velocity = derivative(position)._replace(name="velocity")
        if battery:
            check_battery(battery, self.where)
        if thrust:
            check_force(thrust, self.where)
            if np.median(thrust.value) < 0.0:
                raise InputError(f"{self.where}: {thrust.name}, the thrust, must point up.")

        needed = [acc, gyro, position, quaternion, velocity]
        needed += [signal for signal in (motors, thrust) if signal]
        start, stop = longest_common_interval(needed, self.where, repairs)
        acc, gyro, position, quaternion, velocity = (
            signal.window(start, stop) for signal in (acc, gyro, position, quaternion, velocity)
        )
        check_rates(gyro, angular_rate(quaternion, RATE_WINDOW_S), self.where)
        check_speed(velocity, position, self.where)
        step = float(np.median(np.diff(acc.t)))
        dt = max(1.0 / max(round(1.0 / step), 1) if step < 0.5 else step, 1.0 / fastest_hz)
        t = start + dt * np.arange(1, int((stop - start) / dt + 1e-6) + 1)

        def step_means(signal: Signal) -> Float[np.ndarray, "T m"]:
            return window_means(signal, t - 0.5 * dt, dt)

        flight = Flight(
            name=self.name,
            t=t,
            imu=np.concatenate([step_means(acc), step_means(gyro)], axis=1),
            position=interpolate(position, t),
            quaternion=slerp(quaternion, t),
            velocity=interpolate(velocity, t),
            motors=step_means(motors) if motors else None,
            thrust=step_means(thrust)[:, 0] if thrust else None,
            battery=interpolate(battery, t)[:, 0] if battery else None,
            onboard=pose_at(onboard, t) if onboard else None,
            repairs=merge_messages(repairs),
        )
        force = np.mean(rotate(flight.quaternion[1:], flight.imu[1:, :3]), axis=0)
        acceleration = (flight.velocity[-1] - flight.velocity[0]) / flight.seconds
        check_gravity(force - acceleration, self.where)
        return flight

    def reference(self, repairs: list[str]) -> tuple[Signal, Signal]:
        """Position and attitude to compare with, repaired: the truth, or else the measured pose."""
        position = self.truth_position or self.position
        quaternion = self.truth_quaternion or self.quaternion
        pose = clean_pose(position, quaternion, self.where, repairs)
        if pose is None:
            missing = "attitude" if position else "position"
            raise InputError(
                f"{self.where}: this needs a pose, and the log has no {missing}; take a log with "
                "motion capture, or name its columns or topics in a map (sagewing inspect)."
            )
        return pose


def mask_out_of_range(log: Log) -> Log:
    """NaN for values and times beyond `LARGEST` and `LARGEST_S`, as damaged files have them.

    Their squares would overflow. The time of a clock that was never set is as large.
    """
    changed: dict[str, Signal] = {}
    for name in (entry.name for entry in fields(log)):
        signal = getattr(log, name)
        if isinstance(signal, Signal):
            beyond = (np.abs(signal.value) > LARGEST).any(axis=1) | (np.abs(signal.t) > LARGEST_S)
            if beyond.any():
                value = np.where(beyond[:, None], np.nan, signal.value)
                changed[name] = signal._replace(value=value)
    return replace(log, **changed)


def ned_log_to_enu(log: Log) -> Log:
    """A log in north-east-down and forward-right-down, in east-north-up and forward-left-up."""
    changed: dict[str, Signal] = {}
    for name in ("acc", "gyro", *WORLD_SIGNALS):
        signal: Signal | None = getattr(log, name)
        if signal is None:
            continue
        if name.endswith("quaternion"):
            value = enu_from_ned(signal.value)
        elif name in ("acc", "gyro"):
            value = signal.value * FLIPPED_BODY
        else:
            value = signal.value[:, [1, 0, 2]] * np.array([1.0, 1.0, -1.0])
        changed[name] = signal._replace(value=value)
    note = "axes of north, east, down turned to east, north, up, and the body's to match"
    return replace(log, **changed, notes=[*log.notes, note])
