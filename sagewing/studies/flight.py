"""The flight benchmark: every filter on the same degraded flights, from the same starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing import catalogue
from sagewing.catalogue import DEAD_RECKONING, ONBOARD
from sagewing.errors import InputError, check_known
from sagewing.filters import Filter, Step, run
from sagewing.logs import Flight
from sagewing.metrics.errors import attitude_error, rms
from sagewing.metrics.pose import nees, pose_covariance, pose_std
from sagewing.models import QDRONE, Model, QuadrotorKinematic, Vehicle
from sagewing.models.quadrotor import Q, R, V
from sagewing.models.rotations import rotation_matrix
from sagewing.problems.flight.records import IMU, POSE, FlightRecord, WithoutPose, record, rows_of
from sagewing.problems.flight.setup import NOISE, P0, Q0, R0, estimator
from sagewing.sim.degradation import Degradation

SCENARIOS = ("baseline", "disturbance", "denial")
WINDOW = 2.0  # seconds, centred in the flight (paper: 2 s)
NOISIER = 2.0  # the variance of the pose noise in a disturbance (paper)


class Estimates(NamedTuple):
    """A filter's estimates of all records, batch and time first; None for what it does not give."""

    x: Float[np.ndarray, "B T n_x"]
    nees: Float[np.ndarray, "B T"]
    q: Float[np.ndarray, "B T n_x"] | None
    r: Float[np.ndarray, "B T n_z"] | None
    d: Float[np.ndarray, "B T n_d"] | None
    pose_std: Float[np.ndarray, "B T 6"] | None = None  # m; rad, a small rotation in the body
    nis: Float[np.ndarray, "B T"] | None = None  # NaN where nothing arrived


@dataclass(frozen=True)
class FlightComparison:
    """One scenario: the flights, their windows, and every filter's estimates.

    Record i is flight i // seeds with noise i % seeds. Rows after a flight's end are padding.
    """

    scenario: str
    flights: list[Flight]
    seeds: int
    dt: float
    records: FlightRecord
    length: list[int]
    window: list[slice]
    estimates: dict[str, Estimates]
    rows: list[dict[str, Any]]


def check_names(filters: Sequence[str], scenarios: Sequence[str]) -> None:
    """Refuse a name that is not known, and say which are."""
    catalogue.check_names(filters)
    check_known("scenario", scenarios, SCENARIOS)


def window_of(flight: Flight) -> slice:
    """The steps of the middle two seconds; step k is the row after row k."""
    steps = len(flight.t) - 1
    half = round(WINDOW / 2 / flight.dt)
    if steps < 4 * half:
        raise InputError(
            f"{flight.name} lasts {flight.seconds:.1f} s; the benchmark needs {2 * WINDOW:g} s."
        )
    return slice(steps // 2 - half, steps // 2 + half)


def make_records(
    scenario: str, flights: Sequence[Flight], noise: Degradation, seed: int, seeds: int
) -> tuple[FlightRecord, list[slice]]:
    """All flights with so many draws of noise each, padded to the longest by missing rows."""
    longest = max(len(flight.t) for flight in flights) - 1
    parts, windows = [], []
    for i, flight in enumerate(flights):
        inside = window_of(flight)
        steps = len(flight.t) - 1
        there = np.zeros(steps)
        there[inside] = 1.0
        mode = there * (IMU if scenario == "denial" else POSE)
        noisier = 1.0 + there * (NOISIER - 1.0) * (scenario == "disturbance")
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), i), seeds)
        made = _records(keys, rows_of(flight), mode, noisier, noise, flight.dt)
        parts.append(jax.tree.map(lambda a: _padded(a, longest), made))
        windows.append(inside)
    return jax.tree.map(lambda *a: jnp.concatenate(a), *parts), windows


@eqx.filter_jit
def _records(
    keys: Any, rows: Any, mode: Any, noisier: Any, noise: Degradation, dt: float
) -> FlightRecord:
    return jax.vmap(lambda key: record(key, rows, mode, noisier, noise, dt))(keys)


def _padded(series: Float[Array, "B *T n"], longest: int) -> Float[np.ndarray, "B *longest n"]:
    """Rows that are missing at the end, as NaN; what has no time axis stays."""
    a = np.asarray(series)
    if a.ndim == 2:
        return a
    return np.pad(a, ((0, 0), (0, longest - a.shape[1]), (0, 0)), constant_values=np.nan)


def build(name: str, model: Model, learned: Any = None) -> Any:
    """A filter by its name in tables and options."""
    return catalogue.build(name, model, Q0, R0, learned)


