"""Unit quaternions (w, x, y, z), body to world: rotations, Euler angles, rotation vectors."""

import jax.numpy as jnp
from jaxtyping import Array, Float

Quaternion = Float[Array, "4"]
Vector = Float[Array, "3"]

# The sine of the pitch is kept this far from 1: at 90 degrees roll and yaw are not defined.
GIMBAL_GUARD = 1e-6
# Below this square the same, where quotients would lose digits.
LESS_SMALL_SQUARE = 1e-2
# A shorter quaternion is taken for zero.
SHORTEST = 1e-6
# Below this square of an angle, in rad^2, series replace quotients that would be 0/0.
SMALL_SQUARE = 1e-6


def rotation_matrix(q: Quaternion) -> Float[Array, "3 3"]:
    """R, which takes a vector from body to world (paper, "IMU-Driven Kinematics")."""
    w, x, y, z = q
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )


def rotated_by_quaternion(q: Quaternion, v: Vector) -> Float[Array, "3 4"]:
    """The derivative of R(q) v with respect to q."""
    w, x, y, z = q
    a, b, c = v
    return 2 * jnp.stack(
        [
            jnp.stack(
                [y * c - z * b, y * b + z * c, x * b + w * c - 2 * y * a, x * c - w * b - 2 * z * a]
            ),
            jnp.stack(
                [z * a - x * c, y * a - w * c - 2 * x * b, x * a + z * c, w * a + y * c - 2 * z * b]
            ),
            jnp.stack(
                [x * b - y * a, z * a + w * b - 2 * x * c, z * b - w * a - 2 * y * c, x * a + y * b]
            ),
        ]
    )


def unrotated_by_quaternion(q: Quaternion, v: Vector) -> Float[Array, "3 4"]:
    """The derivative of R(q)^T v with respect to q; R(q)^T is the rotation of the conjugate."""
    sign = jnp.array([1.0, -1.0, -1.0, -1.0], q.dtype)
    return rotated_by_quaternion(sign * q, v) * sign


def cross_matrix(v: Vector) -> Float[Array, "3 3"]:
    """[v]x, with [v]x u = v x u."""
    x, y, z = v
    zero = jnp.zeros_like(x)
    return jnp.stack([jnp.stack([zero, -z, y]), jnp.stack([z, zero, -x]), jnp.stack([-y, x, zero])])


def rate_matrix(omega: Vector) -> Float[Array, "4 4"]:
    """Omega, with dq/dt = 1/2 q * (0, omega) = 1/2 Omega q."""
    x, y, z = omega
    zero = jnp.zeros_like(x)
    return jnp.stack(
        [
            jnp.stack([zero, -x, -y, -z]),
            jnp.stack([x, zero, z, -y]),
            jnp.stack([y, -z, zero, x]),
            jnp.stack([z, y, -x, zero]),
        ]
    )


def attitude_matrix(q: Quaternion) -> Float[Array, "4 3"]:
    """Xi, with dq/dt = 1/2 Xi omega."""
    w, x, y, z = q
    return jnp.stack(
        [
            jnp.stack([-x, -y, -z]),
            jnp.stack([w, -z, y]),
            jnp.stack([z, w, -x]),
            jnp.stack([-y, x, w]),
        ]
    )


def euler_angles(q: Quaternion) -> Vector:
    """Roll, pitch and yaw of the 3-2-1 sequence."""
    w, x, y, z = q
    sine = jnp.clip(2 * (w * y - z * x), -1 + GIMBAL_GUARD, 1 - GIMBAL_GUARD)
    return jnp.stack(
        [
            jnp.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
            jnp.arcsin(sine),
            jnp.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
        ]
    )


