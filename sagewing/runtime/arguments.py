"""What a user gives to an online filter, checked: as arrays and numbers, or a sentence."""

import math
from typing import Any

import numpy as np

from sagewing.errors import InputError
from sagewing.shapes import Numbers

MOST = 1_000_000  # events or steps in memory


def masked(seen: np.ndarray, mask: Numbers) -> np.ndarray:
    """A measurement with NaN where its mask is not set."""
    flags = array("mask", mask, bool)
    if flags.shape not in ((), seen.shape):
        raise InputError(f"mask must have shape {seen.shape}; got {flags.shape}.")
    return np.where(flags, seen, seen.dtype.type(np.nan))


def seconds(dt: Any, real: np.dtype) -> float:
    """A duration."""
    seconds = array("dt", dt, real)
    if seconds.shape != () or not 0.0 <= seconds < np.inf:
        raise InputError(
            f"dt must be one number, finite and not negative; got {dt} of shape {seconds.shape}."
        )
    return float(seconds)


def number(name: str, value: Any, of: str) -> None:
    """Refuse what is no number of things."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise InputError(f"{name} must be a number of {of}, 0 to {MOST}; got {value!r}.")


def size(u: np.ndarray | None) -> int:
    """The number of inputs."""
    if u is not None and u.ndim != 1:
        raise InputError(f"u must be one row of numbers; got shape {u.shape}.")
    return 0 if u is None else u.size


def time(name: str, t: Any) -> float:
    """A time."""
    try:
        seconds = float(t)
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(f"{name} must be one finite number of seconds; got {t!r}.")
    return seconds


def array(name: str, value: Any, dtype: Any) -> np.ndarray:
    """An array of this type."""
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {value!r}.") from error
