"""A cascaded flight controller: position, velocity, attitude, rate, motors.

It knows the vehicle's nominal parameters and nothing of its lag, its drag or the wind.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.models.angles import wrap_angle
from sagewing.models.quadrotor import GRAVITY, QDRONE, Q, QuadrotorDynamic, R, V, W
from sagewing.models.rotations import rotation_matrix
from sagewing.shapes import Duration, Scalar, X, real_dtype
from sagewing.sim.paths import Goal

Vector = Float[Array, "3"]
Motors = Float[Array, "4"]

# Gains for a motor lag of about 40 ms.
K_POSITION = 5.0  # 1/s^2
K_VELOCITY = 3.6  # 1/s
K_INTEGRAL = 1.5  # 1/s^3
K_TILT = 7.0  # 1/s
K_YAW = 2.0  # 1/s
K_RATE = (16.0, 16.0, 5.0)  # 1/s
# Limits, so that a step of the set-point is flown and not jumped.
MAX_ERROR = 0.8  # m
MAX_INTEGRATED_ERROR = 0.1  # m
MAX_INTEGRAL = 1.5  # m/s^2
CLIMB = (0.5 * GRAVITY, 1.5 * GRAVITY)  # of the vertical specific force, m/s^2
MAX_TILT = 0.8  # rad
MAX_TILT_RATE = 5.0  # rad/s
MAX_YAW_RATE = 1.2  # rad/s
MAX_TORQUE = (0.3, 0.3, 0.03)  # N m; more yaw would leave too little of the motors


def mixer() -> Float[Array, "4 4"]:
    """The motor commands that make one unit each of thrust and of the three torques."""
    model = QuadrotorDynamic(vehicle=QDRONE)
    thrust, torque = jax.vmap(model.wrench)(jnp.eye(4, dtype=real_dtype()))
    return jnp.linalg.inv(jnp.concatenate([thrust[:, None], torque], axis=1).T)


def control(
    integral: Vector, x: X, goal: Goal, mix: Float[Array, "4 4"], dt: Duration
) -> tuple[Vector, Motors]:
    """The integral of the position's error, and the four motor commands in 0..1."""
    rotation = rotation_matrix(x[Q])
    error = within(goal.place[:3] - x[R], MAX_ERROR)
    integral = integral + dt * K_INTEGRAL * within(error, MAX_INTEGRATED_ERROR)
    integral = jnp.clip(integral, -MAX_INTEGRAL, MAX_INTEGRAL)
    feedback = K_POSITION * error + K_VELOCITY * (goal.velocity[:3] - rotation @ x[V]) + integral
    force = attainable(goal.acceleration[:3] + feedback)
    rate = rate_command(rotation, force, goal)
    J = jnp.asarray(QDRONE.inertia, x.dtype)
    torque = J * jnp.asarray(K_RATE, x.dtype) * (rate - x[W]) + jnp.cross(x[W], J * x[W])
    most = jnp.asarray(MAX_TORQUE, x.dtype)
    thrust = QDRONE.mass * force @ rotation[:, 2]
    return integral, jnp.clip(mix @ jnp.append(thrust, jnp.clip(torque, -most, most)), 0.0, 1.0)


def attainable(acceleration: Vector) -> Vector:
    """The specific force in the world for this acceleration, as far as climb and tilt allow."""
    up = jnp.clip(acceleration[2] + GRAVITY, *CLIMB)
    return jnp.append(within(acceleration[:2], up * jnp.tan(MAX_TILT)), up)


def rate_command(rotation: Float[Array, "3 3"], force: Vector, goal: Goal) -> Vector:
    """The body's rate that turns its z towards the force and its nose towards the goal's yaw."""
    size = jnp.linalg.norm(force)
    b = force / size
    b_dot = (goal.jerk[:3] - b * (b @ goal.jerk[:3])) / size
    tilt = K_TILT * jnp.cross(rotation[:, 2], b) + jnp.cross(b, b_dot)
    yaw_error = wrap_angle(goal.place[3] - jnp.arctan2(rotation[1, 0], rotation[0, 0]))
    yaw_rate = jnp.clip(K_YAW * yaw_error, -MAX_YAW_RATE, MAX_YAW_RATE) + goal.velocity[3]
    in_body = rotation.T @ tilt
    return jnp.append(within(in_body[:2], MAX_TILT_RATE), yaw_rate * rotation[2, 2])


def within(v: Float[Array, "n"], limit: Scalar | float) -> Float[Array, "n"]:
    """v, or the vector of its direction that is as long as the limit."""
    return v * jnp.minimum(1.0, limit / jnp.maximum(jnp.linalg.norm(v), 1e-9))
