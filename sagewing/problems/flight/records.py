"""Flights as records for a filter: its start, inputs and measurements, and the truth."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.logs.flight import Flight
from sagewing.models.quadrotor import N_X, Q, R
from sagewing.models.rotations import euler_angles
from sagewing.shapes import Duration, X, real_dtype
from sagewing.sim.degradation import Degradation

POSE, IMU = 0, 1  # the modes of the estimator's model: what is measured
WithoutPose = Literal["dynamic", "drag"]  # the model where no pose is measured
SAME_RATE = 1e-3  # relative difference of two flights' dt


class Rows(NamedTuple):
    """Some rows of a flight: IMU, motor commands, and the true pose."""

    imu: Float[Array, "T 6"]
    motors: Float[Array, "T 4"]
    position: Float[Array, "T 3"]
    quaternion: Float[Array, "T 4"]


class FlightRecord(NamedTuple):
    """A filter's start, measurements and inputs, and the truth, from the step after x0."""

    x0: X
    z: Float[Array, "T 6"]
    u: Float[Array, "T 11"]
    position: Float[Array, "T 3"]
    quaternion: Float[Array, "T 4"]


class Flights(NamedTuple):
    """Flights of one rate, end to end."""

    rows: Rows
    first: Int[Array, "flights"]
    length: Int[Array, "flights"]
    dt: float

    @classmethod
    def joined(cls, flights: Sequence[Flight]) -> "Flights":
        """Put flights end to end, so that windows can be cut from them in a compiled program."""
        if not flights:
            raise InputError("There are no flights to train on.")
        dt = flights[0].dt
        for flight in flights:
            if abs(flight.dt / dt - 1.0) > SAME_RATE:
                raise InputError(
                    f"{flight.name} has {1 / flight.dt:.1f} rows a second and {flights[0].name} "
                    f"{1 / dt:.1f}; train on flights of one rate."
                )
        parts = [rows_of(flight) for flight in flights]
        length = np.array([len(p.imu) for p in parts])
        return cls(
            Rows(*(jnp.concatenate(column) for column in zip(*parts, strict=True))),
            jnp.asarray(np.cumsum(length) - length),
            jnp.asarray(length),
            dt,
        )

    def window(self, key: PRNGKeyArray, rows: int) -> Rows:
        """A random window of `rows` rows; a flight is chosen in proportion to its length."""
        k_flight, k_first = jax.random.split(key)
        share = self.length / jnp.sum(self.length)
        which = jax.random.choice(k_flight, self.length.size, p=share)
        offset = jax.random.randint(k_first, (), 0, self.length[which] - rows + 1)
        first = self.first[which] + offset
        return Rows(*(jax.lax.dynamic_slice_in_dim(column, first, rows) for column in self.rows))


def rows_of(flight: Flight) -> Rows:
    """All rows; the motors of a flight without four motor commands are zero."""
    motors = np.zeros((len(flight.t), 4)) if flight.motors is None else flight.motors
    columns = (flight.imu, motors, flight.position, flight.quaternion)
    return Rows(*(jnp.asarray(column, real_dtype()) for column in columns))


def start(rows: Rows) -> X:
    """The paper's start: true position and attitude, and zero for the other states."""
    x = jnp.zeros(N_X, rows.imu.dtype)
    return x.at[R].set(rows.position[0]).at[Q].set(rows.quaternion[0])


def record(
    key: PRNGKeyArray,
    rows: Rows,
    mode: Float[Array, "T"],
    pose_factor: Float[Array, "T"] | float,
    degradation: Degradation,
    dt: Duration,
) -> FlightRecord:
    """The rows after the first, degraded; `pose_factor` multiplies the variance of the pose noise.

    Where the mode is IMU, z is the IMU and not the pose.
    """
    k_pose, k_imu = jax.random.split(key)
    x0, rows = start(rows), Rows(*(column[1:] for column in rows))
    pose = jnp.concatenate([rows.position, jax.vmap(euler_angles)(rows.quaternion)], axis=1)
    noise = degradation.pose(k_pose, pose) - pose
    pose = pose + jnp.sqrt(jnp.broadcast_to(pose_factor, mode.shape))[:, None] * noise
    imu = degradation.imu(k_imu, rows.imu, dt)
    z = jnp.where(mode[:, None] == IMU, imu, pose)
    u = jnp.concatenate(
        [mode[:, None], imu, rows.motors], axis=1
    )  # in the order of the estimator's inputs
    return FlightRecord(x0, z, u, rows.position, rows.quaternion)
