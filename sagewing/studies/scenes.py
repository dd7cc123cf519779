"""One record of a comparison as a scene, for the plots of a page."""

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.logs.flight import Pose
from sagewing.logs.track import Scene, Track
from sagewing.models.quadrotor import ANGLES, Q, R
from sagewing.models.rotations import from_euler_angles
from sagewing.problems.flight.records import POSE
from sagewing.studies.flight import Estimates, FlightComparison


def scene_of(comparison: FlightComparison, i: int) -> Scene:
    """The measurements and estimates of record i; its window counts as an outage."""
    flight = i // comparison.seeds
    steps, window = comparison.length[flight], comparison.window[flight]
    z, u, position, quaternion = (
        np.asarray(a, np.float64)[i, :steps] for a in comparison.records[1:]
    )
    pose = np.where(u[:, :1] == POSE, z, np.nan)
    measured = jax.vmap(from_euler_angles)(jnp.asarray(pose[:, ANGLES]))
    t = comparison.dt * np.arange(1, steps + 1)
    outages = () if comparison.scenario == "baseline" else (_seconds(t, window),)
    return Scene(
        name=f"{comparison.flights[flight].name}, {comparison.scenario}",
        t=t,
        measured=Pose(pose[:, R], np.asarray(measured, np.float64)),
        arrived=np.sum(np.isfinite(z), axis=1).astype(np.float64),
        truth=Pose(position, quaternion),
        outages=outages,
        tracks=tuple(
            _track(name, estimates, i, steps) for name, estimates in comparison.estimates.items()
        ),
    )


def _seconds(t: np.ndarray, window: slice) -> tuple[float, float]:
    return float(t[window.start]), float(t[window.stop - 1])


def _track(name: str, estimates: Estimates, i: int, steps: int) -> Track:
    x, _, q, r, d, std, nis = (None if a is None else a[i, :steps] for a in estimates)
    assert x is not None
    return Track(
        name,
        Pose(x[:, R], x[:, Q]),
        position_std=None if std is None else std[:, :3],
        attitude_std=None if std is None else std[:, 3:],
        nis=nis,
        q=q,
        r=r,
        d=d,
    )
