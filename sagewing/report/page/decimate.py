"""Fewer points than were recorded, without losing an extreme."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Series = Float[np.ndarray, "T n"]


class Buckets(NamedTuple):
    """So many rows, put together `size` at a time; the last bucket may have fewer."""

    rows: int
    size: int

    @classmethod
    def of(cls, rows: int, most: int) -> "Buckets":
        """Small enough for `most` points, two from each; one by one where there are no more."""
        return cls(rows, 1 if rows <= most else -(-rows // (most // 2)))

    def times(self, t: Float[np.ndarray, "T"]) -> Float[np.ndarray, "points"]:
        """The clock of `extremes`: a bucket's two points lie a quarter and three quarters in."""
        if self.size == 1:
            return t
        first = np.arange(0, self.rows, self.size)
        begin, end = t[first], t[np.minimum(first + self.size, self.rows) - 1]
        return (begin[:, None] + (end - begin)[:, None] * np.array([0.25, 0.75])).ravel()

    def extremes(self, series: Series) -> Float[np.ndarray, "points n"]:
        """The least and the greatest of each bucket, in the order in which they came.

        NaN is no number: it is kept where a bucket holds nothing else.
        """
        if self.size == 1:
            return series
        low, high = self._where(series), self._where(-series)
        picked = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
        return np.take_along_axis(series, picked.reshape(-1, series.shape[1]), axis=0)

    def largest(self, series: Series) -> Float[np.ndarray, "buckets n"]:
        """The greatest of each bucket."""
        return (
            series if self.size == 1 else np.take_along_axis(series, self._where(-series), axis=0)
        )

    def _where(self, series: Series) -> np.ndarray:
        """The row of each bucket's least number."""
        buckets = -(-self.rows // self.size)
        missing = buckets * self.size - self.rows
        known = np.where(np.isnan(series), np.inf, series)
        # The first of equals wins: a row past the end never does.
        padded = np.pad(known, ((0, missing), (0, 0)), constant_values=np.inf)
        within = np.argmin(padded.reshape(buckets, self.size, -1), axis=1)
        return np.arange(0, self.rows, self.size)[:, None] + within
