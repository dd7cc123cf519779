"""The chaotic systems: every filter on the same records, from the same initial states."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing import catalogue
from sagewing.catalogue import ORACLE
from sagewing.errors import check_known
from sagewing.filters import Filter, OracleEKF, Smoothed, Step, run_saving, run_smoothing
from sagewing.filters.kernels import cholesky, whiten
from sagewing.filters.smoother import NotSmoothed
from sagewing.metrics.errors import crmse, diverged, summary
from sagewing.problems.chaos import (
    DT,
    Q_BASE,
    R_BASE,
    SYSTEMS,
    ChaoticSystem,
    Episodes,
    Protocol,
    episodes_of,
)
from sagewing.problems.weights import chaos_weights

# Records in one call of a compiled program, and those whose estimates are kept for figures.
CHUNK = 1000
KEPT = 16
CRMSE_EVERY = 10
# Far larger than the attractors: a true state beyond it has diverged.
RUNAWAY = 1000.0


class Kept(NamedTuple):
    """The estimates of the first records, batch and time first; `d` is None if there is none."""

    x: Float[np.ndarray, "B T n_x"]
    d: Float[np.ndarray, "B T n_d"] | None


class Scores(NamedTuple):
    """A filter's errors on every record, the estimates of the first records, and its step time.

    The time is NaN if there is one chunk only, whose time includes compilation.
    """

    rmse: Float[np.ndarray, "B T"]
    nees: Float[np.ndarray, "B T"]
    kept: Kept
    us_per_step: float


@dataclass(frozen=True)
class ChaosComparison:
    """The filters' scores on one system, in the order of the request."""

    system: str
    truth: Float[np.ndarray, "B T n_x"]
    truth_lost_pct: float
    scores: dict[str, Scores]
    rows: list[dict[str, Any]]


def check_names(filters: Sequence[str], systems: Sequence[str]) -> None:
    """Refuse an unknown name, and list the known ones."""
    catalogue.check_names(filters, also=(ORACLE,))
    check_known("system", systems, SYSTEMS)


def build(name: str, system: ChaoticSystem, protocol: Protocol, learned: Any = None) -> Any:
    """The filter of this name, with the shipped weights or with `learned`."""
    model = system.model(protocol, adaptive=catalogue.check(name).adapts)
    if learned is None:
        learned = chaos_weights(name, protocol.base)
    return catalogue.build(name, model, Q_BASE, R_BASE, learned)


def compare(
    system: str,
    protocol: Protocol,
    *,
    seed: int,
    runs: int,
    steps: int,
    filters: Sequence[str],
    learned: dict[str, Any] | None = None,
    smooth: bool = False,
    report: Callable[[str], None] = lambda name: None,
) -> ChaosComparison:
    """Run the filters over `runs` records of one system; `report` is called after every chunk.

    `learned` has weights by filter name, in place of the shipped ones. With `smooth` a filter is
    followed by its smoothed estimates, if it has such.
    """
    check_names(filters, (system,))
    chosen = SYSTEMS[system]
    filts = {
        name: None if name == ORACLE else build(name, chosen, protocol, (learned or {}).get(name))
        for name in filters
    }
    size = {"seed": seed, "runs": runs, "steps": steps}
    return compare_built(chosen, protocol, filts, **size, smooth=smooth, report=report)


