"""How much could be won by knowing the pose's noise: the gated EKF, the learned filters, two more.

The oracle is told the true noise of the pose at every step: how large it is in this record, when it
doubles, and which samples are outliers. Its Q, its noise of the IMU and factors of that r, channel
by channel, were fitted beside it on the training flights, by descent from the gated EKF's own
noise: the best constant Q that anything that adapts r could have. "EKF, 31" is the gated EKF with
all of its 31 variances fitted in the same way. The flights are random paths that nobody was trained
or tested on.
Usage: python benchmarks/flight_bound.py [FILTER=FOLDER...]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sagewing.cli.weights import own_weights
from sagewing.filters import OracleEKF
from sagewing.models.rotations import euler_angles
from sagewing.policy import Noise
from sagewing.problems.flight.dataset import SIM, load
from sagewing.problems.flight.records import IMU, POSE, Flights
from sagewing.problems.flight.setup import NOISE, P0, degradation, estimator
from sagewing.problems.weights import flight_weights
from sagewing.studies.flight import NOISIER, SCENARIOS, build, estimate, make_records, score
from sagewing.train import Schedule, train
from sagewing.train.flight import FlightTraining, draw
from sagewing.train.losses import pose_loss

SEED, SECONDS = 77, 10.0
FILTERS = ("ekf-gated", "ndr", "ndr-shared")
OUTLIER = 3.5  # standard deviations, robustly estimated
FIT_EPOCHS, FIT_RATE, FIT_STEPS = 400, 0.05, 300


def flights():
    """Pieces of random paths, as long as the benchmark's circles."""
    data = load(SIM, SEED, parts=("train",))
    pieces = []
    for flight in data.train:
        starts = np.arange(0.0, flight.seconds - SECONDS, SECONDS)
        pieces += [flight.part(start, start + SECONDS + flight.dt / 2) for start in starts]
    return data, pieces


def louder_of(records, windows, scenario):
    """The factor of the pose's variance at each step, time first and batch last."""
    louder = np.ones((*np.asarray(records.u).shape[:2], 1))
    if scenario == "disturbance":
        for i, window in enumerate(windows):
            louder[i, window] = NOISIER
    return np.moveaxis(louder, 0, -1)


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
    learned = flight_weights(FILTERS, SIM, "paper", own_weights(sys.argv[1:]))
    noise, model = learned["ekf-gated"], estimator(data.vehicle)
    print(
        f"{len(pieces)} flights of {SECONDS:g} s; RMSE of position, m (how much of it is less than "
        "the gated EKF's), and of attitude, rad"
    )
    print("fitting the oracle, then the EKF, 31")
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
        spread, outlier, by_imu = pose_noise(records)
        spread = spread * louder_of(records, windows, scenario)
        found["oracle"] = errors(told.filter(model, spread, outlier, by_imu), *given)
        found["EKF, 31"] = errors(build("ekf-gated", model, free), *given)
        base = found["ekf-gated"][0]
        for name, (position, attitude) in found.items():
            less = 100 * (1 - position / base)
            print(f"{scenario:12s} {name:12s} {position:.3f} ({less:+.0f}%) {attitude:.4f}")


if __name__ == "__main__":
    main()
