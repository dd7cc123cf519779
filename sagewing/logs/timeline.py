"""A log at the rate of its IMU: one step a sample, and a pose in those steps in which one came."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from sagewing.errors import InputError
from sagewing.logs.axes import disagreements, slope
from sagewing.logs.clock import clock_offset
from sagewing.logs.flight import Pose, Times
from sagewing.logs.log import Log, attitudes, sampled
from sagewing.logs.repair import (
    LONGEST_GAP_S,
    SHORTEST_FLIGHT_S,
    Signal,
    check_force,
    clean,
    count,
    linear,
    merged,
    unit_quaternions,
)
from sagewing.logs.rotate import between, conjugate, multiply, rotate, slerp

UP = np.array([0.0, 0.0, 1.0])
# An IMU that is mounted further off the vertical is turned: Euler angles do not bear 90 degrees.
LEVEL_RAD = np.radians(30.0)
# Steps this much longer than the IMU's own are filled with samples on a straight line.
LOST_SAMPLE = 1.5
# What the positions of the first so many seconds say of the velocity at the start.
START_S = 0.5
# A pause of the pose is a dropout if it is longer than this, and than so many of its own steps.
DROPOUT_S, DROPOUT_STEPS = 0.5, 5.0
# An offset of the clocks is worth a note from here on.
NOTED_S = 0.005


@dataclass(frozen=True)
class Timeline:
    """Step k ends at `t[k]`, `dt[k]` after the one before it; the IMU is its mean over the step.

    `turned` is the rotation from the log's body to this one, `origin` the log's time at t = 0,
    which is one step before the first row. `start` is position, velocity in the world and attitude
    there.
    """

    name: str
    origin: float
    t: Times
    dt: Times
    imu: Float[np.ndarray, "T 6"]
    pose: Pose  # NaN where none came
    truth: tuple[Signal, Signal] | None  # position and attitude, at times of their own
    onboard: tuple[Signal, Signal] | None
    start: tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"], Float[np.ndarray, "4"]]
    dropouts: tuple[tuple[float, float], ...]
    turned: Float[np.ndarray, "1 4"]
    notes: tuple[str, ...]

    @property
    def step(self) -> float:
        """The usual step, in seconds."""
        return float(np.median(self.dt))

    @property
    def steps_a_pose(self) -> float:
        """How many steps there usually are from one pose to the next."""
        came = np.flatnonzero(np.isfinite(self.pose.position).all(axis=1))
        return float(np.median(np.diff(came))) if len(came) > 1 else 1.0

    def hidden(self, windows: Sequence[tuple[float, float]]) -> Bool[np.ndarray, "T"]:
        """Which steps lie in these windows."""
        inside = np.zeros(len(self.t), bool)
        for start, stop in windows:
            inside |= (self.t >= start) & (self.t < stop)
        return inside

    def at(self, pair: tuple[Signal, Signal] | None, rows: np.ndarray) -> Pose | None:
        """A pose of other times at these steps, NaN where it does not reach."""
        return None if pair is None else sampled(pair, self.origin + self.t[rows])

    def in_log(self, pose: Pose) -> Pose:
        """A pose of our body as one of the log's."""
        turn = np.broadcast_to(self.turned, pose.quaternion.shape)
        return Pose(pose.position, multiply(pose.quaternion, turn))