def compare(
    scenario: str,
    flights: Sequence[Flight],
    *,
    filters: Sequence[str],
    learned: dict[str, Any],
    vehicle: Vehicle = QDRONE,
    without_pose: WithoutPose = "dynamic",
    noise: Degradation = NOISE["paper"],
    seed: int = 0,
    seeds: int = 5,
    report: Callable[[str], None] = lambda name: None,
) -> FlightComparison:
    """Run the filters through one scenario; `learned` has the weights of those that need some."""
    check_names(filters, (scenario,))
    records, windows = make_records(scenario, flights, noise, seed, seeds)
    dt, length = flights[0].dt, [len(flight.t) - 1 for flight in flights]
    model = estimator(vehicle, without_pose)
    estimates, rows = {}, []
    for name in filters:
        filt = build(name, model, learned.get(name))
        made = jax.tree.map(np.asarray, estimate(filt, records, dt))
        estimates[name] = made
        for i in range(len(flights) * seeds):
            flight = i // seeds
            scored = score(made, records, i, length[flight], windows[flight])
            where = {"filter": name, "scenario": scenario, "flight": flights[flight].name}
            rows.append({**where, "noise": i % seeds, **scored})
        report(name)
    rows += _references(scenario, flights, windows)
    return FlightComparison(
        scenario, list(flights), seeds, dt, records, length, windows, estimates, rows
    )


def estimate(filt: Filter, records: FlightRecord, dt: float) -> Estimates:
    """The filter over all records at once."""
    z, u = records.z, jnp.nan_to_num(records.u)
    extra = (records.position, records.quaternion, jnp.isfinite(z))
    return Estimates(*run(filt, records.x0, P0, z, u, dt, save=_kept, extra=extra).values)


def _kept(step: Step, extra: tuple[Array, Array, Array]) -> tuple[Array | None, ...]:
    position, quaternion, arrived = extra
    S = pose_covariance(step.x, step.P)
    error = nees(step.x, S, position, quaternion)
    nis = jnp.where(jnp.any(arrived, axis=0), step.nis, jnp.nan)
    return step.x, error, step.q, step.r, step.d, pose_std(S), nis


def score(
    made: Estimates, records: FlightRecord, i: int, steps: int, window: slice
) -> dict[str, float]:
    """The errors and the consistency of one record."""
    x = made.x[i, :steps]
    apart = np.linalg.norm(x[:, R] - np.asarray(records.position[i, :steps]), axis=1)
    turned = attitude_error(x[:, Q], np.asarray(records.quaternion[i, :steps]))
    return {
        **_errors(apart, turned, window),
        "nees_mean": float(np.mean(made.nees[i, :steps], dtype=np.float64)),
        "nees_median": float(np.median(made.nees[i, :steps])),
    }


def _errors(apart: np.ndarray, turned: np.ndarray, window: slice) -> dict[str, float]:
    return {
        "pos_rmse_m": rms(apart),
        "att_rmse_rad": rms(turned),
        "window_pos_rmse_m": rms(apart[window]),
        "window_att_rmse_rad": rms(turned[window]),
        "drift_m": float(apart[window.stop - 1]),
    }


def _references(
    scenario: str, flights: Sequence[Flight], windows: Sequence[slice]
) -> list[dict[str, Any]]:
    """Rows without a filter: the vehicle's own estimate, and the IMU alone in a blackout."""
    rows = []
    for flight, window in zip(flights, windows, strict=True):
        where = {"scenario": scenario, "flight": flight.name, "noise": None}
        if flight.onboard is not None:
            apart = np.linalg.norm(flight.onboard.position - flight.position, axis=1)[1:]
            turned = attitude_error(flight.onboard.quaternion, flight.quaternion)[1:]
            rows.append({"filter": ONBOARD, **where, **_errors(apart, turned, window)})
        if scenario == "denial":
            apart, turned = dead_reckoning(flight, window)
            found = {
                "window_pos_rmse_m": rms(apart),
                "window_att_rmse_rad": rms(turned),
                "drift_m": float(apart[-1]),
            }
            rows.append({"filter": DEAD_RECKONING, **where, **found})
    return rows


def dead_reckoning(flight: Flight, window: slice) -> tuple[np.ndarray, np.ndarray]:
    """Errors in position and attitude of the IMU alone, from the truth at the window's start."""
    rows = rows_of(flight)
    first, last = window.start, window.stop
    model = QuadrotorKinematic()
    q = rows.quaternion[first]
    x = jnp.zeros(19, q.dtype).at[R].set(rows.position[first]).at[Q].set(q)
    velocity = jnp.asarray(flight.velocity[first], q.dtype)
    x = x.at[V].set(rotation_matrix(q).T @ velocity)

    def step(x: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = model.normalize(model.transition(x, u, flight.dt))
        return x, x

    _, made = jax.lax.scan(step, x, rows.imu[first + 1 : last + 1])
    made = np.asarray(made)
    truth = flight.position[first + 1 : last + 1]
    turned = attitude_error(made[:, Q], flight.quaternion[first + 1 : last + 1])
    return np.linalg.norm(made[:, R] - truth, axis=1), turned
