"""The universal policy on systems outside its training family, and filters without training."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import stdtrit

from sagewing import catalogue
from sagewing.catalogue import ORACLE, UNIVERSAL
from sagewing.errors import check_known
from sagewing.filters import Filter, NDRSageHusa, OracleEKF, Step, run
from sagewing.filters.equations import broadcast_to_batch
from sagewing.filters.kernels import diagonal, diagonal_matrix
from sagewing.filters.loop import scan
from sagewing.problems import chaos
from sagewing.problems.unseen.systems import (
    CASES,
    UNSEEN,
    NoiseCase,
    Unseen,
    UnseenEpisodes,
    episodes,
)
from sagewing.studies.chaos import RUNAWAY

UNTRAINED = ("ekf", "shkf99", "shkf99-posterior", "vbakf")
TUNED, LEARNED = "ekf-tuned", UNIVERSAL
TRAININGS = ("universal", "universal-1", "universal-2")
LOST = 1e4  # variances of the oracle: a run whose mean squared error is beyond this is lost
LARGEST = 1e10
# The tuned EKF: the best of these factors of Q and of R, on records of their own.
FACTORS = tuple(10.0 ** (0.5 * k) for k in range(-4, 5))
TUNING_RUNS = 40
# In a row: the universal policy's error over that filter's, run by run, and its 95% interval.
PAIRED_RATIO = ("universal_over_it", "universal_over_it_low", "universal_over_it_high")
# What it is held against.
ALL, RIGHT, BEHIND, BEST = 1.10, 1.03, 1.10, 0.8
EARLY, LATE, APART = (500, 1000), (5000, 10000), 1.10


def check_systems(systems: Sequence[str]) -> None:
    """Refuse a name that is not known, and say which are."""
    check_known("system", systems, UNSEEN)


class Ratios(NamedTuple):
    """For every run, the log of the ratio of RMS errors to the oracle's, and if it was lost."""

    log_ratio: Float[np.ndarray, "runs"]
    lost: Float[np.ndarray, "runs"]


def bench(
    systems: Sequence[str],
    policies: Sequence[Any],
    *,
    seed: int = 0,
    runs: int = 200,
    steps: int = 500,
    report: Callable[[str], None] = lambda note: None,
) -> list[dict[str, Any]]:
    """A row for every filter, system and case; the learned filter's has all policies pooled."""
    check_systems(systems)
    rows = []
    for name in systems:
        for case in CASES:
            rows += _cell(name, case, policies, seed, runs, steps)
            report(f"{name}, {case}")
    return rows


def _cell(
    name: str, case: str, policies: Sequence[Any], seed: int, runs: int, steps: int
) -> list[dict[str, Any]]:
    system, wrong = UNSEEN[name], NoiseCase(*(jnp.asarray(v, float) for v in CASES[case]))
    place = 1000 * list(UNSEEN).index(name) + list(CASES).index(case)
    k_tune, k_test = jax.random.split(jax.random.fold_in(jax.random.key(seed), place))
    best = _tuned(name, TUNING_RUNS, steps)(wrong, k_tune)
    squares = _scored(name, runs, steps)(tuple(policies), wrong, best, k_test)
    squares = {key: np.asarray(value, np.float64) for key, value in squares.items()}
    where = {"system": name, "case": case, "n_x": len(system.q0), "n_z": len(system.r0)}
    where |= {"runs": runs, "steps": steps}
    rows = []
    learned = [ratios(s, squares[ORACLE]) for s in squares[LEARNED]]
    for filt in (*UNTRAINED, TUNED):
        made = ratios(squares[filt], squares[ORACLE])
        rows.append({"filter": filt, **where, **_row(made), **paired_ratio(learned, made)})
    rows.append({"filter": LEARNED, **where, **_pooled(learned)})
    return rows


def ratios(squares: Float[np.ndarray, "runs"], oracle: Float[np.ndarray, "runs"]) -> Ratios:
    """A filter's mean squared errors against the oracle's, on all runs that the oracle keeps."""
    kept = oracle < LOST
    lost = ~(squares[kept] < LOST)
    return Ratios(0.5 * np.log(squares[kept] / oracle[kept]), lost)


def _row(made: Ratios) -> dict[str, Any]:
    middle, low, high = _interval_over_runs(made.log_ratio)
    lost = float(100.0 * np.mean(made.lost))
    return {"ratio": middle, "ratio_low": low, "ratio_high": high, "lost_pct": lost}


def paired_ratio(ours: Sequence[Ratios], theirs: Ratios) -> dict[str, float]:
    """The mean error of some trainings over that of another filter, paired run by run."""
    mean = np.mean([made.log_ratio for made in ours], axis=0)
    return dict(zip(PAIRED_RATIO, _interval_over_runs(mean - theirs.log_ratio), strict=True))


