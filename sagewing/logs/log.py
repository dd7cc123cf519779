"""From signals on clocks of their own to one `Flight` on a uniform clock."""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.logs.flight import Flight, Pose
from sagewing.logs.repair import (
    LONGEST_GAP_S,
    RATE_WINDOW_S,
    SHORTEST_FLIGHT_S,
    Signal,
    check_battery,
    check_force,
    check_gravity,
    check_rates,
    check_speed,
    clean,
    count,
    linear,
    means,
    merged,
    unit_quaternions,
)
from sagewing.logs.rotate import (
    north_east_down,
    rotate,
    slerp,
    turned_over,
    turning,
)

# A step this much longer than the clock's is a sample that was lost.
LOST_SAMPLE = 1.5
# The body's z points down where a hovering accelerometer reads about -9.81 along it.
DOWN_M_S2 = -4.0
BODY_OVER = np.array([1.0, -1.0, -1.0])
# No sensor gives more, and no clock that was set.
LARGEST, LARGEST_S = 1e9, 1e11
SIGNALS_OF_A_WORLD = (
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

    The times share one origin: a reader takes clock offsets out. `motors` are in 0..1 and in the
    order of `QuadrotorDynamic`. `position` and `quaternion` are what was measured (a receiver of
    GPS has no attitude); `truth_...` is a second reference that is better than that.
    """

    name: str
    where: str  # for messages: the file
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
    position_std: tuple[float, ...] | None = None  # m, where the log says how good it is
    attitude_std: float | None = None  # rad
    format: str = "npz"
    notes: list[str] = field(default_factory=list)  # what the reader had to assume

    def flight(self, fastest_hz: float = np.inf) -> Flight:
        """Checked, repaired, aligned and resampled; what was repaired is in `Flight.repairs`.

        The rows come at the IMU's rate, or as means over longer steps where that is too fast.
        """
        repairs = list(self.notes)
        acc = clean(self.acc, self.where, repairs)
        gyro = clean(self.gyro, self.where, repairs)
        position, quaternion = self.reference(repairs)
        velocity, motors, thrust, battery = (
            None if signal is None else clean(signal, self.where, repairs)
            for signal in (self.velocity, self.motors, self.thrust, self.battery)
        )
        onboard = attitudes(self.onboard_position, self.onboard_quaternion, self.where, repairs)
        check_force(acc, self.where)
        if np.median(acc.value[:, 2]) < DOWN_M_S2:
            repairs.append("the body's z axis points down, turned to forward, left, up")
            acc, gyro = (s._replace(value=BODY_OVER * s.value) for s in (acc, gyro))
            quaternion = quaternion._replace(value=turned_over(quaternion.value))
            if onboard:
                onboard = onboard[0], onboard[1]._replace(value=turned_over(onboard[1].value))
            if thrust:
                thrust = thrust._replace(value=-thrust.value)
        if velocity is None:
            repairs.append("velocity derived from the positions")
            middle = 0.5 * (position.t[1:] + position.t[:-1])
            slope = np.diff(position.value, axis=0) / np.diff(position.t)[:, None]
            velocity = Signal("velocity", middle, slope)
        if battery:
            check_battery(battery, self.where)
        if thrust:
            check_force(thrust, self.where)
            if np.median(thrust.value) < 0.0:
                raise InputError(f"{self.where}: {thrust.name}, the thrust, must point up.")

        needed = [acc, gyro, position, quaternion, velocity]
        needed += [signal for signal in (motors, thrust) if signal]
        start, stop = longest_stretch(needed, self.where, repairs)
        acc, gyro, position, quaternion, velocity = (
            signal.between(start, stop) for signal in (acc, gyro, position, quaternion, velocity)
        )
        check_rates(gyro, turning(quaternion, RATE_WINDOW_S), self.where)
        check_speed(velocity, position, self.where)
        step = float(np.median(np.diff(acc.t)))
        dt = max(1.0 / max(round(1.0 / step), 1) if step < 0.5 else step, 1.0 / fastest_hz)
        t = start + dt * np.arange(1, int((stop - start) / dt + 1e-6) + 1)

        def over_step(signal: Signal) -> Float[np.ndarray, "T m"]:
            return means(signal, t - 0.5 * dt, dt)

        flight = Flight(
            name=self.name,
            t=t,
            imu=np.concatenate([over_step(acc), over_step(gyro)], axis=1),
            position=linear(position, t),
            quaternion=slerp(quaternion, t),
            velocity=linear(velocity, t),
            motors=over_step(motors) if motors else None,
            thrust=over_step(thrust)[:, 0] if thrust else None,
            battery=linear(battery, t)[:, 0] if battery else None,
            onboard=sampled(onboard, t) if onboard else None,
            repairs=merged(repairs),
        )
        force = np.mean(rotate(flight.quaternion[1:], flight.imu[1:, :3]), axis=0)
        gained = (flight.velocity[-1] - flight.velocity[0]) / flight.seconds
        check_gravity(force - gained, self.where)
        return flight

    def reference(self, repairs: list[str]) -> tuple[Signal, Signal]:
        """The best pose there is, position and attitude: the truth, or what was measured."""
        told = self.truth_position or self.position
        turned = self.truth_quaternion or self.quaternion
        pose = attitudes(told, turned, self.where, repairs)
        if pose is None:
            missing = "attitude" if told else "position"
            raise InputError(
                f"{self.where}: this needs a pose, and the log has no {missing}; take a log with "
                "motion capture, or name its columns or topics in a map (sagewing inspect)."
            )
        return pose


def sane(log: Log) -> Log:
    """Numbers that no sensor gives, such as a damaged file has, are none; their squares overflow.

    So large is also the time of a clock that was never set.
    """
    made: dict[str, Signal] = {}
    for name in (one.name for one in fields(log)):
        signal = getattr(log, name)
        if isinstance(signal, Signal):
            absurd = (np.abs(signal.value) > LARGEST).any(axis=1) | (np.abs(signal.t) > LARGEST_S)
            if absurd.any():
                value = np.where(absurd[:, None], np.nan, signal.value)
                made[name] = signal._replace(value=value)
    return replace(log, **made)


def enu_of_ned(log: Log) -> Log:
    """A log of north, east, down and forward, right, down in our axes."""
    made: dict[str, Signal] = {}
    for name in ("acc", "gyro", *SIGNALS_OF_A_WORLD):
        signal: Signal | None = getattr(log, name)
        if signal is None:
            continue
        if name.endswith("quaternion"):
            value = north_east_down(signal.value)
        elif name in ("acc", "gyro"):
            value = signal.value * BODY_OVER
        else:
            value = signal.value[:, [1, 0, 2]] * np.array([1.0, 1.0, -1.0])
        made[name] = signal._replace(value=value)
    note = "axes of north, east, down turned to east, north, up, and the body's to match"
    return replace(log, **made, notes=[*log.notes, note])


def attitudes(
    position: Signal | None, quaternion: Signal | None, where: str, repairs: list[str]
) -> tuple[Signal, Signal] | None:
    """Both, cleaned; None where one of them is missing."""
    if position is None or quaternion is None:
        return None
    position, quaternion = (clean(signal, where, repairs) for signal in (position, quaternion))
    return position, unit_quaternions(quaternion, where, repairs)


def sampled(signals: tuple[Signal, Signal], t: np.ndarray) -> Pose:
    """Position and attitude at t, NaN where one has a gap or does not reach."""
    position, quaternion = signals
    pose = Pose(linear(position, t), slerp(quaternion, t))
    for signal in signals:
        inside = np.zeros(len(t), bool)
        for start, stop in stretches(signal):
            inside |= (t >= start - 1e-9) & (t <= stop + 1e-9)
        pose.position[~inside] = np.nan
        pose.quaternion[~inside] = np.nan
    return pose


def stretches(signal: Signal) -> list[tuple[float, float]]:
    """From where to where a signal runs without a gap."""
    cuts = np.flatnonzero(np.diff(signal.t) > LONGEST_GAP_S)
    starts = np.concatenate([signal.t[:1], signal.t[cuts + 1]])
    stops = np.concatenate([signal.t[cuts], signal.t[-1:]])
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def longest_stretch(signals: list[Signal], where: str, repairs: list[str]) -> tuple[float, float]:
    """The longest time in which no signal has a gap; the gaps, and what they cost, are reported."""
    common = [(-np.inf, np.inf)]
    for signal in signals:
        pieces = stretches(signal)
        steps = np.diff(signal.t)
        lost = (steps > LOST_SAMPLE * np.median(steps)) & (steps <= LONGEST_GAP_S)
        if lost.any():
            repairs.append(
                f"{signal.name}: {count(lost, 'gap')} of up to {1e3 * steps[lost].max():.0f} ms "
                "interpolated"
            )
        if len(pieces) > 1:
            gaps = count(steps > LONGEST_GAP_S, "gap")
            repairs.append(
                f"{signal.name}: {gaps} above {LONGEST_GAP_S:g} s, the longest {steps.max():.2f} s"
            )
        both = ((max(a, c), min(b, d)) for a, b in common for c, d in pieces)
        common = [(start, stop) for start, stop in both if start < stop]
    start, stop = max(common, key=lambda piece: piece[1] - piece[0], default=(0.0, 0.0))
    if stop - start < SHORTEST_FLIGHT_S:
        names = ", ".join(signal.name for signal in signals)
        raise InputError(
            f"{where}: there is no {SHORTEST_FLIGHT_S:g} s in which {names} all run without a gap "
            f"above {LONGEST_GAP_S:g} s (are the times in seconds?), the longest is "
            f"{stop - start:.2f} s; found: {'; '.join(merged(repairs)) or 'nothing to repair'}."
        )
    if len(common) > 1:
        whole = common[-1][1] - common[0][0]
        repairs.append(
            f"kept the longest stretch without a gap, {stop - start:.1f} of {whole:.1f} s"
        )
    return start, stop
