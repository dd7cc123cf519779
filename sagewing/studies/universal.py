"""The universal policy and untrained filters on systems outside its training family."""

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
from sagewing.catalogue import BANK, GATED, ORACLE, ROBUST, UNIVERSAL
from sagewing.errors import check_known
from sagewing.filters import Filter, NDRSageHusa, OracleEKF, Step, run_saving
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

UNTRAINED = ("ekf", "shkf99", "shkf99-posterior", "vbakf", GATED, ROBUST, BANK)
TUNED, LEARNED = "ekf-tuned", UNIVERSAL
FILTERS = (*UNTRAINED, TUNED, LEARNED)  # the rows of the table
TRAININGS = ("universal", "universal-1", "universal-2")
LOST = 1e4  # in variances of the oracle: a run with a larger mean squared error is lost
LARGEST = 1e10  # squared errors are clipped to this, NaN included
# The tuned EKF: the best of these factors of Q and of R, on separate records.
FACTORS = tuple(10.0 ** (0.5 * k) for k in range(-4, 5))
TUNING_RUNS = 40
# Keys of a row: the universal policy's error over the row's filter's, paired by run, and its 95%
# interval.
PAIRED_RATIO = ("universal_over_it", "universal_over_it_low", "universal_over_it_high")
EARLY, LATE = (500, 1000), (5000, 10000)  # steps that `drift` compares


def check_systems(systems: Sequence[str]) -> None:
    """Refuse an unknown name, and list the known ones."""
    check_known("system", systems, UNSEEN)


def check_filters(filters: Sequence[str]) -> None:
    """Refuse an unknown name, and list the known ones."""
    check_known("filter", filters, FILTERS)


class Ratios(NamedTuple):
    """For every run: the log of its RMS error over the oracle's, and whether it is lost."""

    log_ratio: Float[np.ndarray, "runs"]
    lost: Float[np.ndarray, "runs"]


def bench(
    systems: Sequence[str],
    policies: Sequence[Any],
    *,
    seed: int = 0,
    runs: int = 200,
    steps: int = 500,
    filters: Sequence[str] = FILTERS,
    report: Callable[[str], None] = lambda note: None,
) -> list[dict[str, Any]]:
    """A row for every filter, system and case; the learned filter's row pools all policies."""
    check_systems(systems)
    check_filters(filters)
    rows = []
    for name in systems:
        for case in CASES:
            rows += _cell(name, case, policies, seed, runs, steps, tuple(filters))
            report(f"{name}, {case}")
    return rows


def _cell(
    name: str,
    case: str,
    policies: Sequence[Any],
    seed: int,
    runs: int,
    steps: int,
    filters: tuple[str, ...],
) -> list[dict[str, Any]]:
    system, noise = UNSEEN[name], NoiseCase(*(jnp.asarray(v, float) for v in CASES[case]))
    cell = 1000 * list(UNSEEN).index(name) + list(CASES).index(case)
    k_tune, k_test = jax.random.split(jax.random.fold_in(jax.random.key(seed), cell))
    best = _tuned(name, TUNING_RUNS, steps)(noise, k_tune) if TUNED in filters else jnp.ones(2)
    policies = policies if LEARNED in filters else ()
    squares = _scored(name, runs, steps, filters)(tuple(policies), noise, best, k_test)
    squares = {key: np.asarray(value, np.float64) for key, value in squares.items()}
    labels = {"system": name, "case": case, "n_x": len(system.q0), "n_z": len(system.r0)}
    labels |= {"runs": runs, "steps": steps}
    rows = []
    learned = [ratios(s, squares[ORACLE]) for s in squares.get(LEARNED, ())]
    for filt in (f for f in FILTERS if f in filters and f != LEARNED):
        own = ratios(squares[filt], squares[ORACLE])
        paired = paired_ratio(learned, own) if learned else {}
        rows.append({"filter": filt, **labels, **_row(own), **paired})
    if learned:
        rows.append({"filter": LEARNED, **labels, **_pooled(learned)})
    return rows


