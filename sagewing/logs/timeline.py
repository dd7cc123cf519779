"""A log at its IMU's rate: one step a sample, and a pose in the steps that have one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from sagewing.errors import InputError
from sagewing.logs.axes import disagreements, fitted_velocity
from sagewing.logs.checks import check_force
from sagewing.logs.clock import clock_offset
from sagewing.logs.flight import Pose, Times
from sagewing.logs.gaps import LONGEST_GAP_S, SHORTEST_FLIGHT_S, pose_at
from sagewing.logs.imu_clock import imu_samples, pose_rows
from sagewing.logs.log import Log
from sagewing.logs.mounting import level_attitude, rotate_body, rotate_imu, upright_rotation
from sagewing.logs.repair import clean, clean_pose, merge_messages, unit_quaternions
from sagewing.logs.rotate import multiply, slerp
from sagewing.logs.signal import Signal, interpolate

# The velocity at the start is fitted to the positions of so many seconds.
START_S = 0.5
# A pause of the pose is a dropout if it is longer than this, and than so many of its median steps.
DROPOUT_S, DROPOUT_STEPS = 0.5, 5.0
# A smaller clock offset is not noted.
NOTED_S = 0.005


@dataclass(frozen=True)
class Timeline:
    """Step k ends at `t[k]` and lasts `dt[k]`; `imu[k]` is the IMU's mean over it.

    `origin` is the log's time at t = 0, which is one step before the first row; `start` is the
    position, the velocity in the world and the attitude there. `body_rotation` is the rotation from
    the log's body to this one, whose z axis points up.
    """

    name: str
    origin: float
    t: Times
    dt: Times
    imu: Float[np.ndarray, "T 6"]
    pose: Pose  # NaN in the steps without one
    truth: tuple[Signal, Signal] | None  # position and attitude, with their own times
    onboard: tuple[Signal, Signal] | None
    start: tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"], Float[np.ndarray, "4"]]
    dropouts: tuple[tuple[float, float], ...]
    body_rotation: Float[np.ndarray, "4"]
    notes: tuple[str, ...]

    @property
    def step(self) -> float:
        """The median step, in seconds."""
        return float(np.median(self.dt))

    @property
    def steps_a_pose(self) -> float:
        """The median number of steps from one pose to the next."""
        rows = np.flatnonzero(np.isfinite(self.pose.position).all(axis=1))
        return float(np.median(np.diff(rows))) if len(rows) > 1 else 1.0

    def steps_within(self, windows: Sequence[tuple[float, float]]) -> Bool[np.ndarray, "T"]:
        """Which steps lie in these windows, given in seconds from the start."""
        inside = np.zeros(len(self.t), bool)
        for start, stop in windows:
            inside |= (self.t >= start) & (self.t < stop)
        return inside

    def at(self, pair: tuple[Signal, Signal] | None, rows: np.ndarray) -> Pose | None:
        """The truth or the onboard pose at these steps; NaN in its gaps and outside of it."""
        return None if pair is None else pose_at(pair, self.origin + self.t[rows])

    def in_log_axes(self, pose: Pose) -> Pose:
        """The pose of this body as that of the log's."""
        rotation = np.broadcast_to(self.body_rotation, pose.quaternion.shape)
        return Pose(pose.position, multiply(pose.quaternion, rotation))


def timeline(log: Log) -> Timeline:
    """The steps of a log from its first pose to its last; `notes` lists the repairs."""
    notes, where = list(log.notes), log.where
    if log.position is None:
        raise InputError(
            f"{where} has no position to estimate from; name its columns or topics in a map "
            f"(sagewing inspect {where} --write-map map.toml)."
        )
    acc, gyro = (clean(signal, where, notes) for signal in (log.acc, log.gyro))
    check_force(acc, where)
    position = clean(log.position, where, notes)
    quaternion = _clean_attitude(log.quaternion, where, notes)
    t, imu = imu_samples(acc, gyro, where, notes)
    rotation = upright_rotation(imu, notes)
    imu = rotate_imu(imu, rotation)
    if quaternion is not None:
        notes += disagreements(acc, gyro, position, quaternion, where)
        _note_offset(gyro, quaternion, notes)
        quaternion = rotate_body(quaternion, rotation)
    first, last = _common_rows(t, position, quaternion, where)
    t, imu = t[first : last + 1], imu[first : last + 1]
    attitude = _start_attitude(t[0], quaternion, log, imu, rotation, notes)
    velocity = fitted_velocity(position.window(t[0], t[0] + START_S))
    pose = pose_rows(t, position, quaternion)
    truth = clean_pose(log.truth_position, log.truth_quaternion, where, notes)
    onboard = clean_pose(log.onboard_position, log.onboard_quaternion, where, notes)
    return Timeline(
        name=log.name,
        origin=float(t[0]),
        t=t[1:] - t[0],
        dt=np.diff(t),
        imu=0.5 * (imu[1:] + imu[:-1]),
        pose=Pose(pose.position[1:], pose.quaternion[1:]),
        truth=truth and (truth[0], rotate_body(truth[1], rotation)),
        onboard=onboard and (onboard[0], rotate_body(onboard[1], rotation)),
        start=(interpolate(position, t[:1])[0], velocity, attitude),
        dropouts=_dropouts(position, float(t[0]), float(t[-1])),
        body_rotation=rotation,
        notes=merge_messages(notes),
    )


def _clean_attitude(quaternion: Signal | None, where: str, notes: list[str]) -> Signal | None:
    if quaternion is None:
        return None
    return unit_quaternions(clean(quaternion, where, notes), where, notes)


def _note_offset(gyro: Signal, quaternion: Signal, notes: list[str]) -> None:
    offset = clock_offset(gyro, quaternion)
    if offset is not None and offset.credible and abs(offset.late_s) > NOTED_S:
        notes.append(
            f"the pose's clock seems {1e3 * offset.late_s:.0f} ms late; if so, write delay_ms = "
            f"{1e3 * offset.late_s:.0f} under [pose] in a map"
        )


def _common_rows(
    t: Times, position: Signal, quaternion: Signal | None, where: str
) -> tuple[int, int]:
    """The first and the last of the rows that have a pose before or after them."""
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


def _start_attitude(
    at: float,
    quaternion: Signal | None,
    log: Log,
    imu: np.ndarray,
    rotation: Float[np.ndarray, "4"],
    notes: list[str],
) -> Float[np.ndarray, "4"]:
    """The measured attitude, else the vehicle's own, else a level one with yaw 0."""
    if quaternion is not None:
        return slerp(quaternion, np.array([at]))[0]
    onboard = _clean_attitude(log.onboard_quaternion, log.where, notes)
    if onboard is not None and onboard.t[0] <= at + LONGEST_GAP_S:
        notes.append(f"no attitude is measured; the first is that of {onboard.name}")
        return slerp(rotate_body(onboard, rotation), np.array([at]))[0]
    notes.append("no attitude is measured; the first is level with yaw 0, which may be far off")
    return level_attitude(imu)


def _dropouts(position: Signal, start: float, stop: float) -> tuple[tuple[float, float], ...]:
    """The pauses of the pose, in seconds from the start."""
    steps = np.diff(position.t)
    long = np.flatnonzero(steps > max(DROPOUT_S, DROPOUT_STEPS * float(np.median(steps))))
    ends = ((position.t[k] - start, position.t[k + 1] - start) for k in long)
    return tuple((float(a), float(b)) for a, b in ends if a >= 0.0 and b <= stop - start + 1e-9)
