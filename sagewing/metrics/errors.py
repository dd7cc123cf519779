"""Error measures, as the paper defines them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# A run diverged if its error exceeds this at any step (paper, Table 1).
DIVERGED = 100.0

Array = np.ndarray


class ErrorSummary(NamedTuple):
    """ARMSE over the runs that did not diverge, and how many did."""

    armse_mean: float
    armse_std: float
    armse_median: float
    divergence_pct: float


def rmse_over_time(x: Float[Array, "B T n_x"], truth: Float[Array, "B T n_x"]) -> Array:
    """RMSE_k of each run: the root of the mean square over the state's dimensions."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.mean((np.asarray(x, np.float64) - truth) ** 2, axis=-1))


def diverged(rmse: Float[Array, "B T"]) -> Array:
    """Which runs diverged: an error over `DIVERGED`, or NaN, at any step."""
    return ~np.all(rmse <= DIVERGED, axis=-1)


def armse(rmse: Float[Array, "B T"]) -> Float[Array, "B"]:
    """ARMSE of each run: the mean of its RMSE_k; NaN for a run that diverged."""
    lost = diverged(rmse)
    means = np.full(lost.shape, np.nan)
    means[~lost] = np.mean(rmse[~lost], axis=-1, dtype=np.float64)
    return means


def summary(rmse: Float[Array, "B T"]) -> ErrorSummary:
    """ARMSE (mean, standard deviation, median over runs) and the percentage of diverged runs."""
    return summary_of(armse(rmse))


def summary_of(armse: Float[Array, "B"]) -> ErrorSummary:
    """The summary of runs with this ARMSE; NaN means a run that diverged."""
    kept = armse[~np.isnan(armse)]
    if kept.size == 0:
        return ErrorSummary(float("nan"), float("nan"), float("nan"), 100.0)
    return ErrorSummary(
        float(np.mean(kept, dtype=np.float64)),
        float(np.std(kept, dtype=np.float64)),
        float(np.median(kept)),
        float(100.0 * np.mean(np.isnan(armse))),
    )


def crmse(rmse: Float[Array, "B T"]) -> Float[Array, "T"]:
    """The root of the mean square of all errors up to each step, over runs that did not diverge."""
    kept = rmse[~diverged(rmse)]
    if len(kept) == 0:
        return np.full(rmse.shape[1], np.nan)
    squares = np.mean(kept**2, axis=0, dtype=np.float64)
    return np.sqrt(np.cumsum(squares) / np.arange(1, squares.size + 1))


def attitude_error(q: Float[Array, "T 4"], truth: Float[Array, "T 4"]) -> Float[Array, "T"]:
    """The angle of the rotation between two attitudes, in radians."""
    q, truth = (np.asarray(a, np.float64) for a in (q, truth))
    q, truth = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, truth))
    chord = np.minimum(np.linalg.norm(q - truth, axis=-1), np.linalg.norm(q + truth, axis=-1))
    return 4.0 * np.arcsin(np.minimum(chord / 2.0, 1.0))


def rms(error: Float[Array, "T"]) -> float:
    """The root of the mean square of the numbers that are not NaN; NaN if there is none."""
    kept = error[~np.isnan(error)]
    return float(np.sqrt(np.mean(kept**2, dtype=np.float64))) if kept.size else float("nan")