def euler_by_quaternion(q: Quaternion) -> Float[Array, "3 4"]:
    """The derivative of the Euler angles with respect to q."""
    w, x, y, z = q
    zero = jnp.zeros_like(w)

    def of_arctan2(a, da, b, db):
        return (b * jnp.stack(da) - a * jnp.stack(db)) / (a * a + b * b)

    roll = of_arctan2(
        2 * (w * x + y * z),
        [2 * x, 2 * w, 2 * z, 2 * y],
        1 - 2 * (x * x + y * y),
        [zero, -4 * x, -4 * y, zero],
    )
    sine = 2 * (w * y - z * x)
    within = jnp.abs(sine) < 1 - GIMBAL_GUARD
    cosine = jnp.sqrt(1 - jnp.where(within, sine, 0.0) ** 2)
    pitch = jnp.where(within, jnp.stack([2 * y, -2 * z, 2 * w, -2 * x]) / cosine, 0.0)
    yaw = of_arctan2(
        2 * (w * z + x * y),
        [2 * z, 2 * y, 2 * x, 2 * w],
        1 - 2 * (y * y + z * z),
        [zero, zero, -4 * y, -4 * z],
    )
    return jnp.stack([roll, pitch, yaw])


def from_euler_angles(angles: Vector) -> Quaternion:
    """The attitude with this roll, pitch and yaw."""
    cr, cp, cy = jnp.cos(0.5 * angles)
    sr, sp, sy = jnp.sin(0.5 * angles)
    return jnp.stack(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )


def unit(q: Quaternion) -> Quaternion:
    """q at length 1; the identity for a q of length 0."""
    squared = jnp.sum(q * q)
    long = squared > SHORTEST**2
    none = jnp.array([1.0, 0.0, 0.0, 0.0], q.dtype)
    return jnp.where(long, q / jnp.sqrt(jnp.where(long, squared, 1.0)), none)


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """The rotation `b` followed, in the frame outside, by `a`."""
    w, x, y, z = a
    c, d, e, f = b
    return jnp.stack(
        [
            c * w - (d * x + e * y + f * z),
            c * x + (d * w + f * y - e * z),
            c * y + (e * w + d * z - f * x),
            c * z + (f * w + e * x - d * y),
        ]
    )


def conjugate(q: Quaternion) -> Quaternion:
    """The inverse rotation."""
    return jnp.array([1.0, -1.0, -1.0, -1.0], q.dtype) * q


def from_rotation_vector(v: Vector) -> Quaternion:
    """The rotation about the axis `v` by its length in rad."""
    square = jnp.sum(v * v)
    small = square < SMALL_SQUARE
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    half_sinc = jnp.where(small, 0.5 - square / 48.0, jnp.sin(0.5 * angle) / angle)
    cosine = jnp.where(small, 1.0 - square / 8.0 + square**2 / 384.0, jnp.cos(0.5 * angle))
    return jnp.concatenate([cosine[None], half_sinc * v])


def rotation_vector(q: Quaternion) -> Vector:
    """The axis of a unit quaternion times its angle in rad, at most pi; q and -q are the same."""
    positive = q[0] >= 0.0
    w = jnp.where(positive, q[0], -q[0])
    square = jnp.sum(q[1:] * q[1:])
    small = square < SMALL_SQUARE
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    # 2 atan(s/w) / s for a small s, where w is near 1
    safe_w = jnp.where(small, w, 1.0)
    t = square / safe_w**2
    series = 2.0 * (1.0 - t / 3.0 + t**2 / 5.0) / safe_w
    scale = jnp.where(small, series, 2.0 * jnp.arctan2(sine, w) / sine)
    return jnp.where(positive, scale, -scale) * q[1:]


def right_jacobian(v: Vector) -> Float[Array, "3 3"]:
    """The derivative by e at 0 of the rotation vector from the rotation by v to that by v + e."""
    square = jnp.sum(v * v)
    small = square < LESS_SMALL_SQUARE
    safe = jnp.where(small, 1.0, square)
    angle = jnp.sqrt(safe)
    a_series = 0.5 - square / 24.0 + square**2 / 720.0 - square**3 / 40320.0
    b_series = 1.0 / 6.0 - square / 120.0 + square**2 / 5040.0 - square**3 / 362880.0
    a = jnp.where(small, a_series, 2.0 * jnp.sin(0.5 * angle) ** 2 / safe)
    b = jnp.where(small, b_series, (1.0 - jnp.sin(angle) / angle) / safe)
    eye = jnp.eye(3, dtype=v.dtype)
    return (1.0 - b * square) * eye - a * cross_matrix(v) + b * v[:, None] * v[None]
