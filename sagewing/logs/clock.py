"""How late the clock of the pose is against that of the IMU, by the angular rates of both."""

from typing import NamedTuple

import numpy as np

from sagewing.logs.checks import RATE_WINDOW_S
from sagewing.logs.gaps import gap_free_intervals
from sagewing.logs.rotate import angular_rate
from sagewing.logs.signal import Signal, window_means

LARGEST_OFFSET_S = 1.0
GRID_S = 0.002
# Below this correlation, or with rates that vary less, the offset cannot be estimated.
LEAST_CORRELATION, LEAST_RATE_STD = 0.6, 0.05
LONGEST_S = 120.0


class Offset(NamedTuple):
    """`late_s` is to be subtracted from the pose's times; then the rates correlate so much."""

    late_s: float
    correlation: float

    @property
    def credible(self) -> bool:
        """Whether the correlation is high enough to use the offset."""
        return self.correlation > LEAST_CORRELATION


def clock_offset(gyro: Signal, quaternion: Signal) -> Offset | None:
    """The shift of the attitude's rate that correlates best with the gyroscope's; None at rest.

    The lengths of both rates are compared, so that the sensors' axes need not agree.
    """
    start, stop = max(
        gap_free_intervals(quaternion), key=lambda interval: interval[1] - interval[0]
    )
    start, stop = max(start, gyro.t[0]), min(stop, gyro.t[-1])
    if stop - start < 4.0 * LARGEST_OFFSET_S:
        return None
    stop = min(stop, start + LONGEST_S)
    rate = angular_rate(quaternion.window(start, stop), RATE_WINDOW_S)
    inner = np.arange(start + LARGEST_OFFSET_S, stop - LARGEST_OFFSET_S, GRID_S)
    outer = np.arange(inner[0] - LARGEST_OFFSET_S, inner[-1] + LARGEST_OFFSET_S, GRID_S)
    measured = np.linalg.norm(window_means(gyro, inner, RATE_WINDOW_S), axis=1)
    derived = np.interp(outer, rate.t, np.linalg.norm(rate.value, axis=1))
    if measured.std() < LEAST_RATE_STD or derived.std() < LEAST_RATE_STD:
        return None
    correlation = _correlation(measured, derived)
    best = int(np.argmax(correlation))
    shift = best * GRID_S - (inner[0] - outer[0])
    if 0 < best < len(correlation) - 1:  # the maximum of the parabola through three values
        below, top, above = correlation[best - 1 : best + 2]
        shift += GRID_S * 0.5 * (below - above) / min(below - 2.0 * top + above, -1e-12)
    return Offset(float(shift), float(correlation[best]))


def _correlation(short: np.ndarray, long: np.ndarray) -> np.ndarray:
    """Pearson's correlation of a signal with each part of its length of a longer one."""
    n = len(short)
    short = short - short.mean()
    size = 1 << (len(long) + n).bit_length()
    products = np.fft.irfft(np.fft.rfft(long, size) * np.conj(np.fft.rfft(short, size)), size)
    lags = len(long) - n + 1
    total, squares = (np.concatenate([[0.0], np.cumsum(a)]) for a in (long, long**2))
    mean = (total[n:] - total[:-n]) / n
    spread = np.maximum(squares[n:] - squares[:-n] - n * mean**2, 1e-12)
    return products[:lags] / np.sqrt(spread[:lags] * np.sum(short**2))