def _interval_over_runs(logs: Float[np.ndarray, "runs"]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its 95% interval."""
    middle, error = np.mean(logs), np.std(logs) / math.sqrt(max(len(logs), 1))
    low, high = middle - 1.96 * error, middle + 1.96 * error
    return math.exp(middle), math.exp(low), math.exp(high)


def _pooled(made: Sequence[Ratios]) -> dict[str, Any]:
    """Of several trainings: the mean, its interval over them, and each."""
    each = [float(np.mean(one.log_ratio)) for one in made]
    middle, spread = interval(each)
    return {
        "ratio": math.exp(middle),
        "ratio_low": math.exp(middle - spread),
        "ratio_high": math.exp(middle + spread),
        "lost_pct": float(np.mean([100.0 * np.mean(one.lost) for one in made])),
        "ratio_by_seed": [math.exp(one) for one in each],
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95% interval; zero where there is one value."""
    n = len(values)
    if n == 1:
        return float(values[0]), 0.0
    spread = np.std(values, ddof=1) / math.sqrt(n) * stdtrit(n - 1, 0.975)  # Student's t
    return float(np.mean(values)), float(spread)


@cache
def _scored(name: str, runs: int, steps: int) -> Callable[..., dict[str, Array]]:
    """A compiled program that draws a case's records and scores every filter on them."""
    system = UNSEEN[name]

    @eqx.filter_jit
    def scored(
        policies: tuple[Any, ...], case: NoiseCase, best: Float[Array, "2"], key: PRNGKeyArray
    ) -> dict[str, Array]:
        drawn = episodes(system, case, key, runs, steps)
        oracle = OracleEKF(system.model, drawn.q, drawn.r)
        variance, by_oracle = _squares(system, oracle, drawn)
        q0, r0 = (jnp.asarray(np.asarray(a), drawn.z.dtype) for a in (system.q0, system.r0))
        filters = {
            name: catalogue.build(name, system.model, system.q0, system.r0) for name in UNTRAINED
        }
        found = {name: _squares(system, f, drawn, variance)[1] for name, f in filters.items()}
        tuned = _Constant(system.model, best[0] * q0, best[1] * r0)
        found[TUNED] = _squares(system, tuned.filter(runs), drawn, variance)[1]
        learned = [NDRSageHusa(system.model, system.q0, system.r0, p) for p in policies]
        found[LEARNED] = jnp.stack([_squares(system, f, drawn, variance)[1] for f in learned])
        return {**found, ORACLE: by_oracle}

    return scored


class _Constant(NamedTuple):
    """An EKF whose noise is not known when the program is compiled."""

    model: Any
    q: Array
    r: Array

    def filter(self, runs: int) -> OracleEKF:
        """The same noise at every step of every run."""
        q, r = (jnp.broadcast_to(a[None, :, None], (1, a.size, runs)) for a in (self.q, self.r))
        return OracleEKF(self.model, q, r)


def _squares(
    system: Unseen, filt: Filter, drawn: UnseenEpisodes, variance: Array | None = None
) -> tuple[Array, Array]:
    """A filter's variances at every step and its mean squared error, in variances of the oracle."""
    x0, z = drawn.x0, drawn.z
    P0 = diagonal_matrix(broadcast_to_batch(jnp.asarray(np.asarray(system.P0), x0.dtype), x0))
    dt = jnp.full(len(z), system.dt, x0.dtype)
    start = filt.init(x0, P0)
    _, (squares, own) = scan(filt, start, z, None, dt, drawn.arrived, _square, drawn.truth)
    unit = own if variance is None else variance
    squares = jnp.minimum(jnp.nan_to_num(squares / unit, nan=LARGEST), LARGEST)
    return own, jnp.mean(squares, axis=(0, 1))


def _square(step: Step, truth: Array) -> tuple[Array, Array]:
    return (step.x - truth) ** 2, diagonal(step.P)


@cache
def _tuned(name: str, runs: int, steps: int) -> Callable[..., Float[Array, "2"]]:
    """A compiled search for the constant factors of Q and R that serve a system and case best."""
    system = UNSEEN[name]
    pairs = jnp.asarray([(a, b) for a in FACTORS for b in FACTORS])

    @jax.jit
    def tuned(case: NoiseCase, key: PRNGKeyArray) -> Float[Array, "2"]:
        drawn = episodes(system, case, key, runs, steps)
        variance, by_oracle = _squares(system, OracleEKF(system.model, drawn.q, drawn.r), drawn)
        q0, r0 = (jnp.asarray(np.asarray(a), drawn.z.dtype) for a in (system.q0, system.r0))

        def loss(pair: Float[Array, "2"]) -> Array:
            filt = _Constant(system.model, pair[0] * q0, pair[1] * r0).filter(runs)
            return jnp.mean(jnp.log(_squares(system, filt, drawn, variance)[1] / by_oracle))

        return pairs[jnp.argmin(jax.lax.map(loss, pairs))]

    return tuned


class Check(NamedTuple):
    """A claim, the measured number, its limit, and whether the claim holds."""

    claim: str
    number: float
    bar: float
    holds: bool


def checks(rows: Sequence[dict[str, Any]]) -> list[Check]:
    """The claims about the policy, checked over the cells of a benchmark."""
    cells = cells_of(rows)
    ours = {cell: by[LEARNED]["ratio"] for cell, by in cells.items()}
    overall = geometric(list(ours.values()))
    right = geometric([ratio for (_, case), ratio in ours.items() if case == "right"])
    behind = max(
        ours[cell] / min(by["ekf"]["ratio"], by["shkf99"]["ratio"]) for cell, by in cells.items()
    )
    best = win_counts(rows).smallest / len(cells)
    return [
        Check("geometric mean over all cells, at most", overall, ALL, overall <= ALL),
        Check("geometric mean where the nominal is right, at most", right, RIGHT, right <= RIGHT),
        Check(
            "worst cell against the better of EKF and Sage-Husa 0.99, at most",
            behind,
            BEHIND,
            behind <= BEHIND,
        ),
        Check("share of cells best of all untrained, at least", best, BEST, best >= BEST),
    ]


class WinCounts(NamedTuple):
    """In how many cells the policy beats all untrained filters, is behind one, or neither.

    Ahead and behind are significant at 95%, from the paired ratios of the runs of a cell. In
    `smallest` cells its ratio is the smallest, by any margin.
    """

    ahead: int
    level: int
    behind: int
    smallest: int


def win_counts(rows: Sequence[dict[str, Any]]) -> WinCounts:
    """Cell by cell against every untrained filter."""
    ahead = behind = smallest = 0
    _, low, high = PAIRED_RATIO
    cells = cells_of(rows).values()
    for by in cells:
        others = [by[name] for name in UNTRAINED]
        ahead += all(row[high] < 1.0 for row in others)
        behind += any(not row[low] <= 1.0 for row in others)  # NaN is not level
        smallest += by[LEARNED]["ratio"] <= min(row["ratio"] for row in others)
    return WinCounts(ahead, len(cells) - ahead - behind, behind, smallest)


def cells_of(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """For every system and case, the row of every filter."""
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["system"], row["case"]), {})[row["filter"]] = row
    return cells


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


