"""Differences between a variant and the default, with bootstrap intervals over seeds.

The unit of resampling is the training seed with all its runs: runs with the same seed are not
independent samples of the variant. A seed of the variant stays paired with the same seed of the
default, which has the same training data.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.metrics.errors import summary_of

RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
# With fewer, resampling underestimates the spread between seeds.
FEWEST_SEEDS = 5
STATISTICS = ("armse_median", "armse_mean", "divergence_pct")

Errors = Float[np.ndarray, "seeds runs"]


class Interval(NamedTuple):
    """A difference and its 95% interval; the interval is NaN if there are too few seeds."""

    value: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0.0 or self.high < 0.0


def differences(variant: Errors, default: Errors) -> dict[str, Interval]:
    """Variant minus default, pooled over seeds: ARMSE's median and mean, and the percentage lost.

    Row i of both arrays has the same seed.
    """
    pooled = [summary_of(errors.ravel())._asdict() for errors in (variant, default)]
    values = {name: pooled[0][name] - pooled[1][name] for name in STATISTICS}
    seeds = len(variant)
    if seeds < FEWEST_SEEDS:
        return {name: Interval(value, np.nan, np.nan) for name, value in values.items()}
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1.0 / seeds), RESAMPLES)
    spread = [_resampled(errors, drawn) for errors in (variant, default)]
    intervals = {}
    for name, value in values.items():
        low, high = np.percentile(spread[0][name] - spread[1][name], PERCENTILES)
        intervals[name] = Interval(float(value), float(low), float(high))
    return intervals


def _resampled(
    errors: Errors, drawn: Float[np.ndarray, "resamples seeds"] | np.ndarray
) -> dict[str, Float[np.ndarray, "resamples"]]:
    """The pooled statistics of samples in which seed s occurs `drawn[:, s]` times."""
    lost = np.isnan(errors)
    sums = np.nansum(errors, axis=1, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # a sample in which every run is lost has no mean
        mean = drawn @ sums / (drawn @ np.sum(~lost, axis=1))
    return {
        "armse_median": _medians(errors, drawn),
        "armse_mean": mean,
        "divergence_pct": 100.0 * (drawn @ lost.mean(axis=1)) / len(errors),
    }


def _medians(errors: Errors, drawn: np.ndarray) -> Float[np.ndarray, "resamples"]:
    """The weighted median of each sample, over all runs in ascending order."""
    order = np.argsort(errors, axis=None)
    order = order[: np.count_nonzero(~np.isnan(errors))]  # NaN is sorted last
    values, seed = errors.ravel()[order], order // errors.shape[1]
    medians = np.full(len(drawn), np.nan)
    for i, weights in enumerate(drawn):
        below = np.cumsum(weights[seed])
        if below.size and below[-1]:
            medians[i] = values[np.searchsorted(below, below[-1] / 2.0)]
    return medians
