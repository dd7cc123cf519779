"""Bad stamps, NaN and quaternions of a signal: repaired and reported, or refused."""

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.signal import Signal

# Off length 1 by less: rounding, as a Crazyflie's compressed quaternions are by 0.005. By more than
# the second: no rotation.
ROUNDED, NO_ROTATION = 0.01, 0.1
# A quaternion of this length is zero: so motion capture writes that it has lost the body.
ZERO_LENGTH = 1e-6


def clean(signal: Signal, where: str, repairs: list[str]) -> Signal:
    """Drops rows of NaN and repeated stamps; refuses a time that runs backwards."""
    finite = np.isfinite(signal.t) & np.isfinite(signal.value).all(axis=1)
    if finite.sum() < 2:
        empty = [str(i) for i in range(signal.value.shape[1]) if _empty(signal.value[:, i])]
        which = f"column {', '.join(empty)} has none" if empty else f"it has {finite.sum()}"
        raise InputError(
            f"{where}: {signal.name} needs at least 2 rows of finite numbers, and {which}."
        )
    if not finite.all():
        repairs.append(f"{signal.name}: {count(~finite, 'row')} with NaN dropped")
    signal = signal.select(finite)
    backwards = np.flatnonzero(np.diff(signal.t) < 0.0)
    if len(backwards):
        k = backwards[0]
        raise InputError(
            f"{where}: the time of {signal.name} runs backwards {len(backwards)} times, first from "
            f"{signal.t[k]:.3f} s to {signal.t[k + 1]:.3f} s after row {k}; sort the rows, or cut "
            "the log where its clock was reset."
        )
    increasing = np.diff(signal.t, prepend=-np.inf) > 0.0
    if not increasing.all():
        repairs.append(f"{signal.name}: {count(~increasing, 'duplicate stamp')} dropped")
    if increasing.sum() < 2:
        raise InputError(f"{where}: every row of {signal.name} has the same time.")
    return signal.select(increasing)


def count(which: np.ndarray, what: str) -> str:
    """How many are true, in words: `37 duplicate stamps`."""
    n = int(np.sum(which))
    return f"{n} {what}{'' if n == 1 else 's'}"


def merge_messages(repairs: list[str]) -> tuple[str, ...]:
    """The same message of several signals as one: `acc, gyro: 37 duplicate stamps dropped`."""
    names: dict[str, list[str]] = {}
    for repair in repairs:
        name, _, what = repair.rpartition(": ")
        names.setdefault(what, []).append(name)
    return tuple(f"{', '.join(n)}: {what}" if any(n) else what for what, n in names.items())


def _empty(column: np.ndarray) -> bool:
    return not np.isfinite(column).any()


def unit_quaternions(signal: Signal, where: str, repairs: list[str]) -> Signal:
    """Quaternions of length 1 whose sign does not jump; drops zeros, refuses other lengths."""
    length = np.linalg.norm(signal.value, axis=1)
    lost = length < ZERO_LENGTH
    if lost.all():
        raise InputError(f"{where}: every quaternion of {signal.name} is zero.")
    if (~lost).sum() < 2:
        raise InputError(f"{where}: all quaternions of {signal.name} but one are zero.")
    off = np.abs(length - 1.0)[~lost]
    if off.max() > NO_ROTATION:
        raise InputError(
            f"{where}: {signal.name} has {np.sum(off > NO_ROTATION)} quaternions that are no "
            f"rotation, one of length {length[~lost][off.argmax()]:.3g}; expected length 1, w "
            "first."
        )
    if lost.any():
        repairs.append(f"{signal.name}: {count(lost, 'zero quaternion')} dropped")
    if off.max() > ROUNDED:
        repairs.append(
            f"{signal.name}: {count(off > ROUNDED, 'quaternion')} brought to length 1, "
            f"from up to {off.max():.2g} off it"
        )
    signal = signal.select(~lost)
    q = signal.value / length[~lost, None]
    flips = np.sum(q[1:] * q[:-1], axis=1) < 0.0
    sign = np.where(np.cumsum(np.concatenate([[False], flips])) % 2, -1.0, 1.0)
    return signal._replace(value=q * sign[:, None])


def clean_pose(
    position: Signal | None, quaternion: Signal | None, where: str, repairs: list[str]
) -> tuple[Signal, Signal] | None:
    """Position and attitude, both repaired; None where one of them is missing."""
    if position is None or quaternion is None:
        return None
    position, quaternion = (clean(signal, where, repairs) for signal in (position, quaternion))
    return position, unit_quaternions(quaternion, where, repairs)
