"""How much could be won by knowing the pose's noise: the gated EKF, NDR-SHKF, and two more.

"Following" has the gated EKF's noise, but the r of the positions follows the innovations at a
fixed rate. The oracle has the gated EKF's Q and IMU, but is told the true noise of the pose at
every step: how large it is in this record, when it doubles, and which samples are outliers. The
flights are random paths that nobody was trained or tested on.
Usage: python benchmarks/flight_bound.py [NDR_FOLDER]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sagewing.bench.flight import NOISE, NOISIER, SCENARIOS, build, estimate, make_records, score
from sagewing.cli.weights import flight_weights
from sagewing.filters import OracleEKF
from sagewing.flights.dataset import SIM, load
from sagewing.flights.records import IMU
from sagewing.models.rotations import euler_angles
from sagewing.train.flight import LEARNERS, FlightTraining, estimator

SEED, SECONDS = 77, 10.0
FILTERS = ("ekf-gated", "ndr")
FOLLOWING = 0.03  # the d of the positions' r
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


def following(noise):
    """The NDR-SHKF with the same d at every step: none for q and the angles' r."""
    q, r = np.asarray(noise.q), np.asarray(noise.r)
    setup = FlightTraining(nominal_q=tuple(q.tolist()), nominal_r=tuple(map(tuple, r.tolist())))
    policy = LEARNERS["ndr"].make(setup, jax.random.key(0))
    never = jnp.full(policy.arch.n_x + policy.arch.n_z, -20.0)
    d = never.at[policy.arch.n_x : policy.arch.n_x + 3].set(np.log(FOLLOWING / (1.0 - FOLLOWING)))
    return eqx.tree_at(
        lambda p: (p.head.layers[-1].W, p.head.layers[-1].b),
        policy,
        (jnp.zeros_like(policy.head.layers[-1].W), d),
    )


def errors(filt, pieces, records, windows):
    """Mean RMSE of position and attitude over all records."""
    said = jax.tree.map(np.asarray, estimate(filt, records, pieces[0].dt))
    rows = [score(said, records, i, len(piece.t) - 1, windows[i]) for i, piece in enumerate(pieces)]
    return [np.mean([row[key] for row in rows]) for key in ("pos_rmse_m", "att_rmse_rad")]


def main() -> None:
    data, pieces = flights()
    own = tuple(f"ndr={folder}" for folder in sys.argv[1:])
    learned = flight_weights(FILTERS, SIM, "paper", own)
    noise, model = learned["ekf-gated"], estimator(data.vehicle)
    print(
        f"{len(pieces)} flights of {SECONDS:g} s; RMSE of position, m (how much of it is less than "
        "the gated EKF's), and of attitude, rad"
    )
    for scenario in SCENARIOS:
        records, windows = make_records(scenario, pieces, NOISE["paper"], SEED, 1)
        given = (pieces, records, windows)
        found = {name: errors(build(name, model, learned[name]), *given) for name in FILTERS}
        found["following"] = errors(build("ndr", model, following(noise)), *given)
        r = true_r(records, windows, scenario, noise)
        q = np.broadcast_to(np.asarray(noise.q)[None, :, None], (len(r), noise.q.size, r.shape[-1]))
        told = [
            jnp.asarray(np.where(by_pose(records), scale * r, r), jnp.float32) for scale in SCALES
        ]
        found["oracle"] = min(errors(OracleEKF(model, jnp.asarray(q), r), *given) for r in told)
        base = found["ekf-gated"][0]
        for name, (position, attitude) in found.items():
            less = 100 * (1 - position / base)
            print(f"{scenario:12s} {name:10s} {position:.3f} ({less:+.0f}%) {attitude:.4f}")


def by_pose(records):
    """Where the pose is what is measured, laid out like r."""
    return np.moveaxis(np.asarray(records.u)[..., :1] != IMU, 0, -1)


if __name__ == "__main__":
    main()
