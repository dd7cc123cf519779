"""How much could be won by knowing the pose's noise: the gated EKF, NDR-SHKF, and an oracle.

The oracle has the gated EKF's Q and IMU, but is told the true noise of the pose at every step: how
large it is in this record, when it doubles, and which samples are outliers. The flights are random
paths that nobody was trained or tested on. Usage: python benchmarks/flight_bound.py [NDR_FOLDER]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.bench.flight import NOISE, NOISIER, SCENARIOS, compare, estimate, score
from sagewing.cli.weights import flight_weights
from sagewing.filters import OracleEKF
from sagewing.flights.dataset import SIM, load
from sagewing.flights.records import IMU
from sagewing.models.rotations import euler_angles
from sagewing.train.flight import estimator

SEED, SECONDS = 77, 10.0
FILTERS = ("ekf-gated", "ndr")
OUTLIER = 3.5  # standard deviations, robustly estimated
SCALES = (0.3, 1.0, 3.0, 10.0)  # of the true r: a model that errs wants more of it


def flights():
    """Pieces of random paths, as long as the benchmark's circles."""
    data = load(SIM, SEED, parts=("train",))
    pieces = []
    for flight in data.train:
        starts = np.arange(0.0, flight.seconds - SECONDS, SECONDS)
        pieces += [flight.part(start, start + SECONDS + flight.dt / 2) for start in starts]
    return data, pieces


def true_r(records, windows, scenario, noise):
    """The variances of the pose at each step, time first and batch last, and the IMU's."""
    euler = np.asarray(jnp.vectorize(euler_angles, signature="(4)->(3)")(records.quaternion))
    pose = np.concatenate([np.asarray(records.position), euler], axis=-1)
    error = np.asarray(records.z) - pose
    error[..., 3:] = (error[..., 3:] + np.pi) % (2 * np.pi) - np.pi
    by_imu = np.asarray(records.u)[..., 0] == IMU
    error[by_imu] = np.nan
    spread = 1.4826 * np.nanmedian(np.abs(error), axis=1, keepdims=True)
    louder = np.ones((*by_imu.shape, 1))
    if scenario == "disturbance":
        for i, window in enumerate(windows):
            louder[i, window] = NOISIER
    r = louder * spread**2 * np.where(np.abs(error) > OUTLIER * spread, 25.0, 1.0)
    r = np.where(by_imu[..., None], np.asarray(noise.r)[IMU], np.nan_to_num(r, nan=1.0))
    return np.moveaxis(r, 0, -1)


def main() -> None:
    data, pieces = flights()
    own = tuple(f"ndr={folder}" for folder in sys.argv[1:])
    learned = flight_weights(FILTERS, SIM, "paper", own)
    noise = learned["ekf-gated"]
    print(
        f"{len(pieces)} flights of {SECONDS:g} s; position RMSE, m, and what is below the gated EKF"
    )
    for scenario in SCENARIOS:
        made = compare(
            scenario,
            pieces,
            filters=FILTERS,
            learned=learned,
            vehicle=data.vehicle,
            noise=NOISE["paper"],
            seed=SEED,
            seeds=1,
        )
        found = {
            name: np.mean([row["pos_rmse_m"] for row in made.rows if row["filter"] == name])
            for name in FILTERS
        }
        r = true_r(made.records, made.window, scenario, noise)
        q = np.broadcast_to(np.asarray(noise.q)[None, :, None], (len(r), noise.q.size, r.shape[-1]))
        oracle = []
        for scale in SCALES:
            told = jnp.asarray(np.where(by_pose(made.records), scale * r, r), jnp.float32)
            filt = OracleEKF(estimator(data.vehicle), jnp.asarray(q), told)
            said = jax.tree.map(np.asarray, estimate(filt, made.records, made.dt))
            errors = [
                score(said, made.records, i, made.length[i], made.window[i])["pos_rmse_m"]
                for i in range(len(pieces))
            ]
            oracle.append(np.mean(errors))
        found["oracle"] = min(oracle)
        base = found["ekf-gated"]
        row = "   ".join(f"{k} {v:.3f} ({100 * (1 - v / base):+.0f}%)" for k, v in found.items())
        print(f"{scenario:12s} {row}", flush=True)


def by_pose(records):
    """Where the pose is what is measured, laid out like r."""
    return np.moveaxis(np.asarray(records.u)[..., :1] != IMU, 0, -1)


if __name__ == "__main__":
    main()
