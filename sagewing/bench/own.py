"""Filters on a user's own log: at the IMU's rate, with a pose where one came."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sagewing.bench.flight import CLASSICAL, ONBOARD, SHIPPED
from sagewing.bench.own_scores import Innovations, score
from sagewing.bench.track import Scene, Track
from sagewing.errors import InputError
from sagewing.filters import EKF, NDRSageHusa, SageHusa
from sagewing.filters.recursion import innovation
from sagewing.flights.flight import Pose
from sagewing.flights.rotate import conjugate, rotate, to_euler
from sagewing.flights.timeline import Timeline
from sagewing.models import QuadrotorKinematic
from sagewing.models.quadrotor import ANGLES, N_X, N_Z, Q, R, V
from sagewing.models.rotations import attitude_matrix
from sagewing.shapes import real_dtype
from sagewing.train.flight import GATE, P0, Q0, R0

FILTERS = SHIPPED
FORGETTING = {"shkf995": 0.995, "shkf999": 0.999}
# Noise is given for steps of this length: those of the flights it was tuned or trained on.
NOMINAL_STEP_S = 0.01
# Steps in one call of the compiled program: enough to make the call cheap, few enough to leave
# little in memory, and to show progress.
CHUNK = 8192
# Rows that are kept for files and pages: those with a pose, and so many a second between them.
KEPT_HZ = 100.0
# Position and angles of a start without a measured attitude, rad^2 and (a quaternion's) 1.
UNSEEN_ATTITUDE = 0.3

Windows = Sequence[tuple[float, float]]


class Noise(NamedTuple):
    """Variances of the process over a step of `NOMINAL_STEP_S`, and of the pose."""

    q: np.ndarray
    r: np.ndarray


class Outcome(NamedTuple):
    """What is shown, and the rows of the table."""

    scene: Scene
    rows: list[dict[str, Any]]


def check_filters(names: Sequence[str]) -> None:
    """Refuse a name that is not known."""
    for name in names:
        if name not in FILTERS:
            raise InputError(f"There is no filter {name!r}; known: {', '.join(FILTERS)}.")
    if len(set(names)) < len(names):
        raise InputError(f"A filter is named twice in {', '.join(names)}.")


def run_own(
    line: Timeline,
    filters: Sequence[str],
    learned: dict[str, Any],
    *,
    outages: Windows = (),
    position_std: Sequence[float] | None = None,
    attitude_std: float | None = None,
    report: Callable[[str, float], None] = lambda name, share: None,
) -> Outcome:
    """Every filter through the same log; `outages` hide the pose, in seconds from the start.

    `learned` has the weights of the filters that need some, and the standard deviations replace
    what they say of the pose. `report` is told which filter is how far, from several threads.
    """
    check_filters(filters)
    hidden = check_outages(line, outages)
    z = _measurements(line, hidden)
    kept = _kept(line, z)
    arrived = np.isfinite(z[kept]).sum(axis=1).astype(float)

    def one(name: str) -> tuple[Track, Innovations]:
        noise = _noise(name, learned.get(name), position_std, attitude_std)
        filt = build(name, noise, learned.get(name), line.step)
        adapts = not name.startswith("ekf")
        return _track(name, filt, line, z, kept, adapts, lambda share: report(name, share))

    # A scan of one record keeps one core busy: two filters at a time use two.
    with ThreadPoolExecutor(max_workers=2) as pool:
        made = list(pool.map(one, filters))
    tracks = [track for track, _ in made]
    truth = _truth(line, hidden)
    reference = None if truth is None else _at(truth, kept)
    rows = [
        score(track, line.t[kept], reference, arrived, seen, outages, line.truth is not None)
        for track, seen in made
    ]
    if line.onboard is not None:
        own = Track(ONBOARD, _at(line.onboard, kept))
        tracks.append(own)
        if reference is not None:
            separate = line.truth is not None
            rows.append(score(own, line.t[kept], reference, arrived, None, outages, separate))
    shown = _at(line.pose, kept)
    shown.position[hidden[kept]] = np.nan
    shown.quaternion[hidden[kept]] = np.nan
    scene = Scene(
        name=line.name,
        t=line.t[kept],
        measured=shown,
        arrived=arrived,
        truth=reference,
        outages=tuple(sorted((*line.dropouts, *((float(a), float(b)) for a, b in outages)))),
        tracks=tuple(tracks),
    )
    return Outcome(scene, [{"flight": line.name, **row} for row in rows])


def check_outages(line: Timeline, outages: Windows) -> np.ndarray:
    """Which steps they hide; one that hides nothing is refused."""
    last = float(line.t[-1])
    for start, stop in outages:
        if not 0.0 <= start < stop or start >= last:
            raise InputError(
                f"--outage {start:g}:{stop:g} is not within the log, which lasts {last:.1f} s; "
                "give seconds from its first pose, such as 10:12."
            )
    return line.hidden(outages)


def build(name: str, noise: Noise, learned: Any, step_s: float) -> Any:
    """A filter by its name, driven by the IMU, for steps of this length."""
    model = QuadrotorKinematic(jacobian="euler")
    q, r = noise.q * step_s / NOMINAL_STEP_S, noise.r
    if name in FORGETTING:
        return SageHusa(model, q, r, b=FORGETTING[name])
    if name == "ndr":
        return NDRSageHusa(model, q, r, learned)
    return EKF(model, q, r, gate=GATE if name == "ekf-gated" else None)


def _noise(
    name: str, learned: Any, position_std: Sequence[float] | None, attitude_std: float | None
) -> Noise:
    """The filter's own noise of the pose, or what the log says of it."""
    own = getattr(learned, "nominal", learned)
    q, r = (Q0, R0) if name in CLASSICAL or own is None else (own.q, own.r)
    q, r = np.array(q, np.float64), np.atleast_2d(np.array(r, np.float64))[0]
    if position_std is not None:
        r[:3] = np.square(position_std)
    if attitude_std is not None:
        r[ANGLES] = attitude_std**2
    return Noise(q, r)


