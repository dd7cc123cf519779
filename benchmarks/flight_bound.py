"""How much could be won by knowing the pose's noise: the gated EKF, NDR-SHKF, and four more.

"Following" has the gated EKF's noise, but the r of the positions follows the innovations at a
fixed rate. The oracle has the gated EKF's Q and IMU, but is told the true noise of the pose at
every step: how large it is in this record, when it doubles, and which samples are outliers. The
"tuned oracle" is told the same, and has a Q, a noise of the IMU and factors of that r, channel by
channel, that were fitted beside it on the training flights, by descent from the gated EKF's own
noise: the best constant Q that anything that adapts r could have. "EKF, 31" is the gated EKF with
all of its 31 variances fitted in the same way. The flights are random paths that nobody was trained
or tested on.
Usage: python benchmarks/flight_bound.py [NDR_FOLDER]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sagewing.bench.flight import NOISE, NOISIER, SCENARIOS, build, estimate, make_records, score
from sagewing.cli.train_flight import degradation
from sagewing.cli.weights import flight_weights
from sagewing.filters import OracleEKF
from sagewing.flights.dataset import SIM, load
from sagewing.flights.records import IMU, POSE, Flights
from sagewing.models.rotations import euler_angles
from sagewing.policy import Noise
from sagewing.train import Schedule, train
from sagewing.train.flight import LEARNERS, P0, FlightTraining, draw, estimator
from sagewing.train.losses import pose_loss

SEED, SECONDS = 77, 10.0
FILTERS = ("ekf-gated", "ndr")
FOLLOWING = 0.03  # the d of the positions' r
OUTLIER = 3.5  # standard deviations, robustly estimated
FIT_EPOCHS, FIT_RATE, FIT_STEPS = 400, 0.05, 300
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
    spread, outlier, by_imu = map(np.asarray, pose_noise(records))
    r = louder_of(records, windows, scenario) * spread * np.where(outlier, 25.0, 1.0)
    return np.where(by_imu[:, None], np.asarray(noise.r)[IMU][:, None], r)


def louder_of(records, windows, scenario):
    """The factor of the pose's variance at each step, time first and batch last."""
    louder = np.ones((*np.asarray(records.u).shape[:2], 1))
    if scenario == "disturbance":
        for i, window in enumerate(windows):
            louder[i, window] = NOISIER
    return np.moveaxis(louder, 0, -1)


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


class Told(eqx.Module):
    """What is fitted, in logarithms: Q, the IMU's noise, and factors of the pose's true noise."""

    q: jax.Array
    imu: jax.Array
    scale: jax.Array
    outlier: jax.Array

    def filter(self, model, spread, outlier, by_imu) -> OracleEKF:
        """Batch last; `spread` is the pose's variance, `by_imu` where the IMU is measured."""
        steps, _, batch = spread.shape
        pose = (
            spread * jnp.exp(self.scale)[:, None] * jnp.where(outlier, jnp.exp(self.outlier), 1.0)
        )
        r = jnp.where(by_imu[:, None], jnp.exp(self.imu)[:, None], pose)
        q = jnp.broadcast_to(jnp.exp(self.q)[None, :, None], (steps, self.q.size, batch))
        return OracleEKF(model, q, r)


def pose_noise(records):
    """Of each channel the variance in this record, which samples are outliers; where is no pose."""
    euler = jnp.vectorize(euler_angles, signature="(4)->(3)")(records.quaternion)
    error = records.z - jnp.concatenate([records.position, euler], axis=-1)
    angles = (error[..., 3:] + jnp.pi) % (2 * jnp.pi) - jnp.pi
    error = jnp.concatenate([error[..., :3], angles], axis=-1)
    by_imu = records.u[..., 0] == IMU
    error = jnp.where(by_imu[..., None], jnp.nan, error)
    spread = 1.4826 * jnp.nanmedian(jnp.abs(error), axis=1, keepdims=True)
    outlier = jnp.abs(error) > OUTLIER * spread
    spread = jnp.broadcast_to(jnp.maximum(spread, 1e-6) ** 2, error.shape)
    return [jnp.moveaxis(a, 0, -1) for a in (spread, outlier, by_imu)]


def _setup():
    return FlightTraining(batch=64, degradation=degradation("paper", "paper"))


def fitted(make, build, data):
    """`make()` by descent on windows of the training flights, as the learned filters are."""
    joined = Flights.joined(data.train)
    setup = _setup()

    def loss(given, key):
        drawn = draw(key, joined, setup, FIT_STEPS)
        return pose_loss(build(given, drawn), drawn, P0, joined.dt, 0.0, window="root")

    decay = tuple((round(share * FIT_EPOCHS), 0.3) for share in (0.5, 0.8))
    schedule = Schedule(FIT_EPOCHS, FIT_RATE, clip_norm=1.0, decay=decay)
    made = train(lambda key: make(), loss, schedule, [0])
    first, last = (float(jnp.mean(part)) for part in (made.losses[0, :20], made.losses[0, -20:]))
    print(f"  loss of the first 20 batches {first:.4f}, of the last {last:.4f}")
    return made.models[0]


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
    print("fitting the tuned oracle, then the EKF, 31")
    flown = load(SIM, 0, parts=("train",))
    drawn = draw(jax.random.key(SEED), Flights.joined(flown.train), _setup(), FIT_STEPS)
    scale = jnp.log(noise.r[POSE]) - jnp.log(jnp.mean(pose_noise(drawn)[0], axis=(0, 2)))
    told = fitted(
        lambda: Told(jnp.log(noise.q), jnp.log(noise.r[IMU]), scale, jnp.log(25.0)),
        lambda told, drawn: told.filter(model, *pose_noise(drawn)),
        flown,
    )
    free = fitted(
        lambda: Noise(noise.q, noise.r),
        lambda noise, drawn: build("ekf-gated", model, noise),
        flown,
    )
    for scenario in SCENARIOS:
        records, windows = make_records(scenario, pieces, NOISE["paper"], SEED, 1)
        given = (pieces, records, windows)
        found = {name: errors(build(name, model, learned[name]), *given) for name in FILTERS}
        found["following"] = errors(build("ndr", model, following(noise)), *given)
        r = true_r(records, windows, scenario, noise)
        q = np.broadcast_to(np.asarray(noise.q)[None, :, None], (len(r), noise.q.size, r.shape[-1]))
        scaled = [
            jnp.asarray(np.where(by_pose(records), scale * r, r), jnp.float32) for scale in SCALES
        ]
        found["oracle"] = min(errors(OracleEKF(model, jnp.asarray(q), r), *given) for r in scaled)
        spread, outlier, by_imu = pose_noise(records)
        spread = spread * louder_of(records, windows, scenario)
        found["tuned oracle"] = errors(told.filter(model, spread, outlier, by_imu), *given)
        found["EKF, 31"] = errors(build("ekf-gated", model, free), *given)
        base = found["ekf-gated"][0]
        for name, (position, attitude) in found.items():
            less = 100 * (1 - position / base)
            print(f"{scenario:12s} {name:12s} {position:.3f} ({less:+.0f}%) {attitude:.4f}")


def by_pose(records):
    """Where the pose is what is measured, laid out like r."""
    return np.moveaxis(np.asarray(records.u)[..., :1] != IMU, 0, -1)


if __name__ == "__main__":
    main()
