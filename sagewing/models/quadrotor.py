"""A quadrotor with 19 states, driven by its IMU or by its motors (paper, "UAV State Estimation").

State: position in the world r, velocity in the body v, attitude q (body to world), angular rate w,
biases of the accelerometer b_a and of the gyroscope b_g. Axes point forward, left and up.
"""

from abc import abstractmethod
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.models.angles import wrap_angle
from sagewing.models.continuous import ContinuousModel
from sagewing.models.rotations import (
    attitude_matrix,
    cross_matrix,
    euler_angles,
    euler_by_quaternion,
    rate_matrix,
    rotated_by_quaternion,
    rotation_matrix,
    unit,
    unrotated_by_quaternion,
)
from sagewing.shapes import XX, ZX, Duration, Input, X, Z

N_X, N_Z = 19, 6
GRAVITY = 9.81  # m/s^2; paper, Table 5
R, V, Q, W, B_A, B_G = (
    slice(a, b) for a, b in ((0, 3), (3, 6), (6, 10), (10, 13), (13, 16), (16, 19))
)
ANGLES = slice(3, 6)

Vector = Float[Array, "3"]


class Vehicle(NamedTuple):
    """The parameters of a quadrotor, in SI units."""

    mass: float
    inertia: tuple[float, float, float]
    roll_span: float  # between motors, across
    pitch_span: float  # between motors, along
    thrust: float  # of one motor at full command, N
    torque: float  # of one motor at full command, N m
    drag: tuple[float, float, float] = (0.001, 0.001, 0.001)  # specific force for each m/s


# Paper, Table 5.
QDRONE = Vehicle(1.121, (1.00e-2, 8.20e-3, 1.48e-2), 0.2136, 0.1758, 5.11, 0.0487)
# Crazyflie 2.1 with markers: 30 g and the yaw inertia are assumed, the rest is identified from the
# flights of NanoBench that are not circles (`problems/flight/identify.py`).
CRAZYFLIE = Vehicle(
    mass=0.030,
    inertia=(1.417e-5, 1.340e-5, 2.173e-5),
    roll_span=0.065,
    pitch_span=0.065,
    thrust=0.1058,
    torque=8.37e-4,
    drag=(0.386, 0.394, 0.035),
)


class Quadrotor(ContinuousModel):
    """The common part of the models: the state, its integration and its manifold."""

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """One step of the midpoint rule; at 100 Hz the error of Euler's in v is too large."""
        return x + dt * self.drift(x + 0.5 * dt * self.drift(x, u), u)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """The derivative of the midpoint rule, or I + dt A."""
        eye = jnp.eye(N_X, dtype=x.dtype)
        A = self.drift_jacobian(x, u)
        if self.jacobian == "euler":
            return eye + dt * A
        middle = x + 0.5 * dt * self.drift(x, u)
        return eye + dt * self.drift_jacobian(middle, u) @ (eye + 0.5 * dt * A)

    def normalize(self, x: X) -> X:
        """The quaternion at length 1."""
        return x.at[Q].set(unit(x[Q]))

    @property
    def curved(self) -> slice:
        """The quaternion."""
        return Q

    @abstractmethod
    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""

    def _moving(
        self, x: X, force: Vector, rate: Vector
    ) -> tuple[Vector, Vector, Float[Array, "4"]]:
        """dr/dt, dv/dt and dq/dt under a specific force and an angular rate of the body."""
        rotation = rotation_matrix(x[Q])
        g = jnp.array([0.0, 0.0, -GRAVITY], x.dtype)
        v_dot = force + rotation.T @ g - jnp.cross(rate, x[V])
        return rotation @ x[V], v_dot, 0.5 * rate_matrix(rate) @ x[Q]

    def _moving_jacobian(self, x: X, rate: Vector, by_rate: slice, sign: float) -> XX:
        """A of `_moving`, with the rate `sign` times the states `by_rate`, plus inputs."""
        g = jnp.array([0.0, 0.0, -GRAVITY], x.dtype)
        A = jnp.zeros((N_X, N_X), x.dtype)
        A = A.at[R, V].set(rotation_matrix(x[Q]))
        A = A.at[R, Q].set(rotated_by_quaternion(x[Q], x[V]))
        A = A.at[V, V].set(-cross_matrix(rate))
        A = A.at[V, Q].set(unrotated_by_quaternion(x[Q], g))
        A = A.at[V, by_rate].set(sign * cross_matrix(x[V]))
        A = A.at[Q, Q].set(0.5 * rate_matrix(rate))
        return A.at[Q, by_rate].set(sign * 0.5 * attitude_matrix(x[Q]))


def _given(u: Input, size: int, what: str) -> Float[Array, "n_u"]:
    if u is None or u.shape != (size,):
        got = "none" if u is None else f"shape {u.shape}"
        raise InputError(f"u must be {what}, {size} numbers for each step; got {got}.")
    return u


