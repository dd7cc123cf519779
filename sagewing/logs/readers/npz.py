"""Reading flights from `.npz` files of arrays, and their clock offsets from a `manifest.csv`.

The arrays, in SI units: `imu_t, gyro, acc`; `pose_t, pos, quat_wxyz`; and where the log has them
`vel` (or `vel_vicon`) at `pose_t`; `mot_t, mot`, four PWM commands m1..m4 of 0..65535 or one column
of thrust over mass; `vbat` at `mot_t`; `est_t, est_pos, est_quat_wxyz`; and, where the pose is not
itself the truth, `truth_t, truth_pos, truth_quat_wxyz`.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sagewing.errors import InputError
from sagewing.files import read_regular
from sagewing.logs.flight import Flight
from sagewing.logs.log import Log, mask_out_of_range
from sagewing.logs.readers.magic import begins_with
from sagewing.logs.readers.map import Map
from sagewing.logs.readers.npz_archive import ZIP, load_arrays
from sagewing.logs.signal import Signal

FORMAT = "our .npz"
FULL_PWM = 65535.0
# A Crazyflie counts its motors m1 front right, m2 back right, m3 back left, m4 front left. The
# order of QuadrotorDynamic is back right, front right, back left, front left.
FROM_CRAZYFLIE = [1, 0, 2, 3]
MANIFEST = "manifest.csv"
LARGEST_MANIFEST = 1 << 22  # bytes
LARGEST_OFFSET_MS = 1000.0

Arrays = Mapping[str, np.ndarray]


def recognises(path: Path) -> bool:
    """By the first bytes of a zip file."""
    return begins_with(path, ZIP)


def read(path: Path, map: Map | None = None) -> Log:
    """The log in an `.npz` file; a map may give the delay of the pose."""
    return read_arrays(path, map.pose.delay_ms if map and map.pose.delay_ms else None)


def read_flight(path: str | Path, tau_ms: float | None = None) -> Flight:
    """The flight in an `.npz` file; `tau_ms` is how late the pose clock is against the IMU's.

    By default it is taken from the `manifest.csv` beside the file or in the folder above.
    """
    with np.errstate(all="ignore"):  # numbers of a damaged file overflow
        log = read_arrays(Path(path), tau_ms)
    return mask_out_of_range(log).flight()


def read_arrays(path: Path, tau_ms: float | None = None) -> Log:
    """The signals in an `.npz` file; `tau_ms` as in `read_flight`."""
    arrays = load_arrays(path)
    notes: list[str] = []
    if tau_ms is None:
        tau_ms = _listed_tau_ms(path, notes)
    if not abs(tau_ms) <= LARGEST_OFFSET_MS:
        raise InputError(
            f"{path}: tau_ms must be within +-{LARGEST_OFFSET_MS:g} ms; it is {tau_ms:g}."
        )
    tau = 1e-3 * tau_ms

    def signal(name: str, clock: str, columns: int, shift: float = 0.0) -> Signal:
        return _signal(arrays, name, clock, columns, path, shift)

    log = Log(
        name=path.stem,
        where=str(path),
        acc=signal("acc", "imu_t", 3),
        gyro=signal("gyro", "imu_t", 3),
        position=signal("pos", "pose_t", 3, tau),
        quaternion=signal("quat_wxyz", "pose_t", 4, tau),
        notes=notes,
    )
    for velocity in ("vel", "vel_vicon"):
        if velocity in arrays:
            log.velocity = signal(velocity, "pose_t", 3, tau)
    if "mot" in arrays:
        if arrays["mot"].ndim == 2 and arrays["mot"].shape[1] == 1:
            log.thrust = signal("mot", "mot_t", 1)
        else:
            log.motors = _commands(signal("mot", "mot_t", 4), path)
    if "vbat" in arrays:
        log.battery = signal("vbat", "mot_t" if "mot_t" in arrays else "imu_t", 1)
    if "est_pos" in arrays or "est_quat_wxyz" in arrays:
        # The vehicle's own estimate is on the IMU's clock: no offset.
        log.onboard_position = signal("est_pos", "est_t", 3)
        log.onboard_quaternion = signal("est_quat_wxyz", "est_t", 4)
    if "truth_pos" in arrays or "truth_quat_wxyz" in arrays:
        log.truth_position = signal("truth_pos", "truth_t", 3)
        log.truth_quaternion = signal("truth_quat_wxyz", "truth_t", 4)
    return log


def read_flights(folder: str | Path, shapes: Sequence[str] | None = None) -> list[Flight]:
    """All flights below a folder, by name; `shapes` keeps those with such a word in their name.

    `("circle",)` and `("B2",)` both keep `B2_circle_fast_rep1.npz`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no folder of flights at {folder}.")
    paths = sorted(folder.rglob("*.npz"), key=lambda path: (path.stem, path))
    if not paths:
        raise InputError(f"{folder} has no .npz files in it or below it.")
    if shapes is not None:
        if isinstance(shapes, str):
            shapes = (shapes,)
        words = {path: set(path.stem.lower().split("_")) for path in paths}
        unknown = [s for s in shapes if not any(s.lower() in words[path] for path in paths)]
        if unknown or not shapes:
            known = ", ".join(sorted({"_".join(path.stem.split("_")[:2]) for path in paths}))
            raise InputError(
                f"shapes: no flight below {folder} is named {', '.join(map(repr, unknown))}; "
                f"the flights there are {known}."
            )
        paths = [path for path in paths if words[path] & {shape.lower() for shape in shapes}]
    return [read_flight(path) for path in paths]


