"""What is wrong with a signal: repaired and reported, or refused."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError

# In 0.1 s a quadrotor at 10 m/s^2 departs from a straight line by 12 mm, and at 20 rad/s^2 from an
# even turn by 1.4 degrees: beyond it an interpolated pose is no truth any more.
LONGEST_GAP_S = 0.1
SHORTEST_FLIGHT_S = 1.0
# Off length 1 by less: rounding, as a Crazyflie's compressed quaternions are by 0.005. By more than
# the second: no rotation.
ROUNDED, GARBAGE = 0.01, 0.1
# No length at all: how motion capture writes that it has lost the body.
LOST = 1e-6
FASTEST_M_S = 150.0
# Positions and velocities agree to half the speed, and to this much in hover.
SPEED_MARGIN = 0.1
BATTERY_V = (1.0, 100.0)
# Medians of the specific force's length that no wrong unit explains.
FORCE_M_S2 = (4.0, 25.0)
FORCE_G = (0.4, 2.5)
# The gyroscope against the turning of the attitude: degrees and radians are 57 apart.
RATE_RATIO = 20.0
RATE_WINDOW_S = 0.1
STILL_RAD_S = 0.05
MOVING_RAD_S = 0.2
MOVING_ROWS = 50
TOGETHER = 0.3
UP_M_S2 = np.array([0.0, 0.0, 9.81])
# A tenth of gravity for scale and bias, and as much for the attitude.
GRAVITY_MARGIN = 2.0


class Signal(NamedTuple):
    """Samples on a clock of their own, and their name in the log."""

    name: str
    t: Float[np.ndarray, "n"]
    value: Float[np.ndarray, "n m"]

    def keep(self, rows: np.ndarray) -> "Signal":
        """These rows of it."""
        return Signal(self.name, self.t[rows], self.value[rows])

    def between(self, start: float, stop: float) -> "Signal":
        """The rows that a time from start to stop rests on."""
        first = max(int(np.searchsorted(self.t, start, side="right")) - 1, 0)
        last = int(np.searchsorted(self.t, stop, side="left"))
        return self.keep(np.arange(first, min(last + 1, len(self.t))))


def clean(signal: Signal, where: str, repairs: list[str]) -> Signal:
    """Finite and with time running forwards: bad rows go, a clock that jumps back is refused."""
    finite = np.isfinite(signal.t) & np.isfinite(signal.value).all(axis=1)
    if finite.sum() < 2:
        empty = [str(i) for i in range(signal.value.shape[1]) if _empty(signal.value[:, i])]
        which = f"column {', '.join(empty)} has none" if empty else f"it has {finite.sum()}"
        raise InputError(
            f"{where}: {signal.name} needs at least 2 rows of finite numbers, and {which}."
        )
    if not finite.all():
        repairs.append(f"{signal.name}: {count(~finite, 'row')} with NaN dropped")
    signal = signal.keep(finite)
    back = np.flatnonzero(np.diff(signal.t) < 0.0)
    if len(back):
        k = back[0]
        raise InputError(
            f"{where}: the time of {signal.name} runs backwards {len(back)} times, first from "
            f"{signal.t[k]:.3f} s to {signal.t[k + 1]:.3f} s after row {k}; sort the rows, or cut "
            "the log where its clock was reset."
        )
    fresh = np.diff(signal.t, prepend=-np.inf) > 0.0
    if not fresh.all():
        repairs.append(f"{signal.name}: {count(~fresh, 'duplicate stamp')} dropped")
    if fresh.sum() < 2:
        raise InputError(f"{where}: every row of {signal.name} has the same time.")
    return signal.keep(fresh)


def count(which: np.ndarray, what: str) -> str:
    """How many, in words: `37 duplicate stamps`."""
    n = int(np.sum(which))
    return f"{n} {what}{'' if n == 1 else 's'}"


def merged(repairs: list[str]) -> tuple[str, ...]:
    """What befell several signals alike, once: `acc, gyro: 37 duplicate stamps dropped`."""
    names: dict[str, list[str]] = {}
    for repair in repairs:
        name, _, what = repair.rpartition(": ")
        names.setdefault(what, []).append(name)
    return tuple(f"{', '.join(n)}: {what}" if any(n) else what for what, n in names.items())


def _empty(column: np.ndarray) -> bool:
    return not np.isfinite(column).any()


def unit_quaternions(signal: Signal, where: str, repairs: list[str]) -> Signal:
    """Of length 1 and of one sign: rows of zeros go, what is no rotation is refused."""
    length = np.linalg.norm(signal.value, axis=1)
    lost = length < LOST
    if lost.all():
        raise InputError(f"{where}: every quaternion of {signal.name} is zero.")
    off = np.abs(length - 1.0)[~lost]
    if off.max() > GARBAGE:
        raise InputError(
            f"{where}: {signal.name} has {np.sum(off > GARBAGE)} quaternions that are no rotation, "
            f"one of length {length[~lost][off.argmax()]:.3g}; expected length 1, w first."
        )
    if lost.any():
        repairs.append(f"{signal.name}: {count(lost, 'zero quaternion')} dropped")
    if off.max() > ROUNDED:
        repairs.append(
            f"{signal.name}: {count(off > ROUNDED, 'quaternion')} brought to length 1, "
            f"from up to {off.max():.2g} off it"
        )
    signal = signal.keep(~lost)
    q = signal.value / length[~lost, None]
    flips = np.sum(q[1:] * q[:-1], axis=1) < 0.0
    sign = np.where(np.cumsum(np.concatenate([[False], flips])) % 2, -1.0, 1.0)
    return signal._replace(value=q * sign[:, None])


def check_force(acc: Signal, where: str) -> None:
    """The accelerometer reads about 9.81 m/s^2 in flight."""
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


def check_rates(gyro: Signal, turning: Signal, where: str) -> None:
    """The gyroscope turns as the attitude does; `turning` is the attitude's rate in the body."""
    smooth = means(gyro, turning.t, RATE_WINDOW_S)
    lengths = [np.linalg.norm(rate, axis=1) for rate in (smooth, turning.value)]
    # The quantile, and below the mean of cosines: a crash must not outweigh the flight.
    felt, seen = (float(np.quantile(length, 0.9)) for length in lengths)
    if felt > RATE_RATIO * max(seen, STILL_RAD_S):
        raise InputError(
            f"{where}: {gyro.name} says {felt:.3g} rad/s where the attitude turns at {seen:.3g}, "
            "as if it were in degrees; expected rad/s: multiply it by pi / 180."
        )
    if seen > RATE_RATIO * felt and seen > STILL_RAD_S:
        raise InputError(
            f"{where}: {gyro.name} says {felt:.3g} rad/s where the attitude turns at {seen:.3g}, "
            "as if radians had been taken for degrees and converted again; expected rad/s."
        )
    moving = np.minimum(*lengths) > MOVING_RAD_S
    if moving.sum() >= MOVING_ROWS:
        together = np.sum(smooth * turning.value, axis=1)[moving]
        cosine = float(np.mean(together / (lengths[0] * lengths[1])[moving]))
        if cosine < TOGETHER:
            raise InputError(
                f"{where}: {gyro.name} and {turning.name} do not turn about the same axes (mean "
                f"cosine {cosine:.2f}); check the body's axes, the offset of the clocks, and that "
                "quaternions are w first and body to world."
            )


