"""A summary of a log's signals: rates, ranges, likely units, gaps, and the clocks' offset."""

from typing import NamedTuple

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.axes import disagreements
from sagewing.logs.checks import FASTEST_M_S, FORCE_G, FORCE_M_S2
from sagewing.logs.clock import Offset, clock_offset
from sagewing.logs.log import Log
from sagewing.logs.readers.text_table import SAMPLE_ROWS, Table, printable
from sagewing.logs.repair import clean, clean_pose
from sagewing.logs.signal import Signal

FAST_RAD_S = 20.0
# The variance of the third difference of white noise, over that of the noise itself. The third
# difference of a flight's own motion is close to zero.
THIRD_DIFFERENCE = 20.0


class SignalSummary(NamedTuple):
    """One signal of a log; times in seconds from the log's first sample."""

    signal: str
    role: str
    rows: int
    rate_hz: float
    start_s: float
    stop_s: float
    longest_gap_s: float
    low: float
    high: float
    unit: str


class Survey(NamedTuple):
    """All signals; the offset of the pose's clock and the position's noise, if they are found.

    `warnings` are for the user to look at.
    """

    signals: list[SignalSummary]
    offset: Offset | None
    position_noise_m: float | None
    warnings: list[str]


def survey(log: Log) -> Survey:
    """Summarize a log as it is; nothing is repaired or refused."""
    roles: list[tuple[str, Signal | None]] = [
        ("accelerometer", log.acc),
        ("gyroscope", log.gyro),
        ("position", log.position),
        ("attitude", log.quaternion),
        ("true position", log.truth_position),
        ("true attitude", log.truth_quaternion),
        ("own position", log.onboard_position),
        ("own attitude", log.onboard_quaternion),
        ("motors", log.motors),
        ("battery", log.battery),
    ]
    present = [(role, _finite(signal)) for role, signal in roles if signal is not None]
    present = [(role, signal) for role, signal in present if len(signal.t) > 1]
    start = min((float(signal.t.min()) for _, signal in present), default=0.0)
    warnings: list[str] = []
    summaries = [_summary(role, signal, start, warnings) for role, signal in present]
    if log.position is None:
        warnings.append("no position was found, and sagewing run needs one")
    offset = _offset(log, warnings)
    return Survey(summaries, offset, _noise(log), warnings)


def _finite(signal: Signal) -> Signal:
    return signal.select(np.isfinite(signal.t) & np.isfinite(signal.value).all(axis=1))


def _summary(role: str, signal: Signal, start: float, warnings: list[str]) -> SignalSummary:
    steps = np.diff(signal.t)
    median = float(np.median(steps))
    if np.any(steps < 0.0):
        warnings.append(f"the time of {signal.name} runs backwards {np.sum(steps < 0.0)} times")
    unit = _unit(role, signal, median, warnings)
    return SignalSummary(
        signal=signal.name,
        role=role,
        rows=len(signal.t),
        rate_hz=1.0 / median if median > 0.0 else np.nan,
        start_s=float(signal.t[0]) - start,
        stop_s=float(signal.t[-1]) - start,
        longest_gap_s=float(steps.max()),
        low=float(signal.value.min()),
        high=float(signal.value.max()),
        unit=unit,
    )


def _unit(role: str, signal: Signal, step: float, warnings: list[str]) -> str:
    """The unit that the numbers suggest; warns where it is not the expected one."""
    length = np.linalg.norm(signal.value, axis=1)
    if role == "accelerometer":
        force = float(np.median(length))
        if FORCE_G[0] < force < FORCE_G[1]:
            warnings.append(f'{signal.name} is {force:.2f} in the median: in g? (acc_unit = "g")')
            return "g?"
        return "m/s^2" if FORCE_M_S2[0] < force < FORCE_M_S2[1] else "?"
    if role == "gyroscope":
        fast = float(np.quantile(length, 0.9))
        if fast > FAST_RAD_S:
            warnings.append(f'{signal.name} reaches {fast:.0f}: in degrees? (gyro_unit = "deg/s")')
            return "deg/s?"
        return "rad/s"
    if role.endswith("position"):
        moved = np.linalg.norm(np.diff(signal.value, axis=0), axis=1)
        if step > 0.0 and np.median(moved) / step > FASTEST_M_S:
            warnings.append(f'{signal.name} moves too fast: in mm? (position_unit = "mm")')
            return "mm?"
        return "m"
    if role.endswith("attitude"):
        return "1" if abs(float(np.median(length)) - 1.0) < 0.1 else "?"
    return {"motors": "0..1", "battery": "V"}.get(role, "?")


def _offset(log: Log, warnings: list[str]) -> Offset | None:
    try:
        acc, gyro = (clean(signal, log.where, []) for signal in (log.acc, log.gyro))
        pose = clean_pose(log.position, log.quaternion, log.where, [])
        if pose is None:
            return None
        warnings += disagreements(acc, gyro, *pose, log.where)
        return clock_offset(gyro, pose[1])
    except InputError as error:
        warnings.append(str(error).removeprefix(f"{log.where}: ").rstrip("."))
        return None


def _noise(log: Log) -> float | None:
    """The standard deviation of the positions' white noise, from their third differences."""
    if log.position is None or len(_finite(log.position).t) < 100:
        return None
    differences = np.diff(_finite(log.position).value, n=3, axis=0)
    std = (
        np.median(np.abs(differences), axis=0) / 0.6745
    )  # the median absolute value of a normal variable
    return float(np.max(std) / np.sqrt(THIRD_DIFFERENCE))


class ColumnSummary(NamedTuple):
    """One column of a table, from its first rows."""

    file: str
    name: str
    low: float
    high: float
    step: float  # the median difference between rows; that of a clock shows its unit


@np.errstate(all="ignore")  # numbers of a damaged file overflow
def summarize_columns(tables: list[Table]) -> list[ColumnSummary]:
    """Summaries of the columns of tables that hold numbers."""
    found = []
    for table in tables:
        names = table.numeric()
        values = table.columns(names, rows=SAMPLE_ROWS) if names else np.zeros((1, 0))
        for name, value in zip(names, values.T, strict=True):
            known = value[np.isfinite(value)]
            step = float(np.median(np.diff(known))) if len(known) > 1 else np.nan
            low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
            found.append(
                ColumnSummary(printable(table.path.name), name, float(low), float(high), step)
            )
    return found