def _signal(
    arrays: Arrays, name: str, clock: str, columns: int, path: Path, shift: float
) -> Signal:
    for needed in (clock, name):
        if needed not in arrays:
            raise InputError(
                f"{path} has no array {needed!r}; it has {', '.join(sorted(arrays)) or 'none'}."
            )
        kind = arrays[needed].dtype
        if kind.kind not in "fiu":
            raise InputError(f"{path}: {needed} must be real numbers; it is of type {kind}.")
    t, value = arrays[clock], arrays[name]
    if t.ndim != 1 or not len(t):
        raise InputError(f"{path}: {clock} must have shape (n,); it has {t.shape}.")
    if columns == 1 and value.ndim == 1:
        value = value[:, None]
    if value.shape != (len(t), columns):
        one = " or, as thrust over mass, one column" if name == "mot" else ""
        raise InputError(
            f"{path}: {name} must have shape ({len(t)}, {columns}), a row for each of {clock}"
            f"{one}; it has {value.shape}."
        )
    return Signal(name, t.astype(np.float64) - shift, value.astype(np.float64))


def _commands(pwm: Signal, path: Path) -> Signal:
    known = pwm.value[~np.isnan(pwm.value)]
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    if len(known) and (low < 0.0 or high > FULL_PWM):
        raise InputError(
            f"{path}: {pwm.name} must lie in 0..{FULL_PWM:.0f} (PWM); it reaches from {low:g} to "
            f"{high:g}."
        )
    if 0.0 < high <= 1.0:
        raise InputError(
            f"{path}: {pwm.name} must lie in 0..{FULL_PWM:.0f} (PWM); it ends at {high:g}, as if "
            f"scaled to 1: multiply it by {FULL_PWM:.0f}."
        )
    return pwm._replace(value=pwm.value[:, FROM_CRAZYFLIE] / FULL_PWM)


def _listed_tau_ms(path: Path, notes: list[str]) -> float:
    """The flight's offset in the nearest manifest; 0 where there is none."""
    folder = path.resolve().parent
    for manifest in (folder / MANIFEST, folder.parent / MANIFEST):
        if manifest.is_file():
            break
    else:
        return 0.0
    try:
        text = read_regular(manifest, LARGEST_MANIFEST).decode("utf-8")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        listed = {row["flight"]: row["tau_ms"] for row in rows}
        if path.stem not in listed:
            notes.append(f"not listed in {MANIFEST}, so the pose clock is taken for the IMU's")
        return float(listed.get(path.stem, 0.0))
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(
            f"{manifest} must be a table with the columns flight and tau_ms (a number); "
            f"{type(error).__name__}: {error}."
        ) from None
