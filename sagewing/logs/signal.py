"""A signal of a log: samples with their own times; its values and means at other times."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Signal(NamedTuple):
    """Samples with their own times, and their name in the log."""

    name: str
    t: Float[np.ndarray, "n"]
    value: Float[np.ndarray, "n m"]

    def select(self, rows: np.ndarray) -> "Signal":
        """The signal at these rows."""
        return Signal(self.name, self.t[rows], self.value[rows])

    def window(self, start: float, stop: float) -> "Signal":
        """From `start` to `stop`, with the sample before and the one after, to interpolate."""
        first = max(int(np.searchsorted(self.t, start, side="right")) - 1, 0)
        last = int(np.searchsorted(self.t, stop, side="left"))
        return self.select(np.arange(first, min(last + 1, len(self.t))))


def interpolate(signal: Signal, t: np.ndarray) -> np.ndarray:
    """Linear interpolation; the first and the last sample hold outside."""
    return np.stack([np.interp(t, signal.t, column) for column in signal.value.T], axis=1)


def window_means(signal: Signal, t: np.ndarray, window_s: float) -> np.ndarray:
    """The mean over a window around each t, as the integral of the linear interpolation."""
    steps = 0.5 * (signal.value[1:] + signal.value[:-1]) * np.diff(signal.t)[:, None]
    integral = np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
    whole = Signal(signal.name, signal.t, integral)
    ends = np.clip(t[:, None] + 0.5 * window_s * np.array([-1.0, 1.0]), signal.t[0], signal.t[-1])
    width = np.maximum(ends[:, 1] - ends[:, 0], 1e-9)
    return (interpolate(whole, ends[:, 1]) - interpolate(whole, ends[:, 0])) / width[:, None]


def derivative(signal: Signal) -> Signal:
    """The slopes between samples, each at the middle of its two times."""
    middle = 0.5 * (signal.t[1:] + signal.t[:-1])
    slope = np.diff(signal.value, axis=0) / np.diff(signal.t)[:, None]
    return Signal(signal.name, middle, slope)
