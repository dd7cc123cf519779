"""Reduces the points of a curve and keeps its extremes."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Series = Float[np.ndarray, "T n"]


class Buckets(NamedTuple):
    """Rows in buckets of `size`; the last bucket may have fewer."""

    rows: int
    size: int

    @classmethod
    def of(cls, rows: int, most: int) -> "Buckets":
        """Buckets for at most `most` points, two from each; of one row if those suffice."""
        return cls(rows, 1 if rows <= most else -(-rows // (most // 2)))

    def times(self, t: Float[np.ndarray, "T"]) -> Float[np.ndarray, "points"]:
        """The times of `extremes`: a quarter and three quarters into each bucket."""
        if self.size == 1:
            return t
        first = np.arange(0, self.rows, self.size)
        begin, end = t[first], t[np.minimum(first + self.size, self.rows) - 1]
        return (begin[:, None] + (end - begin)[:, None] * np.array([0.25, 0.75])).ravel()

    def extremes(self, series: Series) -> Float[np.ndarray, "points n"]:
        """The smallest and the largest value of each bucket, in their order in time.

        NaN is kept only where a bucket has nothing else.
        """
        if self.size == 1:
            return series
        low, high = self._argmin(series), self._argmin(-series)
        picked = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
        return np.take_along_axis(series, picked.reshape(-1, series.shape[1]), axis=0)

    def largest(self, series: Series) -> Float[np.ndarray, "buckets n"]:
        """The largest value of each bucket."""
        return (
            series if self.size == 1 else np.take_along_axis(series, self._argmin(-series), axis=0)
        )

    def _argmin(self, series: Series) -> np.ndarray:
        """The row of each bucket's smallest value."""
        buckets = -(-self.rows // self.size)
        missing = buckets * self.size - self.rows
        known = np.where(np.isnan(series), np.inf, series)
        # argmin returns the first of equals, so never a padded row.
        padded = np.pad(known, ((0, missing), (0, 0)), constant_values=np.inf)
        within = np.argmin(padded.reshape(buckets, self.size, -1), axis=1)
        return np.arange(0, self.rows, self.size)[:, None] + within
