"""Filters on a user's own log: a prediction at each IMU sample, a correction at each pose."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing import catalogue
from sagewing.catalogue import ONBOARD
from sagewing.errors import InputError
from sagewing.filters import Filter, Smoothed, Step, smooth_long
from sagewing.filters.chunks import in_chunks
from sagewing.filters.loop import Save
from sagewing.logs.estimate.filters import build, check_filters, log_attitude, noise_of
from sagewing.logs.estimate.scores import InnovationSeries, score
from sagewing.logs.flight import Pose
from sagewing.logs.rotate import conjugate, rotate, to_euler, to_rotation_vector
from sagewing.logs.timeline import Timeline
from sagewing.logs.track import Scene, Track
from sagewing.metrics.pose import pose_covariance, pose_std
from sagewing.models.quadrotor import N_X, N_Z, Q, R, V
from sagewing.problems.flight.attitude import NOMINAL, Attitude, variances

# Steps in one call of the compiled program: a call costs little, its results fit in memory, and
# progress is shown often.
CHUNK = 8192
# The rows kept for files and pages: those with a pose, and so many a second between them.
KEPT_HZ = 100.0
# The variance of the first attitude, if it was not measured, in rad^2.
UNMEASURED_ATTITUDE = 0.2

Windows = Sequence[tuple[float, float]]


class LogEstimates(NamedTuple):
    """The tracks of all filters, and the rows of the table."""

    scene: Scene
    rows: list[dict[str, Any]]


def estimate_log(
    line: Timeline,
    filters: Sequence[str],
    learned: dict[str, Any],
    *,
    outages: Windows = (),
    position_std: Sequence[float] | None = None,
    attitude_std: float | None = None,
    smooth: bool = False,
    report: Callable[[str, float], None] = lambda name, share: None,
) -> LogEstimates:
    """Run each filter over the log; `outages` hide the pose, in seconds from the start.

    With `smooth` the track of each filter is followed by that of its smoothed estimates.

    `learned` has the weights of the filters that need some. The standard deviations of the pose
    go into R (`noise_of`). `report` is called with a filter's name and its progress, from several
    threads.
    """
    check_filters(filters)
    hidden = check_outages(line, outages)
    kept = _kept(line)
    kinds: dict[str, Attitude] = {name: log_attitude(learned.get(name)) for name in filters}
    z = {attitude: measurements(line, hidden, attitude) for attitude in set(kinds.values())}
    arrived = np.isfinite(next(iter(z.values()))[kept]).sum(axis=1).astype(float)

    turns = bool(np.isfinite(line.pose.quaternion).any())
    stopped = Event()

    def one(name: str) -> list[tuple[Track, InnovationSeries | None]]:
        def progress(share: float) -> None:
            if stopped.is_set():
                raise RuntimeError("stopped")
            report(name, share)

        noise = noise_of(learned.get(name), position_std, attitude_std, turns)
        filt = build(name, noise, learned.get(name), line.step, line.steps_a_pose)
        start = _start(line, kinds[name])
        adapts = catalogue.entry(name).adapts
        run = _smoothed_tracks if smooth else _track
        return run(name, filt, start, line, z[kinds[name]], kept, adapts, progress)

    # A scan of one record keeps one core busy: two filters at a time use two.
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            results = [made for each in pool.map(one, filters) for made in each]
        except BaseException:  # also Ctrl-C: it must not wait for the end of the log
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    tracks = [track for track, _ in results]
    reference = line.at(line.truth, kept) or _hidden_pose(line, hidden, kept)
    separate = line.truth is not None
    rows = [
        score(track, line.t[kept], reference, arrived, innovations, outages, separate)
        for track, innovations in results
    ]
    onboard = line.at(line.onboard, kept)
    if onboard is not None:
        track = Track(ONBOARD, onboard)
        tracks.append(track)
        if reference is not None:
            rows.append(score(track, line.t[kept], reference, arrived, None, outages, separate))
    scene = Scene(
        name=line.name,
        t=line.t[kept],
        measured=_pose_where(line, ~hidden, kept),
        arrived=arrived,
        truth=reference,
        outages=tuple(sorted((*line.dropouts, *((float(a), float(b)) for a, b in outages)))),
        tracks=tuple(tracks),
    )
    return LogEstimates(scene, [{"flight": line.name, **row} for row in rows])


def check_outages(line: Timeline, outages: Windows) -> np.ndarray:
    """Which steps the outages hide; refuses one outside of the log."""
    last = float(line.t[-1])
    for start, stop in outages:
        if not start < stop:
            raise InputError(f"--outage {start:g}:{stop:g} ends before it begins.")
        if not 0.0 <= start < last:
            raise InputError(
                f"--outage {start:g}:{stop:g} is not within the log, which lasts {last:.1f} s; "
                "give seconds from its first pose, such as 10:12."
            )
    return line.steps_within(outages)


def measurements(
    line: Timeline, hidden: np.ndarray, attitude: Attitude
) -> Float[np.ndarray, "T 6"]:
    """Position relative to the start, and Euler angles or a rotation vector.

    NaN where not measured or hidden.
    """
    q = line.pose.quaternion
    angles = to_euler(q) if attitude == "euler" else to_rotation_vector(q)
    z = np.concatenate([line.pose.position - line.start[0], angles], axis=1)
    z[hidden] = np.nan
    return z


def _kept(line: Timeline) -> np.ndarray:
    """The rows to keep: those with a pose, hidden or not, and others at `KEPT_HZ`."""
    every = max(1, round(1.0 / (line.step * KEPT_HZ)))
    k = np.arange(len(line.t))
    regular = (k % every == 0) | (k == len(k) - 1)
    return np.flatnonzero(regular | np.isfinite(line.pose.position).all(axis=1))


def _pose_where(line: Timeline, which: np.ndarray, rows: np.ndarray) -> Pose:
    """The measured pose at these rows, NaN where `which` is false."""
    position, quaternion = (
        np.where(which[rows, None], a[rows], np.nan)
        for a in (line.pose.position, line.pose.quaternion)
    )
    return Pose(position, quaternion)


def _hidden_pose(line: Timeline, hidden: np.ndarray, rows: np.ndarray) -> Pose | None:
    """The reference of a log without a truth: the pose in the outages, hidden from the filters."""
    return _pose_where(line, hidden, rows) if hidden.any() else None


def _start(line: Timeline, attitude: Attitude) -> tuple[np.ndarray, np.ndarray]:
    """x0 from the first pose and the velocity of the first positions, and P0."""
    _, velocity, q = line.start
    x0, P = np.zeros(N_X), np.array(NOMINAL[attitude].P0)
    x0[Q] = q
    x0[V] = rotate(conjugate(q[None]), velocity[None])[0]
    if not np.isfinite(line.pose.quaternion).any():
        unmeasured = variances(attitude, (0.0, 0.0, UNMEASURED_ATTITUDE, 0.0, 0.0, 0.0))
        np.fill_diagonal(P, np.where(unmeasured > 0.0, unmeasured, np.diagonal(P)))
    return x0, P


# What is kept of a step lies in two rows of numbers: many small ones would cost more than the step.
POSE_ROW = {"position": 3, "quaternion": 4, "position_std": 3, "attitude_std": 3}
SAID_ROW = {"ok": 1, "nis": 1, "restarts": 1, "nu": N_Z}


def _pose_row(x: Array, P: Array) -> Array:
    """The pose and its standard deviations; nothing more of x and P leaves the program."""
    std = pose_std(pose_covariance(x[:, None], P[..., None]))[:, 0]
    return jnp.concatenate([x[R], x[Q], std])


def _smoothed_row(smoothed: Smoothed, extra: None) -> Array:
    return _pose_row(smoothed.x, smoothed.P)


def _rows(step: Step, extra: None) -> tuple[Array, Array]:
    """What is kept of a step."""
    x = step.x
    nu = jnp.full(N_Z, jnp.nan, x.dtype) if step.innovation is None else step.innovation
    counts = jnp.stack([step.ok.astype(x.dtype), step.nis, step.restarts])
    return _pose_row(x, step.P), jnp.concatenate([counts, nu])


def _rows_with_noise(q0: Array, r0: Array, step: Step, extra: None) -> tuple[Array, Array]:
    """The same of a filter that adapts its noise; the nominal noise where a step has none."""
    pose, row = _rows(step, extra)
    d = jnp.zeros(q0.size + r0.size, q0.dtype) if step.d is None else step.d
    q, r = q0 if step.q is None else step.q, r0 if step.r is None else step.r
    return pose, jnp.concatenate([row, d, q, r])


def _save(filt: Filter, adapts: bool) -> Save:
    return eqx.Partial(_rows_with_noise, filt.q0, filt.r0) if adapts else _rows


def _track(
    name: str,
    filt: Filter,
    start: tuple[np.ndarray, np.ndarray],
    line: Timeline,
    z: np.ndarray,
    kept: np.ndarray,
    adapts: bool,
    report: Callable[[float], None],
) -> list[tuple[Track, InnovationSeries | None]]:
    """One filter over the log, a chunk at a time; rows that are not kept are forgotten."""
    save, parts = _save(filt, adapts), []
    for rows, values, _ in in_chunks(filt, *start, z, line.imu, line.dt, save, steps=CHUNK):
        inside = kept[(kept >= rows.start) & (kept < rows.stop)] - rows.start
        parts.append(tuple(a[inside] for a in values))
        report(rows.stop / len(z))
    pose, said = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    return [_made(name, filt, line, np.isfinite(z[kept]), adapts, pose, said)]


def _smoothed_tracks(
    name: str,
    filt: Filter,
    start: tuple[np.ndarray, np.ndarray],
    line: Timeline,
    z: np.ndarray,
    kept: np.ndarray,
    adapts: bool,
    report: Callable[[float], None],
) -> list[tuple[Track, InnovationSeries | None]]:
    """The same, and the estimates by all of the log after it."""
    made = smooth_long(
        filt,
        *start,
        z,
        line.imu,
        line.dt,
        keep=np.isin(np.arange(len(z)), kept),
        save=_save(filt, adapts),
        save_smoothed=_smoothed_row,
        steps=CHUNK,
        report=report,
    )
    filtered = _made(name, filt, line, np.isfinite(z[kept]), adapts, *made.filtered)
    pose = _cut(made.smoothed.astype(np.float64), POSE_ROW)
    return [filtered, (_pose_track(catalogue.smoothed(name), line, pose), None)]


def _pose_track(name: str, line: Timeline, pose: dict[str, np.ndarray]) -> Track:
    where = Pose(pose["position"] + line.start[0], pose["quaternion"])
    std = {key: pose[key] for key in ("position_std", "attitude_std")}
    return Track(name, where, **std)


def _made(
    name: str,
    filt: Filter,
    line: Timeline,
    arrived: np.ndarray,
    adapts: bool,
    pose: np.ndarray,
    said: np.ndarray,
) -> tuple[Track, InnovationSeries]:
    """A filter's track and innovations, of what was kept of its steps."""
    n = filt.q0.size
    cut = _cut(said, SAID_ROW | {"d": n + N_Z, "q": n, "r": N_Z} if adapts else SAID_ROW)
    track = replace(
        _pose_track(name, line, _cut(pose.astype(np.float64), POSE_ROW)),
        nis=np.where(arrived.any(axis=1), cut["nis"][:, 0], np.nan),
        **({key: cut[key] for key in ("q", "r", "d")} if adapts else {}),
    )
    ok, restarts = cut["ok"][:, 0] > 0.0, int(cut["restarts"][-1, 0])
    return track, InnovationSeries(cut["nu"], arrived, ok, restarts)


def _cut(rows: np.ndarray, widths: dict[str, int]) -> dict[str, np.ndarray]:
    ends = np.cumsum(list(widths.values()))
    return dict(zip(widths, np.split(rows, ends[:-1], axis=1), strict=True))
