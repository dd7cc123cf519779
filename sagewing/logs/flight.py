"""One recorded or simulated flight: its sensors, its motors and its true pose."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError

Times = Float[np.ndarray, "T"]
Vectors = Float[np.ndarray, "T 3"]
Quaternions = Float[np.ndarray, "T 4"]


@dataclass(frozen=True)
class Pose:
    """Position in the world and attitude (w, x, y, z), body to world; a row of NaN is no sample."""

    position: Vectors
    quaternion: Quaternions


@dataclass(frozen=True)
class Flight:
    """A flight on one uniform clock, in SI units.

    The body's axes point forward, left and up, the world's z axis points up. Position, attitude and
    velocity are those at `t[k]`. The IMU and the motors of row k are means over the step that ENDS
    at `t[k]`. The motors are in the order of `QuadrotorDynamic`: back right, front right, back
    left, front left; 0 is off and 1 is full command.
    """

    name: str
    t: Times
    imu: Float[np.ndarray, "T 6"]  # accelerometer (specific force, m/s^2), gyroscope (rad/s)
    position: Vectors
    quaternion: Quaternions
    velocity: Vectors  # in the world
    motors: Float[np.ndarray, "T 4"] | None = None
    thrust: Times | None = None  # of all motors over mass, m/s^2, in a log without commands
    battery: Times | None = None  # V
    onboard: Pose | None = None  # the vehicle's own estimate
    repairs: tuple[str, ...] = ()  # what was repaired in the log

    @classmethod
    def simulated(cls, name: str, flown: Any) -> "Flight":
        """From a `sagewing.sim.plant.Flown`, whose rows have the same meaning."""

        def array(field: str) -> np.ndarray:
            return np.asarray(getattr(flown, field), np.float64)

        return cls(
            name,
            t=array("t"),
            imu=array("imu"),
            position=array("position"),
            quaternion=array("quaternion"),
            velocity=array("velocity"),
            motors=array("motors"),
        )

    @property
    def dt(self) -> float:
        """The step, in seconds."""
        return float((self.t[-1] - self.t[0]) / (len(self.t) - 1))

    @property
    def seconds(self) -> float:
        """From the first row to the last."""
        return float(self.t[-1] - self.t[0])

    def part(self, start_s: float, stop_s: float) -> "Flight":
        """The rows from `start_s` up to `stop_s`, in seconds after the flight's first row."""
        after = self.t - self.t[0]
        margin = 1e-6 * self.dt  # 0.3 / 0.01 is not quite 30
        rows = np.flatnonzero((after >= start_s - margin) & (after < stop_s - margin))
        if len(rows) < 2:
            raise InputError(
                f"{self.name}: there is no part from {start_s:g} s to {stop_s:g} s "
                f"in a flight of {self.seconds:g} s."
            )
        kept = slice(int(rows[0]), int(rows[-1]) + 1)
        cut: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                cut[field.name] = value[kept]
            elif isinstance(value, Pose):
                cut[field.name] = Pose(value.position[kept], value.quaternion[kept])
        return replace(self, **cut)

    def require_motors(self) -> Float[np.ndarray, "T 4"]:
        """The four motor commands; refuses a flight without them."""
        if self.motors is None:
            has = "the collective thrust only" if self.thrust is not None else "no motor commands"
            raise InputError(
                f"{self.name}: this needs the commands of four motors, and the log has {has}; "
                "use the model driven by the IMU, or a log with motor commands."
            )
        return self.motors

    def require_battery(self) -> Times:
        """The battery's voltage; refuses a flight without it."""
        if self.battery is None:
            raise InputError(
                f"{self.name}: this needs the battery's voltage, and the log has none; "
                "use a log with the voltage recorded."
            )
        return self.battery
