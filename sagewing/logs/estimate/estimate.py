"""Filters on a user's own log: at the IMU's rate, with a pose where one came."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sagewing import catalogue
from sagewing.catalogue import ONBOARD
from sagewing.errors import InputError
from sagewing.filters.recursion import innovation
from sagewing.logs.estimate.filters import build, check_filters, noise_of
from sagewing.logs.estimate.scores import Innovations, score
from sagewing.logs.flight import Pose
from sagewing.logs.rotate import conjugate, rotate, to_euler
from sagewing.logs.timeline import Timeline
from sagewing.logs.track import Scene, Track
from sagewing.models.quadrotor import N_X, N_Z, Q, R, V
from sagewing.problems.flight.setup import P0
from sagewing.shapes import real_dtype

# Steps in one call of the compiled program: enough to make the call cheap, few enough to leave
# little in memory, and to show progress.
CHUNK = 8192
# Rows that are kept for files and pages: those with a pose, and so many a second between them.
KEPT_HZ = 100.0
# The variance of a first quaternion that was not measured.
UNSEEN_ATTITUDE = 0.05

Windows = Sequence[tuple[float, float]]


class Outcome(NamedTuple):
    """What is shown, and the rows of the table."""

    scene: Scene
    rows: list[dict[str, Any]]


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
    z = measurements(line, hidden)
    kept = _kept(line)
    arrived = np.isfinite(z[kept]).sum(axis=1).astype(float)

    turns = bool(np.isfinite(line.pose.quaternion).any())
    stopped = Event()

    def one(name: str) -> tuple[Track, Innovations]:
        def told(share: float) -> None:
            if stopped.is_set():
                raise RuntimeError("stopped")
            report(name, share)

        noise = noise_of(learned.get(name), position_std, attitude_std, turns)
        filt = build(name, noise, learned.get(name), line.step, line.steps_a_pose)
        adapts = catalogue.entry(name).adapts
        return _track(name, filt, line, z, kept, adapts, told)

    # A scan of one record keeps one core busy: two filters at a time use two.
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            made = list(pool.map(one, filters))
        except BaseException:  # Ctrl-C, too, must not wait for the end of the log
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    tracks = [track for track, _ in made]
    reference = line.at(line.truth, kept) or _hidden_pose(line, hidden, kept)
    rows = [
        score(track, line.t[kept], reference, arrived, seen, outages, line.truth is not None)
        for track, seen in made
    ]
    onboard = line.at(line.onboard, kept)
    if onboard is not None:
        own = Track(ONBOARD, onboard)
        tracks.append(own)
        if reference is not None:
            separate = line.truth is not None
            rows.append(score(own, line.t[kept], reference, arrived, None, outages, separate))
    scene = Scene(
        name=line.name,
        t=line.t[kept],
        measured=_pose_where(line, ~hidden, kept),
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
        if not start < stop:
            raise InputError(f"--outage {start:g}:{stop:g} ends before it begins.")
        if not 0.0 <= start < last:
            raise InputError(
                f"--outage {start:g}:{stop:g} is not within the log, which lasts {last:.1f} s; "
                "give seconds from its first pose, such as 10:12."
            )
    return line.hidden(outages)


def measurements(line: Timeline, hidden: np.ndarray) -> Float[np.ndarray, "T 6"]:
    """Positions from the start's, and angles; NaN where none came or it is hidden."""
    z = np.concatenate([line.pose.position - line.start[0], to_euler(line.pose.quaternion)], axis=1)
    z[hidden] = np.nan
    return z


def _kept(line: Timeline) -> np.ndarray:
    """The rows to keep: those of a pose, hidden or not, and some at even distances."""
    every = max(1, round(1.0 / (line.step * KEPT_HZ)))
    k = np.arange(len(line.t))
    regular = (k % every == 0) | (k == len(k) - 1)
    return np.flatnonzero(regular | np.isfinite(line.pose.position).all(axis=1))


def _pose_where(line: Timeline, which: np.ndarray, rows: np.ndarray) -> Pose:
    """What came at these rows; NaN elsewhere."""
    position, quaternion = (
        np.where(which[rows, None], a[rows], np.nan)
        for a in (line.pose.position, line.pose.quaternion)
    )
    return Pose(position, quaternion)


