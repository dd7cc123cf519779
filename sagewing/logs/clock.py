"""How late one clock is against another: the pose's against the IMU's."""

from typing import NamedTuple

import numpy as np

from sagewing.logs.log import stretches
from sagewing.logs.repair import RATE_WINDOW_S, Signal, means
from sagewing.logs.rotate import turning

LARGEST_OFFSET_S = 1.0
GRID_S = 0.002
# A correlation below this, or a flight that turns less, says nothing of the clocks.
CREDIBLE, TURNING_RAD_S = 0.6, 0.05
LONGEST_S = 120.0


class Offset(NamedTuple):
    """`late_s`, to be subtracted from the pose's times, and how alike the two signals then are."""

    late_s: float
    correlation: float

    @property
    def credible(self) -> bool:
        """Whether to act on it."""
        return self.correlation > CREDIBLE


def clock_offset(gyro: Signal, quaternion: Signal) -> Offset | None:
    """The shift at which the attitude turns as fast as the gyroscope says; None if it is still.

    The lengths of both rates are compared, so that the sensors' axes need not agree.
    """
    start, stop = max(stretches(quaternion), key=lambda piece: piece[1] - piece[0])
    start, stop = max(start, gyro.t[0]), min(stop, gyro.t[-1])
    if stop - start < 4.0 * LARGEST_OFFSET_S:
        return None
    stop = min(stop, start + LONGEST_S)
    seen = turning(quaternion.between(start, stop), RATE_WINDOW_S)
    inner = np.arange(start + LARGEST_OFFSET_S, stop - LARGEST_OFFSET_S, GRID_S)
    outer = np.arange(inner[0] - LARGEST_OFFSET_S, inner[-1] + LARGEST_OFFSET_S, GRID_S)
    felt = np.linalg.norm(means(gyro, inner, RATE_WINDOW_S), axis=1)
    turned = np.interp(outer, seen.t, np.linalg.norm(seen.value, axis=1))
    if felt.std() < TURNING_RAD_S or turned.std() < TURNING_RAD_S:
        return None
    likeness = _correlation(felt, turned)
    best = int(np.argmax(likeness))
    shift = best * GRID_S - (inner[0] - outer[0])
    if 0 < best < len(likeness) - 1:  # the top of the parabola through three values
        below, top, above = likeness[best - 1 : best + 2]
        shift += GRID_S * 0.5 * (below - above) / min(below - 2.0 * top + above, -1e-12)
    return Offset(float(shift), float(likeness[best]))


def _correlation(short: np.ndarray, long: np.ndarray) -> np.ndarray:
    """Pearson's, of a signal with every part of a longer one."""
    n = len(short)
    short = short - short.mean()
    size = 1 << (len(long) + n).bit_length()
    products = np.fft.irfft(np.fft.rfft(long, size) * np.conj(np.fft.rfft(short, size)), size)
    lags = len(long) - n + 1
    total, squares = (np.concatenate([[0.0], np.cumsum(a)]) for a in (long, long**2))
    mean = (total[n:] - total[:-n]) / n
    spread = np.maximum(squares[n:] - squares[:-n] - n * mean**2, 1e-12)
    return products[:lags] / np.sqrt(spread[:lags] * np.sum(short**2))
