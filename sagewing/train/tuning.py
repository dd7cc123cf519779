"""Constant noise for the flight estimator, by coordinate search over ten variances.

Gradient descent on all 31 variances fails where outliers are frequent: a gate that rejects every
measurement makes the loss discontinuous. Ten numbers, one for each kind of state and of sensor, can
be searched instead: up and down by factors of 100, 10 and 3, as long as the loss falls.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sagewing import catalogue
from sagewing.logs import Flight
from sagewing.policy import Noise
from sagewing.problems.flight.attitude import NOMINAL, SIZES, Attitude
from sagewing.problems.flight.records import Flights
from sagewing.problems.flight.setup import estimator
from sagewing.shapes import Scalar
from sagewing.train.flight import FlightTraining, check_flights, draw
from sagewing.train.losses import pose_loss

# Decimal logarithms: position, velocity, attitude, rate, biases; pose and IMU, by three channels
START = (-6.0, -5.0, -5.0, -1.0, -5.5, -9.0, 0.0, -1.5, 1.0, -1.0)
STRIDES = (2.0, 1.0, 0.5)
ROUNDS = 2
MIN_DECREASE = 1e-7  # of the loss; a smaller one does not count


class Tuned(NamedTuple):
    """The tuned noise, and the loss after every round."""

    noise: Noise
    losses: list[float]


def search(
    loss: Callable[[np.ndarray], float],
    start: Sequence[float],
    report: Callable[[float], None] = lambda loss: None,
) -> tuple[np.ndarray, list[float]]:
    """Coordinate descent: each number goes up or down by a stride while the loss falls."""
    best, losses = np.asarray(start, float), []
    value = loss(best)
    for stride in STRIDES:
        for _ in range(ROUNDS):
            before = value
            for i in range(best.size):
                for step in (stride, -stride):
                    while (lower := loss(moved := _moved(best, i, step))) < value - MIN_DECREASE:
                        best, value = moved, lower
            losses.append(value)
            report(value)
            if value == before:
                break
    return best, losses


def _moved(point: np.ndarray, i: int, step: float) -> np.ndarray:
    moved = point.copy()
    moved[i] += step
    return moved


def expand(logs: Float[np.ndarray, "10"], attitude: Attitude) -> Noise:
    """The variances of all states and channels from ten decimal logarithms."""
    q, r = np.repeat(logs[:6], SIZES[attitude]), np.repeat(logs[6:], 3).reshape(2, 6)
    return Noise(10.0**q, 10.0**r)


def tune_flight(
    setup: FlightTraining,
    flights: Sequence[Flight],
    seed: int,
    report: Callable[[float], None] = lambda loss: None,
) -> Tuned:
    """The noise with an EKF's smallest loss on `setup.batch` windows of `setup.longest` steps."""
    check_flights(setup, flights)
    joined = Flights.joined(flights)
    model = estimator(setup.vehicle, setup.without_pose, setup.attitude)
    P0, Q0, R0 = NOMINAL[setup.attitude]
    windows = jax.jit(lambda key: draw(key, joined, setup, setup.longest))(jax.random.key(seed))

    @jax.jit
    def compiled(noise: Noise) -> Scalar:
        filt = catalogue.build(setup.filter, model, Q0, R0, noise)
        return pose_loss(filt, windows, P0, joined.dt, 0.0, window=setup.window_loss)

    def loss(logs: np.ndarray) -> float:
        value = float(compiled(expand(logs, setup.attitude)))
        return value if np.isfinite(value) else float("inf")

    best, losses = search(loss, START, report)
    return Tuned(jax.tree.map(jnp.asarray, expand(best, setup.attitude)), losses)
