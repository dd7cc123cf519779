"""What sets a variant apart from the default, and whether so many seeds can tell.

What is random is the seed: 10,000 runs with one seed say much of that seed and little of the
variant. So the bootstrap draws seeds, and a seed's runs go with it. The pairs stay together: a
variant and the default saw the same training data with the same seed.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sagewing.metrics.errors import summary_of

RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
# With fewer, resampling cannot show how far apart seeds may be.
FEWEST_SEEDS = 5
STATISTICS = ("armse_median", "armse_mean", "divergence_pct")

Errors = Float[np.ndarray, "seeds runs"]


class Interval(NamedTuple):
    """A difference and its 95% interval, NaN where there are too few seeds."""

    value: float
    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0.0 or self.high < 0.0


def differences(variant: Errors, default: Errors) -> dict[str, Interval]:
    """Variant less default, pooled over seeds: ARMSE's median and mean, and the percentage lost.

    Row i of both is the same seed.
    """
    pooled = [summary_of(errors.ravel())._asdict() for errors in (variant, default)]
    values = {name: pooled[0][name] - pooled[1][name] for name in STATISTICS}
    seeds = len(variant)
    if seeds < FEWEST_SEEDS:
        return {name: Interval(value, np.nan, np.nan) for name, value in values.items()}
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1.0 / seeds), RESAMPLES)
    spread = [_resampled(errors, drawn) for errors in (variant, default)]
    found = {}
    for name, value in values.items():
        low, high = np.percentile(spread[0][name] - spread[1][name], PERCENTILES)
        found[name] = Interval(float(value), float(low), float(high))
    return found


def _resampled(
    errors: Errors, drawn: Float[np.ndarray, "resamples seeds"] | np.ndarray
) -> dict[str, Float[np.ndarray, "resamples"]]:
    """The pooled statistics of samples in which seed s occurs `drawn[:, s]` times."""
    lost = np.isnan(errors)
    sums = np.nansum(errors, axis=1, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # a sample in which every run was lost has no error
        mean = drawn @ sums / (drawn @ np.sum(~lost, axis=1))
    return {
        "armse_median": _medians(errors, drawn),
        "armse_mean": mean,
        "divergence_pct": 100.0 * (drawn @ lost.mean(axis=1)) / len(errors),
    }


def _medians(errors: Errors, drawn: np.ndarray) -> Float[np.ndarray, "resamples"]:
    """The median of each sample: where half of its weight lies below, in the order of all runs."""
    order = np.argsort(errors, axis=None)
    order = order[: np.count_nonzero(~np.isnan(errors))]  # NaN is sorted last
    values, seed = errors.ravel()[order], order // errors.shape[1]
    found = np.full(len(drawn), np.nan)
    for i, weights in enumerate(drawn):
        below = np.cumsum(weights[seed])
        if below.size and below[-1]:
            found[i] = values[np.searchsorted(below, below[-1] / 2.0)]
    return found