def timeline(log: Log) -> Timeline:
    """The steps of a log, from its first pose to its last; what was repaired is in `notes`."""
    notes, where = list(log.notes), log.where
    if log.position is None:
        raise InputError(
            f"{where} has no position to estimate from; name its columns or topics in a map "
            f"(sagewing inspect {where} --write-map map.toml)."
        )
    acc, gyro = (clean(signal, where, notes) for signal in (log.acc, log.gyro))
    check_force(acc, where)
    position = clean(log.position, where, notes)
    quaternion = _attitude(log.quaternion, where, notes)
    t, imu = _clock(acc, gyro, where, notes)
    turned = _level(imu, notes)
    imu = _turned_imu(imu, turned)
    if quaternion is not None:
        notes += disagreements(acc, gyro, position, quaternion, where)
        _note_offset(gyro, quaternion, notes)
        quaternion = _turned(quaternion, turned)
    first, last = _span(t, position, quaternion, where)
    t, imu = t[first : last + 1], imu[first : last + 1]
    q_start = _start_attitude(t[0], quaternion, log, imu, turned, notes)
    velocity = slope(position.between(t[0], t[0] + START_S))
    measured = _placed(t, position, quaternion)
    truth = attitudes(log.truth_position, log.truth_quaternion, where, notes)
    onboard = attitudes(log.onboard_position, log.onboard_quaternion, where, notes)
    return Timeline(
        name=log.name,
        origin=float(t[0]),
        t=t[1:] - t[0],
        dt=np.diff(t),
        imu=0.5 * (imu[1:] + imu[:-1]),
        pose=Pose(measured.position[1:], measured.quaternion[1:]),
        truth=truth and (truth[0], _turned(truth[1], turned)),
        onboard=onboard and (onboard[0], _turned(onboard[1], turned)),
        start=(linear(position, t[:1])[0], velocity, q_start),
        dropouts=_dropouts(position, float(t[0]), float(t[-1])),
        turned=turned,
        notes=merged(notes),
    )


def _attitude(quaternion: Signal | None, where: str, notes: list[str]) -> Signal | None:
    if quaternion is None:
        return None
    return unit_quaternions(clean(quaternion, where, notes), where, notes)


def _clock(
    acc: Signal, gyro: Signal, where: str, notes: list[str]
) -> tuple[Times, Float[np.ndarray, "n 6"]]:
    """The gyroscope's times, filled where samples were lost, and both sensors there."""
    inside = (gyro.t >= acc.t[0]) & (gyro.t <= acc.t[-1])
    t = gyro.t[inside]
    if len(t) < 2 or t[-1] - t[0] < SHORTEST_FLIGHT_S:
        raise InputError(
            f"{where}: {acc.name} and {gyro.name} share less than {SHORTEST_FLIGHT_S:g} s (are the "
            "times in seconds, and of one clock?)."
        )
    steps = np.diff(t)
    usual = float(np.median(steps))
    lost = steps > LOST_SAMPLE * usual
    added = np.where(lost, np.ceil(steps / usual - 1e-6) - 1.0, 0.0)
    if added.sum() > len(t):
        raise InputError(
            f"{where}: {gyro.name} has gaps of up to {steps.max():.3g} s where its steps are "
            f"{usual:.3g} s, longer in all than the rest; cut the log there, or check its times."
        )
    if lost.any():
        notes.append(
            f"{gyro.name}: {count(lost, 'gap')} of up to {1e3 * steps.max():.0f} ms filled by "
            "straight lines"
        )
        pieces = added.astype(int) + 1
        share = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        t = np.append(np.repeat(t[:-1], pieces) + share * np.repeat(steps / pieces, pieces), t[-1])
    return t, np.concatenate([linear(acc, t), linear(gyro, t)], axis=1)


def _level(imu: Float[np.ndarray, "n 6"], notes: list[str]) -> Float[np.ndarray, "1 4"]:
    """The rotation that brings the usual specific force upright, if it is far from it."""
    force = np.median(imu[:, :3], axis=0)
    length = float(np.linalg.norm(force))
    if length < 1.0 or force[2] / length > np.cos(LEVEL_RAD):
        return np.array([[1.0, 0.0, 0.0, 0.0]])
    if force[2] / length < -np.cos(LEVEL_RAD):
        notes.append("the body's z axis points down, turned to forward, left, up")
        return np.array([[0.0, 1.0, 0.0, 0.0]])
    tilt = np.degrees(np.arccos(force[2] / length))
    notes.append(f"the IMU is mounted {tilt:.0f} degrees off the vertical; the body is turned")
    return between(force, UP)


def _turned_imu(imu: Float[np.ndarray, "n 6"], turned: np.ndarray) -> Float[np.ndarray, "n 6"]:
    if turned[0, 0] == 1.0:
        return imu
    turn = np.broadcast_to(turned, (len(imu), 4))
    return np.concatenate([rotate(turn, imu[:, :3]), rotate(turn, imu[:, 3:])], axis=1)