class QuadrotorKinematic(Quadrotor):
    """Driven by the IMU, u = [accelerometer, gyroscope]; measured are position and Euler angles."""

    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    @property
    def constants(self) -> int:
        """The angular rate and the biases."""
        return N_X - W.start

    def drift(self, x: X, u: Input) -> X:
        """Strapdown kinematics; the angular rate in the state is constant."""
        u = _given(u, 6, "accelerometer and gyroscope")
        r_dot, v_dot, q_dot = self._moving(x, u[:3] - x[B_A], u[3:] - x[B_G])
        return jnp.concatenate([r_dot, v_dot, q_dot, jnp.zeros(9, x.dtype)])

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        u = _given(u, 6, "accelerometer and gyroscope")
        A = self._moving_jacobian(x, u[3:] - x[B_G], B_G, -1.0)
        return A.at[V, B_A].set(-jnp.eye(3, dtype=x.dtype))

    def observe(self, x: X, u: Input) -> Z:
        """Position, roll, pitch, yaw."""
        return jnp.concatenate([x[R], euler_angles(x[Q])])

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H in closed form."""
        H = jnp.zeros((N_Z, N_X), x.dtype)
        H = H.at[:3, R].set(jnp.eye(3, dtype=x.dtype))
        return H.at[ANGLES, Q].set(euler_by_quaternion(x[Q]))

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference, with the angles wrapped to [-pi, pi)."""
        nu = z - z_hat
        return nu.at[ANGLES].set(wrap_angle(nu[ANGLES]))


class QuadrotorDynamic(Quadrotor):
    """Driven by four motor commands u in [0, 1]; measured are accelerometer and gyroscope."""

    vehicle: Vehicle = QDRONE
    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    @property
    def constants(self) -> int:
        """The biases."""
        return N_X - B_A.start

    def wrench(self, u: Input) -> tuple[Float[Array, ""], Vector]:
        """The thrust and the torques of the four motors."""
        u = _given(u, 4, "motor commands")
        c = self.vehicle
        roll, pitch = c.thrust * c.roll_span / 2, c.thrust * c.pitch_span / 2
        torque = jnp.stack(
            [
                roll * (-u[0] - u[1] + u[2] + u[3]),
                pitch * (u[0] - u[1] + u[2] - u[3]),
                c.torque * (u[0] - u[1] - u[2] + u[3]),
            ]
        )
        return c.thrust * jnp.sum(u), torque

    def specific_force(self, x: X, u: Input) -> Vector:
        """Thrust along the body's z, and drag."""
        thrust, _ = self.wrench(u)
        up = jnp.array([0.0, 0.0, 1.0], x.dtype)
        return thrust / self.vehicle.mass * up - self._drag(x) * x[V]

    def _drag(self, x: X) -> Vector:
        return jnp.asarray(self.vehicle.drag, x.dtype)

    def drift(self, x: X, u: Input) -> X:
        """The equations of the rigid body."""
        J = jnp.asarray(self.vehicle.inertia, x.dtype)
        r_dot, v_dot, q_dot = self._moving(x, self.specific_force(x, u), x[W])
        w_dot = (self.wrench(u)[1] - jnp.cross(x[W], J * x[W])) / J
        return jnp.concatenate([r_dot, v_dot, q_dot, w_dot, jnp.zeros(6, x.dtype)])

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        J = jnp.asarray(self.vehicle.inertia, x.dtype)
        A = self._moving_jacobian(x, x[W], W, 1.0)
        A = A.at[V, V].add(-jnp.diag(self._drag(x)))
        gyroscopic = cross_matrix(J * x[W]) - cross_matrix(x[W]) * J
        return A.at[W, W].set(gyroscopic / J[:, None])

    def observe(self, x: X, u: Input) -> Z:
        """What the IMU reads: specific force and rate, each with its bias."""
        return jnp.concatenate([self.specific_force(x, u) + x[B_A], x[W] + x[B_G]])

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H is constant."""
        eye = jnp.eye(3, dtype=x.dtype)
        H = jnp.zeros((N_Z, N_X), x.dtype)
        H = H.at[:3, V].set(-jnp.diag(self._drag(x))).at[:3, B_A].set(eye)
        return H.at[3:, W].set(eye).at[3:, B_G].set(eye)


class QuadrotorDrag(Quadrotor):
    """Driven by the IMU alone; the accelerometer measures the airspeed by the rotors' drag.

    Rotors push along the body's z axis only: the accelerometer's x and y are drag, and measure v.
    u = [accelerometer, gyroscope] drives z and the attitude. The other measured channels are the
    inputs themselves and carry no information.
    """

    drag: tuple[float, float] = (0.001, 0.001)  # specific force for each m/s, forward and left
    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    @property
    def constants(self) -> int:
        """The angular rate and the biases."""
        return N_X - W.start

    def _drag(self, x: X) -> Float[Array, "2"]:
        return jnp.asarray(self.drag, x.dtype)

    def drift(self, x: X, u: Input) -> X:
        """Strapdown kinematics with drag in place of the accelerometer's x and y."""
        u = _given(u, 6, "accelerometer and gyroscope")
        force = jnp.append(-self._drag(x) * x[V][:2], u[2] - x[B_A][2])
        r_dot, v_dot, q_dot = self._moving(x, force, u[3:] - x[B_G])
        return jnp.concatenate([r_dot, v_dot, q_dot, jnp.zeros(9, x.dtype)])

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        u = _given(u, 6, "accelerometer and gyroscope")
        A = self._moving_jacobian(x, u[3:] - x[B_G], B_G, -1.0)
        drag = jnp.append(self._drag(x), 0.0)
        return A.at[V, V].add(-jnp.diag(drag)).at[V.stop - 1, B_A.stop - 1].set(-1.0)

    def observe(self, x: X, u: Input) -> Z:
        """The accelerometer's x and y by the drag, then the other inputs."""
        u = _given(u, 6, "accelerometer and gyroscope")
        return jnp.concatenate([-self._drag(x) * x[V][:2] + x[B_A][:2], u[2:]])

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H is constant."""
        H = jnp.zeros((N_Z, N_X), x.dtype)
        H = H.at[:2, V.start : V.start + 2].set(-jnp.diag(self._drag(x)))
        return H.at[:2, B_A.start : B_A.start + 2].set(jnp.eye(2, dtype=x.dtype))