def check_speed(velocity: Signal, position: Signal, where: str) -> None:
    """A quadrotor's speed, and that of its positions."""
    middle = 0.5 * (position.t[1:] + position.t[:-1])
    slope = Signal("", middle, np.diff(position.value, axis=0) / np.diff(position.t)[:, None])
    t = np.clip(velocity.t, middle[0], middle[-1])
    moved, told = means(slope, t, RATE_WINDOW_S), means(velocity, t, RATE_WINDOW_S)
    speed, other, apart = (
        float(np.quantile(np.linalg.norm(v, axis=1), 0.9)) for v in (moved, told, moved - told)
    )
    if max(speed, other) > FASTEST_M_S:
        raise InputError(
            f"{where}: {position.name} moves at {speed:.0f} m/s and {velocity.name} says "
            f"{other:.0f}, as if in millimetres; expected metres and m/s."
        )
    if apart > 0.5 * speed + SPEED_MARGIN:
        raise InputError(
            f"{where}: {position.name} moves at {speed:.2g} m/s and {velocity.name} differs from "
            f"that by {apart:.2g}; expected the velocity in the world, in m/s."
        )


def check_battery(battery: Signal, where: str) -> None:
    """Volts."""
    volts = float(np.median(battery.value))
    if not BATTERY_V[0] < volts < BATTERY_V[1]:
        raise InputError(f"{where}: {battery.name} is {volts:.4g} in the median; expected volts.")


def means(signal: Signal, t: np.ndarray, window_s: float) -> np.ndarray:
    """The mean of a signal over a window around each t, by the integral of straight lines."""
    steps = 0.5 * (signal.value[1:] + signal.value[:-1]) * np.diff(signal.t)[:, None]
    integral = np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
    whole = Signal(signal.name, signal.t, integral)
    ends = np.clip(t[:, None] + 0.5 * window_s * np.array([-1.0, 1.0]), signal.t[0], signal.t[-1])
    width = np.maximum(ends[:, 1] - ends[:, 0], 1e-9)
    return (linear(whole, ends[:, 1]) - linear(whole, ends[:, 0])) / width[:, None]


def linear(signal: Signal, t: np.ndarray) -> np.ndarray:
    """Straight lines between the samples."""
    return np.stack([np.interp(t, signal.t, column) for column in signal.value.T], axis=1)


def check_gravity(force: Float[np.ndarray, "3"], where: str) -> None:
    """The mean specific force in the world, less what became speed, is gravity's opposite."""
    if np.linalg.norm(force - UP_M_S2) > GRAVITY_MARGIN:
        x, y, z = force
        raise InputError(
            f"{where}: in the world the accelerometer's mean is ({x:.1f}, {y:.1f}, {z:.1f}) "
            "m/s^2 and should be (0, 0, 9.8); check the body's axes, that quaternions are w first "
            'and body to world, and that the world\'s z is up (a map may say frame = "ned").'
        )
