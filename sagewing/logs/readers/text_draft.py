"""A first map of text tables, from the names of their columns and the numbers in them."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sagewing.logs.checks import FORCE_G, FORCE_M_S2
from sagewing.logs.readers.map import SECONDS, Map, SignalSource
from sagewing.logs.readers.text_table import SAMPLE_ROWS, Table

TIME = re.compile(r"(t|time|stamp|.*time_?stamp.*|time_.*|t_.*|.*_time|secs?|seconds)")
AXES = ("x", "y", "z")
# The part of a name before its axis; `w_RS_S_x` is EuRoC's, `field.angular_velocity.x` a bag's.
VECTORS = {
    "gyro": r"(.*_)?(gyro?|gyroscope|omega|w|g|ang_?vel|.*angular_?(velocity|rate)|w_.*)(_rad_?s)?",
    "acc": r"(.*_)?(acc|accel|accelerometer|a|lin_?acc|.*linear_?acceleration|a_.*)(_m_s2)?",
    "position": r"(.*_)?(pos|position|p|t|translation|p_.*|.*_position)|",
}
QUATERNION = r"(.*_)?(q|quat|quaternion|orientation|rotation|rot|q_.*)"
EULER = {
    "roll": r"(.*_)?(roll|phi)",
    "pitch": r"(.*_)?(pitch|theta)",
    "yaw": r"(.*_)?(yaw|psi|heading)",
}
GPS = {
    "latitude": r"(.*_)?(lat|latitude)(_deg)?",
    "longitude": r"(.*_)?(lon|lng|long|longitude)(_deg)?",
    "altitude": r"(.*_)?(alt|altitude|height)(_m|_msl)?(_m)?",
}
TRUTH = re.compile(r"truth|ground_?truth|gt|reference|vicon_?truth", re.I)
# The steps of a sensor's clock: between 20 kHz and 2 Hz.
STEP_S = (5e-5, 0.5)
DEGREES_RAD_S = 20.0
TUM = ("timestamp", "tx", "ty", "tz", "qx", "qy", "qz", "qw")


@np.errstate(all="ignore")  # numbers of a damaged file overflow
def draft(tables: Sequence[Table]) -> tuple[Map, list[str]]:
    """The map that names and numbers suggest, and what was not found."""
    named = len(tables) > 1
    found = Map()
    for table in tables:
        table = with_known_names(table)
        file = table.path.name if named else None
        time = _time(table)
        if time is None:
            continue
        imu, pose = _imu(table), _pose(table)
        if imu and not found.imu.acc:
            found = replace(found, imu=replace(imu, file=file, **time))
        if pose:
            pose = replace(pose, file=file, **time)
            if not (found.pose.position or found.pose.gps) and not (
                named and TRUTH.search(table.path.stem) and _poses(tables) > 1
            ):
                found = replace(found, pose=pose)
            elif found.truth is None:
                found = replace(found, truth=pose)
    return found, missing(found)


def missing(found: Map) -> list[str]:
    """The signals that a log needs and the map does not name."""
    lacks = []
    if not found.imu.gyro:
        lacks.append("the gyroscope ([imu] gyro)")
    if not found.imu.acc:
        lacks.append("the accelerometer ([imu] acc)")
    if not (found.pose.position or found.pose.gps):
        lacks.append("a position ([pose] position or gps)")
    return lacks


@np.errstate(all="ignore")
def with_known_names(table: Table) -> Table:
    """Names for a table without a header, if its numbers identify it.

    Eight columns that end in a unit quaternion are a TUM trajectory; seven of which three have the
    length of gravity are an IMU.
    """
    if table.names[0] != "0":
        return table
    head = table.columns(table.names, rows=SAMPLE_ROWS) if len(table.names) in (7, 8) else None
    if head is None:
        return table
    if len(table.names) == 8:
        unit = np.abs(np.linalg.norm(head[:, 4:], axis=1) - 1.0).max() < 0.01
        return replace(table, names=TUM) if unit else table
    lengths = [float(np.median(np.linalg.norm(head[:, k : k + 3], axis=1))) for k in (1, 4)]
    for low, high in (FORCE_M_S2, FORCE_G):  # m/s^2 first: a gyroscope may read 1, too
        is_force = [low < length < high for length in lengths]
        if is_force[0] != is_force[1]:
            break
    else:
        return table
    vectors = ("acc", "gyro") if is_force[0] else ("gyro", "acc")
    return replace(table, names=("timestamp", *(f"{v}_{a}" for v in vectors for a in AXES)))


def _poses(tables: Sequence[Table]) -> int:
    return sum(_pose(with_known_names(table)) is not None for table in tables)


def plain(name: str) -> str:
    """A name in lower case with underscores, without its unit."""
    name = re.sub(r"\[[^\]]*\]\s*$|\([^)]*\)\s*$", "", name.strip())
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    name = re.sub(r"\[(\d)\]$", lambda m: "_" + "xyz"[int(m[1])] if int(m[1]) < 3 else m[0], name)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _vector(table: Table, prefix: str, axes: Sequence[str] = AXES) -> tuple[str, ...]:
    """The columns whose names are this prefix and an axis; empty if one is missing."""
    names = {plain(name): name for name in reversed(table.numeric())}
    found = []
    for axis in axes:
        form = re.compile(f"(?:{prefix})_?{axis}")
        match = next(
            (name for short, name in reversed(names.items()) if form.fullmatch(short)), None
        )
        if match is None:
            return ()
        found.append(match)
    return tuple(found)


def _each(table: Table, forms: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        name
        for form in forms.values()
        for name in [n for n in table.numeric() if re.fullmatch(form, plain(n))][:1]
    )


def _time(table: Table) -> dict[str, str] | None:
    """The column of time, and its unit by its name or else by its steps."""
    name = next((n for n in table.numeric() if TIME.fullmatch(plain(n))), None)
    if name is None:
        return None
    unit = re.search(r"[\[(_ ](ns|us|ms|s|nsec|usec|msec|sec)[\])]?\s*$", name.lower())
    if unit:
        return {"time": name, "time_unit": unit[1].removesuffix("ec")}
    t = table.columns([name], rows=SAMPLE_ROWS)[:, 0]
    steps = np.diff(t)
    step = float(np.median(steps[steps > 0.0])) if np.any(steps > 0.0) else 0.01
    fits = [unit for unit, s in SECONDS.items() if STEP_S[0] <= step * s <= STEP_S[1]]
    return {"time": name, "time_unit": fits[0] if fits else "s"}


def _imu(table: Table) -> SignalSource | None:
    gyro, acc = (_vector(table, VECTORS[what]) for what in ("gyro", "acc"))
    if not gyro or not acc:
        return None
    rates, forces = (table.columns(c, rows=SAMPLE_ROWS) for c in (gyro, acc))
    force, rate = _length(forces, 0.5), _length(rates, 0.9)
    names = " ".join(gyro).lower()
    degrees = "deg" in names or ("rad" not in names and rate > DEGREES_RAD_S)
    return SignalSource(
        acc=acc,
        acc_unit="g" if FORCE_G[0] < force < FORCE_G[1] else "m/s^2",
        gyro=gyro,
        gyro_unit="deg/s" if degrees else "rad/s",
    )


def _length(vectors: np.ndarray, quantile: float) -> float:
    """A quantile of the vectors' lengths without NaN; NaN if none is left."""
    lengths = np.linalg.norm(vectors, axis=1)
    lengths = lengths[np.isfinite(lengths)]
    return float(np.quantile(lengths, quantile)) if len(lengths) else np.nan


def _pose(table: Table) -> SignalSource | None:
    gps, position = _each(table, GPS), _vector(table, VECTORS["position"])
    if len(gps) != 3 and not position:
        return None
    quaternion = _vector(table, QUATERNION, ("w", "x", "y", "z"))
    euler = _each(table, EULER)
    source = SignalSource(quaternion=quaternion)
    if not quaternion and len(euler) == 3:
        angles = table.columns(euler, rows=SAMPLE_ROWS)
        degrees = np.nanmax(np.abs(angles), initial=0.0) > 2.1 * np.pi
        source = replace(source, euler=euler, euler_unit="deg" if degrees else "rad")
    if len(gps) == 3:
        return replace(source, gps=gps)
    names = " ".join(position).lower()
    return replace(source, position=position, position_unit="mm" if "mm" in names else "m")
