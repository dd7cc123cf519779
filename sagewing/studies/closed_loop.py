"""Closed loop: a simulated quadrotor flies on a filter's estimates, through a blackout."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sagewing.metrics.errors import attitude_error, rms
from sagewing.models.quadrotor import Q, R, V
from sagewing.models.rotations import rotation_matrix
from sagewing.problems.flight.attitude import NOMINAL, Attitude, measured_as
from sagewing.problems.flight.records import IMU, POSE
from sagewing.sim.degradation import Degradation
from sagewing.sim.mission import EASE, ROW, TOUCHDOWN, Mission, distance_to_path, draw_vehicle
from sagewing.sim.paths import circles

BLACKOUT = 2.0  # seconds, in the middle of the circle
CORRIDOR = 1.0  # m: a vehicle farther from its path counts as lost
SOFT = 1.0  # m/s: a faster touchdown counts as a crash

# Makes an object with `step(z, u, dt) -> (x, P)` from x0 and P0; None flies on the true state.
Estimator = Callable[[Any, Any], Any] | None


@dataclass(frozen=True)
class FlownMission:
    """One mission: the true, the commanded and the estimated positions."""

    name: str
    t: Float[np.ndarray, "T"]
    position: Float[np.ndarray, "T 3"]
    path: Float[np.ndarray, "T 3"]
    estimate: Float[np.ndarray, "T 3"]
    off: Float[np.ndarray, "T"]  # m from the nearest point of the path
    blackout: tuple[float, float]  # s
    row: dict[str, Any]


def fly(
    name: str,
    make_estimator: Estimator,
    attitude: Attitude,
    degradation: Degradation,
    *,
    seed: int = 0,
    circle: int = 0,
    seconds: float = 10.0,
    blackout: float = BLACKOUT,
) -> FlownMission:
    """Hover, fly a circle through a blackout, land; the seed determines all random draws.

    The estimator measures the pose as `attitude` says, and starts with its P0.
    """
    k_circle, k_flight = jax.random.split(jax.random.fold_in(jax.random.key(seed), circle))
    mission = Mission(jax.tree.map(lambda a: a[circle], circles(k_circle)), seconds)
    vehicle, now = draw_vehicle(k_flight, mission, degradation)
    middle = EASE + seconds / 2
    outage = (middle - blackout / 2, middle + blackout / 2)
    x0 = jnp.zeros_like(now.x).at[R].set(now.x[R]).at[Q].set(now.x[Q])
    online = None if make_estimator is None else make_estimator(x0, NOMINAL[attitude].P0)
    estimate = x0 if online is not None else now.x
    xs, estimates = [], []
    as_measured = jax.jit(lambda pose: measured_as(attitude, pose, jnp.array(True)))
    for k in range(vehicle.rows):
        now, sensed = vehicle.advance(now, estimate, jnp.asarray(k))
        if online is None:
            estimate = now.x
        else:
            mode = IMU if round(outage[0] / ROW) <= k < round(outage[1] / ROW) else POSE
            z = sensed.imu if mode == IMU else as_measured(sensed.pose)
            u = np.concatenate([[mode], sensed.imu, sensed.motors])
            estimate = jnp.asarray(online.step(z, u, ROW)[0])
        xs.append(np.asarray(now.x))
        estimates.append(np.asarray(estimate))
        if xs[-1][2] < TOUCHDOWN:
            break
    x, estimated = np.array(xs), np.array(estimates)
    t = ROW * np.arange(1, len(x) + 1)
    path = np.asarray(vehicle.goals.place[:, -1, :3])
    off = distance_to_path(x[:, R], path)
    scores = _scores(x, estimated, off, t, outage, mission.landing_start)
    row = {"filter": name, "circle": circle, "seed": seed, **scores}
    return FlownMission(name, t, x[:, R], path[: len(x)], estimated[:, R], off, outage, row)


def _scores(
    x: np.ndarray,
    estimate: np.ndarray,
    off: np.ndarray,
    t: np.ndarray,
    outage: tuple[float, float],
    over: float,
) -> dict[str, Any]:
    """The errors of a mission; the drift is None if it ended in the blackout."""
    position_error = np.linalg.norm(estimate[:, R] - x[:, R], axis=1)
    pose_returns = np.searchsorted(t, outage[1] - 0.5 * ROW)
    speed = abs(float((rotation_matrix(jnp.asarray(x[-1, Q])) @ x[-1, V])[2]))
    down, in_time = x[-1, 2] < TOUCHDOWN, t[-1] > over
    return {
        "pos_rmse_m": rms(position_error),
        "att_rmse_rad": rms(attitude_error(estimate[:, Q], x[:, Q])),
        "drift_m": float(position_error[pose_returns]) if pose_returns < len(t) else None,
        "off_path_max_m": float(np.max(off)),
        "stayed": bool(np.max(off) < CORRIDOR),
        "seconds": float(t[-1]),
        "touchdown_m_s": speed if down else None,
        "landed": bool(down and in_time and speed < SOFT and off[-1] < CORRIDOR),
    }