class Drift(NamedTuple):
    """Ratios to the oracle on long Rössler records (`aligned`), mean over policies."""

    first_600: float
    early: float
    late: float
    by_seed: list[tuple[float, float, float]]
    runs: int


def drift(policies: Sequence[Any], *, seed: int = 0, runs: int = 200) -> Drift:
    """The errors of the policies on records far longer than those they were trained on."""
    system, protocol = chaos.ROSSLER, chaos.ALIGNED
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), runs)
    records = chaos.episodes_of(keys, system, protocol, LATE[1])
    model = system.model(protocol)
    q, r = (jnp.moveaxis(a, 0, -1) for a in (records.q, records.r))
    stays = np.asarray(jnp.all(jnp.abs(records.truth) < RUNAWAY, axis=(1, 2)))

    def squares(filt: Filter) -> np.ndarray:
        given = (filt, records.x0, records.P0, records.z)
        saved = run(*given, dt=chaos.DT, save=_mean_square, extra=records.truth)
        return np.asarray(saved.values, np.float64).T[:, stays]

    oracle = squares(OracleEKF(model, q, r))
    found = []
    for policy in policies:
        filt = NDRSageHusa(model, chaos.Q_BASE, chaos.R_BASE, policy)
        made = squares(filt)
        first, early, late = (_over(made, oracle, *steps) for steps in ((0, 600), EARLY, LATE))
        found.append((first, early, late))
    first, early, late = (geometric(values) for values in zip(*found, strict=True))
    return Drift(first, early, late, found, int(stays.sum()))


def _mean_square(step: Step, truth: Array) -> Array:
    return jnp.mean((step.x - truth) ** 2, axis=0)


def _over(made: np.ndarray, oracle: np.ndarray, first: int, last: int) -> float:
    """The geometric mean over runs of the ratio of RMS errors between two steps."""
    mean = [np.mean(np.nan_to_num(e[first:last], nan=LARGEST), axis=0) for e in (made, oracle)]
    return float(np.exp(0.5 * np.mean(np.log(mean[0] / mean[1]))))