def _hidden_pose(line: Timeline, hidden: np.ndarray, rows: np.ndarray) -> Pose | None:
    """The truth where the log has none of its own: the pose, where no filter has seen it."""
    return _pose_where(line, hidden, rows) if hidden.any() else None


def _start(line: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """x0 at the first pose, with the velocity of the first positions, and P0."""
    _, velocity, q = line.start
    x0, P = np.zeros(N_X), np.array(P0)
    x0[Q] = q
    x0[V] = rotate(conjugate(q[None]), velocity[None])[0]
    if not np.isfinite(line.pose.quaternion).any():
        P[Q, Q] = UNSEEN_ATTITUDE * np.eye(4)
    return x0, P


# What is kept of a step lies in two rows of numbers: many small ones would cost more than the step.
POSE_ROW = {"position": 3, "quaternion": 4, "variance": 3, "turning": 16}
SAID_ROW = {"ok": 1, "nis": 1, "nu": N_Z, "d": N_X + N_Z, "q": N_X, "r": N_Z}


@eqx.filter_jit
def _chunk(filt: Any, state: Any, z: Any, u: Any, dt: Any) -> tuple[Any, Any]:
    """Some steps; of the covariance only what is shown leaves the program."""
    arrived = jnp.isfinite(z)
    z = jnp.where(arrived, z, 0.0)

    def measured(state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        nu = innovation(filt.model, filt.model.transition(state.x, u, dt), z, u, arrived)
        state, said = filt.step(state, z, u, dt, arrived)
        d = jnp.zeros(SAID_ROW["d"], z.dtype) if said.d is None else said.d
        flags = jnp.stack([said.ok.astype(z.dtype), said.nis])
        return state, jnp.concatenate([flags, nu, d, state.q, state.r])

    def between(state: Any, z: Any, u: Any, dt: Any, arrived: Any) -> Any:
        silent = jnp.zeros(2 + SAID_ROW["nu"] + SAID_ROW["d"], z.dtype)
        return filt.coast(state, u, dt), jnp.concatenate([silent, state.q, state.r])

    def step(state: Any, seen: Any) -> tuple[Any, Any]:
        state, said = jax.lax.cond(jnp.any(seen[-1]), measured, between, state, *seen)
        x, P = state.x, state.P
        pose = jnp.concatenate([x[R], x[Q], jnp.diagonal(P)[R], P[Q, Q].ravel()])
        return state, (pose, said)

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
        parts.append(tuple(np.asarray(a)[rows] for a in seen))
        report(last / steps)
    pose, said = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    pose, said = _cut(pose.astype(np.float64), POSE_ROW), _cut(said, SAID_ROW)
    arrived = np.isfinite(z[kept])
    track = Track(
        name,
        Pose(pose["position"] + line.start[0], pose["quaternion"]),
        position_std=np.sqrt(np.maximum(pose["variance"], 0.0)),
        attitude_std=_attitude_std(pose["quaternion"], pose["turning"]),
        nis=np.where(arrived.any(axis=1), said["nis"][:, 0], np.nan),
        **({key: said[key] for key in ("q", "r", "d")} if adapts else {}),
    )
    ok, restarts = said["ok"][:, 0] > 0.0, int(state.recovery.restarts)
    return track, Innovations(said["nu"], arrived, ok, restarts)


def _cut(rows: np.ndarray, widths: dict[str, int]) -> dict[str, np.ndarray]:
    ends = np.cumsum(list(widths.values()))
    return dict(zip(widths, np.split(rows, ends[:-1], axis=1), strict=True))


def _attitude_std(q: np.ndarray, turning: np.ndarray) -> np.ndarray:
    """Of a small rotation in the body, 2 Xi^T dq, from the covariance of the quaternion."""
    w, x, y, z = q.T
    Xi = 2.0 * np.stack([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])  # [4, 3, T]
    variance = np.einsum("iat,tij,jat->ta", Xi, turning.reshape(-1, 4, 4), Xi)
    return np.sqrt(np.maximum(variance, 0.0))