def _measurements(line: Timeline, hidden: np.ndarray) -> Float[np.ndarray, "T 6"]:
    """Positions from the start's, and angles; NaN where none came or it is hidden."""
    z = np.concatenate([line.pose.position - line.start[0], to_euler(line.pose.quaternion)], axis=1)
    z[hidden] = np.nan
    return z


def _kept(line: Timeline, z: np.ndarray) -> np.ndarray:
    """The rows to keep."""
    every = max(1, round(1.0 / (line.step * KEPT_HZ)))
    k = np.arange(len(z))
    regular = (k % every == 0) | (k == len(z) - 1)
    return np.flatnonzero(regular | np.isfinite(z).any(axis=1))


def _truth(line: Timeline, hidden: np.ndarray) -> Pose | None:
    """A truth of its own or, inside the outages, the pose that was hidden there."""
    if line.truth is not None:
        return line.truth
    if not hidden.any():
        return None
    position, quaternion = (
        np.where(hidden[:, None], a, np.nan) for a in (line.pose.position, line.pose.quaternion)
    )
    return Pose(position, quaternion)


def _at(pose: Pose, rows: np.ndarray) -> Pose:
    return Pose(pose.position[rows], pose.quaternion[rows])


def _start(line: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """x0 at the first pose, with the velocity of the first positions, and P0."""
    _, velocity, q = line.start
    x0, P = np.zeros(N_X), np.array(P0)
    x0[Q] = q
    x0[V] = rotate(conjugate(q[None]), velocity[None])[0]
    if not np.isfinite(line.pose.quaternion).any():
        P[Q, Q] = UNSEEN_ATTITUDE * np.eye(4)
    return x0, P


class _Seen(NamedTuple):
    """Of each step, what is kept of it."""

    x: Any  # position and attitude, [T, 7]
    variance: Any  # of position and of a small rotation in the body, [T, 6]
    nis: Any
    nu: Any
    q: Any
    r: Any
    d: Any


@eqx.filter_jit
def _chunk(filt: Any, state: Any, z: Any, u: Any, dt: Any) -> tuple[Any, _Seen]:
    """Some steps; the covariance itself stays inside."""
    arrived = jnp.isfinite(z)
    z = jnp.where(arrived, z, 0.0)

    def measured(state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        nu = innovation(filt.model, filt.coast(state, u, dt).x, z, u, arrived)
        state, said = filt.step(state, z, u, dt, arrived)
        d = jnp.zeros(N_X + N_Z, z.dtype) if said.d is None else said.d
        return state, said.nis, nu, d

    def between(state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        nothing = jnp.zeros(N_X + N_Z, z.dtype)
        return filt.coast(state, u, dt), jnp.full((), jnp.nan, z.dtype), jnp.zeros_like(z), nothing

    def step(state: Any, seen: Any) -> tuple[Any, _Seen]:
        came = jnp.any(seen[-1])
        state, nis, nu, d = jax.lax.cond(came, measured, between, state, *seen)
        x, P = state.x, state.P
        Xi = 2.0 * attitude_matrix(x[Q])  # a small rotation in the body is 2 Xi^T dq
        turn = jnp.sum(Xi * (P[Q, Q] @ Xi), axis=0)
        variance = jnp.concatenate([jnp.diagonal(P)[R], turn])
        kept = jnp.concatenate([x[R], x[Q]])
        return state, _Seen(kept, variance, nis, nu, state.q, state.r, d)

    return jax.lax.scan(step, state, (z, u, dt, arrived))


def _track(
    name: str,
    filt: Any,
    line: Timeline,
    z: np.ndarray,
    kept: np.ndarray,
    adapts: bool,
    report: Callable[[float], None],
) -> tuple[Track, Innovations]:
    """One filter over the log, a chunk at a time; rows that are not kept are forgotten."""
    real = real_dtype()
    x0, P = (jnp.asarray(a, real) for a in _start(line))
    state, parts, steps = filt.init(x0, P), [], len(z)
    for first in range(0, steps, CHUNK):
        last = min(first + CHUNK, steps)
        fill = CHUNK - (last - first)  # steps without time or measurement complete the last chunk
        given = (
            np.pad(z[first:last], ((0, fill), (0, 0)), constant_values=np.nan),
            np.pad(line.imu[first:last], ((0, fill), (0, 0))),
            np.pad(line.dt[first:last], (0, fill)),
        )
        state, seen = _chunk(filt, state, *(jnp.asarray(a, real) for a in given))
        rows = kept[(kept >= first) & (kept < last)] - first
        if not adapts:
            seen = seen._replace(q=None, r=None, d=None)
        parts.append(jax.tree.map(lambda a, rows=rows: np.asarray(a)[rows], seen))
        report(last / steps)
    made: _Seen = jax.tree.map(lambda *pieces: np.concatenate(pieces), *parts)
    x, std = made.x.astype(np.float64), np.sqrt(np.maximum(made.variance, 0.0))
    pose = Pose(x[:, :3] + line.start[0], x[:, 3:])
    track = Track(name, pose, std[:, :3], std[:, 3:], made.nis, made.q, made.r, made.d)
    return track, Innovations(made.nu, np.isfinite(z[kept]))