def compare_built(
    system: ChaoticSystem,
    protocol: Protocol,
    filts: dict[str, Any],
    *,
    seed: int,
    runs: int,
    steps: int,
    smooth: bool = False,
    report: Callable[[str], None] = lambda name: None,
) -> ChaosComparison:
    """Run filters that are already built, by name; None means the oracle."""
    keys = jax.random.split(jax.random.key(seed), runs)
    parts: dict[str, list[Any]] = {}
    seconds: dict[str, list[float]] = {}
    truth, lost = [], []
    for first in range(0, runs, CHUNK):
        records = episodes_of(keys[first : first + CHUNK], system, protocol, steps)
        if first == 0:
            truth = np.asarray(records.truth[:KEPT])
        lost.append(np.asarray(_lost(records.truth)))
        for name, filt in filts.items():
            filt = oracle(system, protocol, records) if filt is None else filt
            scorers = {name: score}
            if smooth:
                scorers[catalogue.smoothed(name)] = score_smoothed
            for row_name, scorer in scorers.items():
                began = time.perf_counter()
                try:
                    done = jax.block_until_ready(scorer(filt, records))
                except NotSmoothed:
                    continue
                took = (time.perf_counter() - began) / done.rmse.size
                seconds.setdefault(row_name, []).append(took)
                parts.setdefault(row_name, []).append(jax.tree.map(np.asarray, done))
            report(name)
    scores, rows = {}, []
    size = {"runs": runs, "steps": steps}
    for name in list(parts):
        rmse, nees, x, d = zip(*parts.pop(name), strict=True)
        scored = Scores(
            np.concatenate(rmse),
            np.concatenate(nees),
            Kept(x[0], d[0]),
            1e6 * min(seconds[name][1:], default=math.nan),  # the first compiles
        )
        scores[name] = scored
        rows.append({"filter": name, "system": system.name, **size, **row(scored)})
    truth_lost = float(100.0 * np.mean(np.concatenate(lost)))
    return ChaosComparison(system.name, np.asarray(truth), truth_lost, scores, rows)


def row(scores: Scores) -> dict[str, Any]:
    """A filter's scores as the numbers of a table's row."""
    kept = ~diverged(scores.rmse)
    nees = np.mean(scores.nees[kept], axis=-1, dtype=np.float64)
    return {
        **summary(scores.rmse)._asdict(),
        "nees_mean": float(np.mean(nees)) if nees.size else float("nan"),
        "nees_median": float(np.median(nees)) if nees.size else float("nan"),
        "us_per_step": scores.us_per_step,
        "crmse": [round(float(v), 5) for v in crmse(scores.rmse)[CRMSE_EVERY - 1 :: CRMSE_EVERY]],
    }


def oracle(system: ChaoticSystem, protocol: Protocol, records: Episodes) -> OracleEKF:
    """The EKF with the true noise of every step of these records."""
    q, r = (jnp.moveaxis(a, 0, -1) for a in (records.q, records.r))
    return OracleEKF(system.model(protocol), q, r)


@jax.jit
def _lost(truth: Float[Array, "B T n_x"]) -> Array:
    """Which true trajectories diverged: no filter can follow them."""
    return ~jnp.all(jnp.sqrt(jnp.mean(truth**2, axis=-1)) <= RUNAWAY, axis=-1)


class StepScores(NamedTuple):
    """RMSE_k and NEES_k of every record and step; x and d of the first records."""

    rmse: Float[Array, "B T"]
    nees: Float[Array, "B T"]
    x: Float[Array, "kept T n_x"]
    d: Float[Array, "kept T n_d"] | None


def score(filt: Filter, records: Episodes) -> StepScores:
    """The errors of every record, computed inside the filter's loop."""
    return run_saving(
        filt, records.x0, records.P0, records.z, dt=DT, save=_scores, extra=records.truth
    ).values


def score_smoothed(filt: Filter, records: Episodes) -> StepScores:
    """The errors of the smoothed estimates."""
    return run_smoothing(
        filt, records.x0, records.P0, records.z, dt=DT, save=_smoothed_scores, extra=records.truth
    )


def _scores(step: Step, truth: Float[Array, "n_x B"]) -> StepScores:
    d = None if step.d is None else step.d[:, :KEPT]
    return _smoothed_scores(Smoothed(step.x, step.P), truth)._replace(d=d)


def _smoothed_scores(estimate: Smoothed, truth: Float[Array, "n_x B"]) -> StepScores:
    error = estimate.x - truth
    rmse = jnp.sqrt(jnp.mean(error**2, axis=0))
    nees = sum(whiten(cholesky(estimate.P), error) ** 2, jnp.zeros_like(rmse))
    return StepScores(rmse, nees, estimate.x[:, :KEPT], None)