def _turned(quaternion: Signal, turned: np.ndarray) -> Signal:
    """The attitude of the turned body."""
    turn = np.broadcast_to(conjugate(turned), quaternion.value.shape)
    return quaternion._replace(value=multiply(quaternion.value, turn))


def _note_offset(gyro: Signal, quaternion: Signal, notes: list[str]) -> None:
    offset = clock_offset(gyro, quaternion)
    if offset is not None and offset.credible and abs(offset.late_s) > NOTED_S:
        notes.append(
            f"the pose's clock seems {1e3 * offset.late_s:.0f} ms late; if so, write delay_ms = "
            f"{1e3 * offset.late_s:.0f} under [pose] in a map"
        )


def _span(t: Times, position: Signal, quaternion: Signal | None, where: str) -> tuple[int, int]:
    """The rows from the first pose to the last."""
    starts = [position.t[0]] + ([] if quaternion is None else [quaternion.t[0]])
    first = int(np.searchsorted(t, max(starts)))
    last = int(np.searchsorted(t, position.t[-1], side="right")) - 1
    if first >= len(t) or last >= len(t) or t[last] - t[first] < SHORTEST_FLIGHT_S:
        raise InputError(
            f"{where}: IMU ({t[0]:.3f} to {t[-1]:.3f} s) and pose ({position.t[0]:.3f} to "
            f"{position.t[-1]:.3f} s) share less than {SHORTEST_FLIGHT_S:g} s; check the units and "
            "the origins of their times."
        )
    return first, last


def _placed(t: Times, position: Signal, quaternion: Signal | None) -> Pose:
    """Each sample in the row nearest to it, moved there along the line to its neighbour."""
    p, q = np.full((len(t), 3), np.nan), np.full((len(t), 4), np.nan)
    rows = _rows(t, position)
    p[rows] = _near(position, t[rows], linear(position, t[rows]))
    if quaternion is not None:
        rows = _rows(t, quaternion)
        q[rows] = _near(quaternion, t[rows], slerp(quaternion, t[rows]))
    return Pose(p, q)


def _rows(t: Times, signal: Signal) -> np.ndarray:
    after = np.clip(np.searchsorted(t, signal.t), 1, len(t) - 1)
    nearest = after - (signal.t - t[after - 1] < t[after] - signal.t)
    inside = np.abs(t[nearest] - signal.t) <= 0.5 * (t[after] - t[after - 1]) + 1e-9
    return np.unique(nearest[inside])


def _near(signal: Signal, t: Times, moved: np.ndarray) -> np.ndarray:
    """What was moved; the sample itself where the neighbour is too far away to move towards."""
    after = np.clip(np.searchsorted(signal.t, t), 1, len(signal.t) - 1)
    before = after - 1
    far = signal.t[after] - signal.t[before] > LONGEST_GAP_S
    nearest = np.where(t - signal.t[before] < signal.t[after] - t, before, after)
    return np.where(far[:, None], signal.value[nearest], moved)


def _start_attitude(
    at: float,
    quaternion: Signal | None,
    log: Log,
    imu: np.ndarray,
    turned: np.ndarray,
    notes: list[str],
) -> Float[np.ndarray, "4"]:
    if quaternion is not None:
        return slerp(quaternion, np.array([at]))[0]
    own = _attitude(log.onboard_quaternion, log.where, notes)
    if own is not None and own.t[0] <= at + LONGEST_GAP_S:
        notes.append(f"no attitude is measured; the first is that of {own.name}")
        return slerp(_turned(own, turned), np.array([at]))[0]
    notes.append("no attitude is measured; the first is level with yaw 0, which may be far off")
    return between(imu[:1, :3].mean(axis=0), UP)[0]


def _dropouts(position: Signal, start: float, stop: float) -> tuple[tuple[float, float], ...]:
    """Where the pose pauses, in seconds from the start."""
    steps = np.diff(position.t)
    long = np.flatnonzero(steps > max(DROPOUT_S, DROPOUT_STEPS * float(np.median(steps))))
    ends = ((position.t[k] - start, position.t[k + 1] - start) for k in long)
    return tuple((float(a), float(b)) for a, b in ends if a >= 0.0 and b <= stop - start + 1e-9)
