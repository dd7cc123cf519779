"""A cascaded flight controller: position, velocity, attitude, rate, motors.

It uses the vehicle's nominal parameters, and does not know its motor lag, its drag or the wind.
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
# Limits that let the vehicle follow a step of the set-point.
MAX_ERROR = 0.8  # m
MAX_INTEGRATED_ERROR = 0.1  # m
MAX_INTEGRAL = 1.5  # m/s^2
CLIMB = (0.5 * GRAVITY, 1.5 * GRAVITY)  # of the vertical specific force, m/s^2
MAX_TILT = 0.8  # rad
MAX_TILT_RATE = 5.0  # rad/s
MAX_YAW_RATE = 1.2  # rad/s
MAX_TORQUE = (0.3, 0.3, 0.03)  # N m; more yaw torque would leave too little thrust


def mixer() -> Float[Array, "4 4"]:
    """The inverse of `QuadrotorDynamic.wrench`: motor commands from thrust and three torques."""
    model = QuadrotorDynamic(vehicle=QDRONE)
    thrust, torque = jax.vmap(model.wrench)(jnp.eye(4, dtype=real_dtype()))
    return jnp.linalg.inv(jnp.concatenate([thrust[:, None], torque], axis=1).T)


def control(
    integral: Vector, x: X, goal: Goal, mix: Float[Array, "4 4"], dt: Duration
) -> tuple[Vector, Motors]:
    """The next integral of the position error, and the four motor commands in 0..1."""
    rotation = rotation_matrix(x[Q])
    error = limit_length(goal.place[:3] - x[R], MAX_ERROR)
    integral = integral + dt * K_INTEGRAL * limit_length(error, MAX_INTEGRATED_ERROR)
    integral = jnp.clip(integral, -MAX_INTEGRAL, MAX_INTEGRAL)
    feedback = K_POSITION * error + K_VELOCITY * (goal.velocity[:3] - rotation @ x[V]) + integral
    force = limit_force(goal.acceleration[:3] + feedback)
    rate = rate_command(rotation, force, goal)
    J = jnp.asarray(QDRONE.inertia, x.dtype)
    torque = J * jnp.asarray(K_RATE, x.dtype) * (rate - x[W]) + jnp.cross(x[W], J * x[W])
    limit = jnp.asarray(MAX_TORQUE, x.dtype)
    thrust = QDRONE.mass * force @ rotation[:, 2]
    return integral, jnp.clip(mix @ jnp.append(thrust, jnp.clip(torque, -limit, limit)), 0.0, 1.0)


def limit_force(acceleration: Vector) -> Vector:
    """The specific force in the world for this acceleration, limited in climb and tilt."""
    up = jnp.clip(acceleration[2] + GRAVITY, *CLIMB)
    return jnp.append(limit_length(acceleration[:2], up * jnp.tan(MAX_TILT)), up)


def rate_command(rotation: Float[Array, "3 3"], force: Vector, goal: Goal) -> Vector:
    """The angular rate that turns z towards the force and the heading towards the goal's yaw."""
    length = jnp.linalg.norm(force)
    b = force / length
    b_dot = (goal.jerk[:3] - b * (b @ goal.jerk[:3])) / length
    tilt = K_TILT * jnp.cross(rotation[:, 2], b) + jnp.cross(b, b_dot)
    yaw_error = wrap_angle(goal.place[3] - jnp.arctan2(rotation[1, 0], rotation[0, 0]))
    yaw_rate = jnp.clip(K_YAW * yaw_error, -MAX_YAW_RATE, MAX_YAW_RATE) + goal.velocity[3]
    in_body = rotation.T @ tilt
    return jnp.append(limit_length(in_body[:2], MAX_TILT_RATE), yaw_rate * rotation[2, 2])


def limit_length(v: Float[Array, "n"], limit: Scalar | float) -> Float[Array, "n"]:
    """v, shortened to the limit if it is longer."""
    return v * jnp.minimum(1.0, limit / jnp.maximum(jnp.linalg.norm(v), 1e-9))
