"""The user's map of a log (TOML): which column, file or topic is which signal, in which unit."""

import json
import math
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from sagewing.errors import InputError, shown
from sagewing.files import read_regular

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
M_S2 = {"m/s^2": 1.0, "g": 9.80665}
RAD_S = {"rad/s": 1.0, "deg/s": math.pi / 180.0}
METRES = {"m": 1.0, "cm": 1e-2, "mm": 1e-3}
RADIANS = {"rad": 1.0, "deg": math.pi / 180.0}
UNITS = {
    "time_unit": SECONDS,
    "acc_unit": M_S2,
    "gyro_unit": RAD_S,
    "position_unit": METRES,
    "euler_unit": RADIANS,
}
Frame = Literal["enu", "ned"]
LARGEST_DELAY_MS = 10_000.0
# A drafted map is mostly comments, which list the columns. The settings are a few short lines; the
# time of a TOML parser grows with the square of a key's length.
LARGEST_MAP_BYTES, LARGEST_SETTINGS, LONGEST_SETTING = 1 << 20, 1 << 16, 1000
STD = (1e-9, 1e9)  # m and rad; squares of larger ones overflow in 32 bits


@dataclass(frozen=True)
class SignalSource:
    """Where the signals of one sensor are: columns by their names, or a topic."""

    file: str | None = None  # in a log that is a folder
    topic: str | None = None  # in a bag or a ULog
    time: str | None = None
    time_unit: str = "s"
    acc: tuple[str, ...] = ()  # x, y, z
    acc_unit: str = "m/s^2"
    gyro: tuple[str, ...] = ()
    gyro_unit: str = "rad/s"
    position: tuple[str, ...] = ()
    position_unit: str = "m"
    quaternion: tuple[str, ...] = ()  # w, x, y, z
    euler: tuple[str, ...] = ()  # roll, pitch, yaw
    euler_unit: str = "rad"
    gps: tuple[str, ...] = ()  # latitude and longitude in degrees, altitude in m
    delay_ms: float = 0.0  # how late this clock is, compared with the IMU's
    position_std: float | None = None  # m
    attitude_std: float | None = None  # rad


COLUMNS = {"acc": 3, "gyro": 3, "position": 3, "quaternion": 4, "euler": 3, "gps": 3}
NUMBERS = ("delay_ms", "position_std", "attitude_std")
OF_IMU = {"file", "topic", "time", "time_unit", "acc", "acc_unit", "gyro", "gyro_unit"}
OF_POSE = {field.name for field in fields(SignalSource)} - {"acc", "acc_unit", "gyro", "gyro_unit"}


@dataclass(frozen=True)
class Map:
    """The sources of a log; `frame` is that of its world and body.

    "enu" is z up with a body of forward, left, up; "ned" z down with forward, right, down.
    """

    imu: SignalSource = SignalSource()
    pose: SignalSource = SignalSource()
    truth: SignalSource | None = None
    frame: Frame = "enu"

    def toml(self) -> str:
        """The file's text."""
        lines = [f"frame = {json.dumps(self.frame)}"]
        for name, allowed in (("imu", OF_IMU), ("pose", OF_POSE), ("truth", OF_POSE)):
            source = getattr(self, name)
            settings = [] if source is None else _settings(source, allowed)
            lines += ["", f"[{name}]", *settings] if settings else []
        return "\n".join(lines) + "\n"


def _settings(source: SignalSource, allowed: set[str]) -> list[str]:
    """The settings that differ from the default, and the units of those."""
    lines = []
    for field in fields(source):
        value = getattr(source, field.name)
        measured = field.name.removesuffix("_unit")
        needed = field.name in UNITS and bool(getattr(source, measured))
        if field.name in allowed and (needed or value != field.default):
            plain = list(value) if isinstance(value, tuple) else value
            lines.append(f"{field.name} = {json.dumps(plain, ensure_ascii=False)}")
    return lines


def read_map(path: Path) -> Map:
    """The map in a TOML file."""
    try:
        text = read_regular(path, LARGEST_MAP_BYTES).decode("utf-8").replace("\r\n", "\n")
        _check_lengths(text, path)
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"There is no map at {path}; sagewing inspect drafts one.") from None
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a readable TOML file: {error}.") from None
    known = [field.name for field in fields(Map)]
    _check_keys(table, set(known), str(path))
    frame = table.get("frame", "enu")
    if frame not in get_args(Frame):
        raise InputError(f'{path}: frame must be "enu" or "ned"; got {shown(frame)}.')
    imu = _source(table, "imu", OF_IMU, path) or SignalSource()
    pose, truth = (_source(table, name, OF_POSE, path) for name in ("pose", "truth"))
    return Map(imu, pose or SignalSource(), truth, frame)


def _check_lengths(text: str, path: Path) -> None:
    # Split as TOML does: Python's splitlines splits at other characters, too.
    settings = [line for line in text.split("\n") if not line.lstrip(" \t").startswith("#")]
    longest = max(map(len, settings), default=0)
    if longest > LONGEST_SETTING or sum(map(len, settings)) > LARGEST_SETTINGS:
        raise InputError(
            f"{path} is no map: its settings may have {LARGEST_SETTINGS} characters, and "
            f"{LONGEST_SETTING} in a line."
        )


def _source(table: dict[str, Any], name: str, allowed: set[str], path: Path) -> SignalSource | None:
    if name not in table:
        return None
    given, where = table[name], f"{path}, [{name}]"
    if not isinstance(given, dict):
        raise InputError(f"{where} must be a table such as\n[{name}]\ntime = 't'.")
    _check_keys(given, allowed, where)
    source = SignalSource()
    for key, value in given.items():
        source = replace(source, **{key: _value(key, value, where)})
    if source.file is not None and Path(source.file).name != source.file:
        raise InputError(
            f"{where}: file must be a name in the log's folder; got {shown(source.file)}."
        )
    return source


def _value(key: str, value: Any, where: str) -> Any:
    if key in COLUMNS:
        count = COLUMNS[key]
        if not isinstance(value, list) or len(value) != count:
            raise InputError(
                f"{where}: {key} must be a list of {count} columns; got {shown(value)}."
            )
        return tuple(_name(v, key, where) for v in value)
    if key in UNITS and value not in list(UNITS[key]):
        known = ", ".join(UNITS[key])
        raise InputError(f"{where}: {key} must be one of {known}; got {shown(value)}.")
    if key in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}: {key} must be a number; got {shown(value)}.")
        low, high = (-LARGEST_DELAY_MS, LARGEST_DELAY_MS) if key == "delay_ms" else STD
        if not low <= value <= high:
            raise InputError(
                f"{where}: {key} must be between {low:g} and {high:g}; got {shown(value)}."
            )
        return float(value)
    return _name(value, key, where)


def _name(value: Any, key: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{where}: {key} takes names (or numbers from 0); got {shown(value)}.")
    return str(value)


def _check_keys(given: dict[str, Any], allowed: set[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise InputError(
                f"{where} has no setting {shown(key)}; known: {', '.join(sorted(allowed))}."
            )
