"""What a log has: rates, ranges, likely units, gaps and how its clocks agree."""

from typing import NamedTuple

import numpy as np

from sagewing.errors import InputError
from sagewing.logs.axes import disagreements
from sagewing.logs.clock import Offset, clock_offset
from sagewing.logs.log import Log, attitudes
from sagewing.logs.readers.tables import SAMPLE_ROWS, Table, printable
from sagewing.logs.repair import (
    FASTEST_M_S,
    FORCE_G,
    FORCE_M_S2,
    Signal,
    clean,
)

FAST_RAD_S = 20.0
# The third difference of white noise has 20 times its variance, and that of a flight nearly none.
THIRD_DIFFERENCE = 20.0


class Sighting(NamedTuple):
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
    """All signals, the offset of the pose's clock, and the pose's noise where it can be told."""

    signals: list[Sighting]
    offset: Offset | None
    position_noise_m: float | None
    doubts: list[str]


def survey(log: Log) -> Survey:
    """Look at a log as it is; nothing is repaired or refused but what cannot be looked at."""
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
    there = [(role, _finite(signal)) for role, signal in roles if signal is not None]
    there = [(role, signal) for role, signal in there if len(signal.t) > 1]
    start = min((float(signal.t.min()) for _, signal in there), default=0.0)
    doubts: list[str] = []
    seen = [_sighting(role, signal, start, doubts) for role, signal in there]
    if log.position is None:
        doubts.append("no position was found, and sagewing run needs one")
    offset = _offset(log, doubts)
    return Survey(seen, offset, _noise(log), doubts)


def _finite(signal: Signal) -> Signal:
    return signal.keep(np.isfinite(signal.t) & np.isfinite(signal.value).all(axis=1))


def _sighting(role: str, signal: Signal, start: float, doubts: list[str]) -> Sighting:
    steps = np.diff(signal.t)
    usual = float(np.median(steps))
    if np.any(steps < 0.0):
        doubts.append(f"the time of {signal.name} runs backwards {np.sum(steps < 0.0)} times")
    unit = _unit(role, signal, usual, doubts)
    return Sighting(
        signal=signal.name,
        role=role,
        rows=len(signal.t),
        rate_hz=1.0 / usual if usual > 0.0 else np.nan,
        start_s=float(signal.t[0]) - start,
        stop_s=float(signal.t[-1]) - start,
        longest_gap_s=float(steps.max()),
        low=float(signal.value.min()),
        high=float(signal.value.max()),
        unit=unit,
    )


def _unit(role: str, signal: Signal, step: float, doubts: list[str]) -> str:
    """What the numbers look like; a doubt where it is not what they should be."""
    length = np.linalg.norm(signal.value, axis=1)
    if role == "accelerometer":
        force = float(np.median(length))
        if FORCE_G[0] < force < FORCE_G[1]:
            doubts.append(f'{signal.name} is {force:.2f} in the median: in g? (acc_unit = "g")')
            return "g?"
        return "m/s^2" if FORCE_M_S2[0] < force < FORCE_M_S2[1] else "?"
    if role == "gyroscope":
        fast = float(np.quantile(length, 0.9))
        if fast > FAST_RAD_S:
            doubts.append(f'{signal.name} reaches {fast:.0f}: in degrees? (gyro_unit = "deg/s")')
            return "deg/s?"
        return "rad/s"
    if role.endswith("position"):
        moved = np.linalg.norm(np.diff(signal.value, axis=0), axis=1)
        if step > 0.0 and np.median(moved) / step > FASTEST_M_S:
            doubts.append(f'{signal.name} moves too fast: in mm? (position_unit = "mm")')
            return "mm?"
        return "m"
    if role.endswith("attitude"):
        return "1" if abs(float(np.median(length)) - 1.0) < 0.1 else "?"
    return {"motors": "0..1", "battery": "V"}.get(role, "?")


def _offset(log: Log, doubts: list[str]) -> Offset | None:
    try:
        acc, gyro = (clean(signal, log.where, []) for signal in (log.acc, log.gyro))
        pose = attitudes(log.position, log.quaternion, log.where, [])
        if pose is None:
            return None
        doubts += disagreements(acc, gyro, *pose, log.where)
        return clock_offset(gyro, pose[1])
    except InputError as error:
        doubts.append(str(error).removeprefix(f"{log.where}: ").rstrip("."))
        return None


def _noise(log: Log) -> float | None:
    """The standard deviation of the positions' white noise, from their third differences."""
    if log.position is None or len(_finite(log.position).t) < 100:
        return None
    jerks = np.diff(_finite(log.position).value, n=3, axis=0)
    spread = np.median(np.abs(jerks), axis=0) / 0.6745  # of a normal distribution, by its median
    return float(np.max(spread) / np.sqrt(THIRD_DIFFERENCE))


class Column(NamedTuple):
    """One column of a table, by its first rows."""

    file: str
    name: str
    low: float
    high: float
    step: float  # the median, between rows: of a clock, its unit's


@np.errstate(all="ignore")  # numbers of a damaged file overflow
def columns(tables: list[Table]) -> list[Column]:
    """The columns of numbers of some tables."""
    found = []
    for table in tables:
        names = table.numeric()
        values = table.columns(names, rows=SAMPLE_ROWS) if names else np.zeros((1, 0))
        for name, value in zip(names, values.T, strict=True):
            known = value[np.isfinite(value)]
            step = float(np.median(np.diff(known))) if len(known) > 1 else np.nan
            low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
            found.append(Column(printable(table.path.name), name, float(low), float(high), step))
    return found
