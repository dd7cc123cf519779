"""Ten minutes at 1000 Hz smoothed: time and peak memory of the filter that `sagewing run` uses.

A hovering vehicle's IMU comes 1000 times a second and its pose 100 times; the smoothed pose is kept
100 times a second. The first time includes compilation. Usage:
python benchmarks/long_smoothing.py [SECONDS] [FILTER]
"""

import resource
import sys
import time

import numpy as np

from sagewing.filters.chunks import smooth_long
from sagewing.logs.estimate.filters import build, log_attitude, noise_of
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.weights import flight_weights

HZ, POSES_HZ = 1000, 100
POSE_STD, ACCELERATION_STD, RATE_STD = 0.02, 0.05, 0.01


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
        made = smooth_long(filt, x0, P0, z, u, 1.0 / HZ, keep=posed)
        took, work = time.perf_counter() - began, time.process_time() - worked
        print(f"{steps:,} steps, {name}, {again}: {took:.1f} s, {work:.1f} s of CPU")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory: {memory / 1e6:.2f} GB")
    half = len(made.steps) // 2
    for label, kept in (("filtered", made.filtered), ("smoothed", made.smoothed)):
        error = np.linalg.norm(kept.x[half:, :3], axis=1)
        print(f"position error, {label}: {np.sqrt(np.mean(error**2)):.4f} m")


if __name__ == "__main__":
    main()
