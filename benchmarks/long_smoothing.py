"""Ten minutes at 1000 Hz smoothed: time and peak memory of the filter that `sagewing run` uses.

A hovering vehicle's IMU comes 1000 times a second and its pose 100 times; the smoothed pose is kept
100 times a second, with its standard deviations. The first time includes compilation. Usage:
python benchmarks/long_smoothing.py [SECONDS] [FILTER]
"""

import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.filters import Smoothed, Step, smooth_long
from sagewing.logs.estimate.filters import build, log_attitude, noise_of
from sagewing.metrics.pose import pose_covariance, pose_std
from sagewing.models.quadrotor import Q, R
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.weights import flight_weights

HZ, POSES_HZ = 1000, 100
POSE_STD, ACCELERATION_STD, RATE_STD = 0.02, 0.05, 0.01


def filtered_pose(step: Step, extra: None) -> jax.Array:
    """Position and attitude, and the standard deviations of their errors."""
    return pose(step.x, step.P)


def smoothed_pose(smoothed: Smoothed, extra: None) -> jax.Array:
    """The same of a smoothed step."""
    return pose(smoothed.x, smoothed.P)


def pose(x: jax.Array, P: jax.Array) -> jax.Array:
    """13 numbers, as `sagewing run` keeps them."""
    std = pose_std(pose_covariance(x[:, None], P[..., None]))[:, 0]
    return jnp.concatenate([x[R], x[Q], std])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    name = sys.argv[2] if len(sys.argv) > 2 else "ekf"
    learned = flight_weights([name], "real", "good", {}).get(name)
    noise = noise_of(learned, None, None, True)
    every = HZ // POSES_HZ
    filt = build(name, noise, learned, 1.0 / HZ, every)
    rng, steps = np.random.default_rng(0), round(seconds * HZ)
    acceleration = [0.0, 0.0, 9.81] + ACCELERATION_STD * rng.normal(size=(steps, 3))
    u = np.concatenate([acceleration, RATE_STD * rng.normal(size=(steps, 3))], axis=1)
    z, posed = POSE_STD * rng.normal(size=(steps, 6)), np.arange(steps) % every == 0
    z[~posed] = np.nan
    x0 = np.zeros(19)
    x0[6] = 1.0
    P0 = np.array(NOMINAL[log_attitude(learned)].P0)
    for again in ("first", "again"):
        began, worked = time.perf_counter(), time.process_time()
        save = {"save": filtered_pose, "save_smoothed": smoothed_pose}
        made = smooth_long(filt, x0, P0, z, u, 1.0 / HZ, keep=posed, **save)
        took, work = time.perf_counter() - began, time.process_time() - worked
        print(f"{steps:,} steps, {name}, {again}: {took:.1f} s, {work:.1f} s of CPU")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory: {memory / 1e6:.2f} GB")
    half = len(made.steps) // 2
    for label, pose in (("filtered", made.filtered), ("smoothed", made.smoothed)):
        error = np.linalg.norm(pose[half:, :3], axis=1)
        print(f"position error, {label}: {np.sqrt(np.mean(error**2)):.4f} m")


if __name__ == "__main__":
    main()