def ratios(squares: Float[np.ndarray, "runs"], oracle: Float[np.ndarray, "runs"]) -> Ratios:
    """A filter's errors relative to the oracle's, on the runs that the oracle does not lose."""
    kept = oracle < LOST
    lost = ~(squares[kept] < LOST)
    return Ratios(0.5 * np.log(squares[kept] / oracle[kept]), lost)


def _row(own: Ratios) -> dict[str, Any]:
    mean, low, high = _interval_over_runs(own.log_ratio)
    lost = float(100.0 * np.mean(own.lost))
    return {"ratio": mean, "ratio_low": low, "ratio_high": high, "lost_pct": lost}


def paired_ratio(ours: Sequence[Ratios], theirs: Ratios) -> dict[str, float]:
    """The mean error of several trainings over that of another filter, paired by run."""
    mean = np.mean([training.log_ratio for training in ours], axis=0)
    return dict(zip(PAIRED_RATIO, _interval_over_runs(mean - theirs.log_ratio), strict=True))


def _interval_over_runs(logs: Float[np.ndarray, "runs"]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its 95% interval."""
    mean, error = np.mean(logs), np.std(logs) / math.sqrt(max(len(logs), 1))
    low, high = mean - 1.96 * error, mean + 1.96 * error
    return math.exp(mean), math.exp(low), math.exp(high)


def _pooled(trainings: Sequence[Ratios]) -> dict[str, Any]:
    """The mean over several trainings, its interval, and the ratio of each training."""
    log_ratios = [float(np.mean(training.log_ratio)) for training in trainings]
    mean, spread = interval(log_ratios)
    return {
        "ratio": math.exp(mean),
        "ratio_low": math.exp(mean - spread),
        "ratio_high": math.exp(mean + spread),
        "lost_pct": float(np.mean([100.0 * np.mean(training.lost) for training in trainings])),
        "ratio_by_seed": [math.exp(log_ratio) for log_ratio in log_ratios],
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95% interval: zero for a single value."""
    n = len(values)
    if n == 1:
        return float(values[0]), 0.0
    spread = np.std(values, ddof=1) / math.sqrt(n) * stdtrit(n - 1, 0.975)  # Student's t
    return float(np.mean(values)), float(spread)


@cache
def _scored(
    name: str, runs: int, steps: int, names: tuple[str, ...] = FILTERS
) -> Callable[..., dict[str, Array]]:
    """A compiled program that draws a case's records and scores every filter on them."""
    system = UNSEEN[name]

    @eqx.filter_jit
    def scored(
        policies: tuple[Any, ...], case: NoiseCase, best: Float[Array, "2"], key: PRNGKeyArray
    ) -> dict[str, Array]:
        drawn = episodes(system, case, key, runs, steps)
        oracle = OracleEKF(system.model, drawn.q, drawn.r)
        variance, of_oracle = _squares(system, oracle, drawn)
        q0, r0 = (jnp.asarray(np.asarray(a), drawn.z.dtype) for a in (system.q0, system.r0))
        filters = {
            name: catalogue.build(name, system.model, system.q0, system.r0)
            for name in UNTRAINED
            if name in names
        }
        squares = {name: _squares(system, f, drawn, variance)[1] for name, f in filters.items()}
        if TUNED in names:
            tuned = _Constant(system.model, best[0] * q0, best[1] * r0)
            squares[TUNED] = _squares(system, tuned.filter(runs), drawn, variance)[1]
        if policies:
            learned = [NDRSageHusa(system.model, system.q0, system.r0, p) for p in policies]
            each = [_squares(system, f, drawn, variance)[1] for f in learned]
            squares[LEARNED] = jnp.stack(each)
        return {**squares, ORACLE: of_oracle}

    return scored


class _Constant(NamedTuple):
    """An EKF with constant noise that is an argument of the compiled program."""

    model: Any
    q: Array
    r: Array

    def filter(self, runs: int) -> OracleEKF:
        """The filter for a batch of `runs`, with the same noise at every step."""
        q, r = (jnp.broadcast_to(a[None, :, None], (1, a.size, runs)) for a in (self.q, self.r))
        return OracleEKF(self.model, q, r)


def _squares(
    system: Unseen, filt: Filter, drawn: UnseenEpisodes, variance: Array | None = None
) -> tuple[Array, Array]:
    """A filter's variances at every step, and its mean squared error in units of `variance`.

    `variance` is the oracle's; without it the filter's own variances are the unit.
    """
    x0, z = drawn.x0, drawn.z
    P0 = diagonal_matrix(broadcast_to_batch(jnp.asarray(np.asarray(system.P0), x0.dtype), x0))
    dt = jnp.full(len(z), system.dt, x0.dtype)
    state = filt.init(x0, P0)
    _, (squares, own) = scan(filt, state, z, None, dt, drawn.arrived, _square, drawn.truth)
    unit = own if variance is None else variance
    squares = jnp.minimum(jnp.nan_to_num(squares / unit, nan=LARGEST), LARGEST)
    return own, jnp.mean(squares, axis=(0, 1))


def _square(step: Step, truth: Array) -> tuple[Array, Array]:
    return (step.x - truth) ** 2, diagonal(step.P)


@cache
def _tuned(name: str, runs: int, steps: int) -> Callable[..., Float[Array, "2"]]:
    """A compiled grid search for the best constant factors of Q and R for a system and case."""
    system = UNSEEN[name]
    pairs = jnp.asarray([(a, b) for a in FACTORS for b in FACTORS])

    @jax.jit
    def tuned(case: NoiseCase, key: PRNGKeyArray) -> Float[Array, "2"]:
        drawn = episodes(system, case, key, runs, steps)
        variance, of_oracle = _squares(system, OracleEKF(system.model, drawn.q, drawn.r), drawn)
        q0, r0 = (jnp.asarray(np.asarray(a), drawn.z.dtype) for a in (system.q0, system.r0))

        def loss(pair: Float[Array, "2"]) -> Array:
            filt = _Constant(system.model, pair[0] * q0, pair[1] * r0).filter(runs)
            return jnp.mean(jnp.log(_squares(system, filt, drawn, variance)[1] / of_oracle))

        return pairs[jnp.argmin(jax.lax.map(loss, pairs))]

    return tuned


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


class Drift(NamedTuple):
    """Ratios to the oracle's error on long Rössler records (`aligned`), mean over policies."""

    first_600: float
    early: float
    late: float
    by_seed: list[tuple[float, float, float]]
    runs: int


def drift(policies: Sequence[Any], *, seed: int = 0, runs: int = 200) -> Drift:
    """The errors of the policies on records much longer than those of their training."""
    system, protocol = chaos.ROSSLER, chaos.ALIGNED
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), runs)
    records = chaos.episodes_of(keys, system, protocol, LATE[1])
    model = system.model(protocol)
    q, r = (jnp.moveaxis(a, 0, -1) for a in (records.q, records.r))
    bounded = np.asarray(jnp.all(jnp.abs(records.truth) < RUNAWAY, axis=(1, 2)))

    def squares(filt: Filter) -> np.ndarray:
        start = (records.x0, records.P0)
        z, truth = records.z, records.truth
        saved = run_saving(filt, *start, z, dt=chaos.DT, save=_mean_square, extra=truth)
        return np.asarray(saved.values, np.float64).T[:, bounded]

    oracle = squares(OracleEKF(model, q, r))
    by_policy = []
    for policy in policies:
        own = squares(NDRSageHusa(model, chaos.Q_BASE, chaos.R_BASE, policy))
        first, early, late = (_ratio(own, oracle, *steps) for steps in ((0, 600), EARLY, LATE))
        by_policy.append((first, early, late))
    first, early, late = (geometric(values) for values in zip(*by_policy, strict=True))
    return Drift(first, early, late, by_policy, int(bounded.sum()))


def _mean_square(step: Step, truth: Array) -> Array:
    return jnp.mean((step.x - truth) ** 2, axis=0)


def _ratio(own: np.ndarray, oracle: np.ndarray, first: int, last: int) -> float:
    """The geometric mean over runs of the ratio of RMS errors between two steps."""
    mean = [np.mean(np.nan_to_num(e[first:last], nan=LARGEST), axis=0) for e in (own, oracle)]
    return float(np.exp(0.5 * np.mean(np.log(mean[0] / mean[1]))))
