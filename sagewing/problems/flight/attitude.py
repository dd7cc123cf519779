"""The attitude in the flight filters: an error of three numbers, or the paper's quaternion."""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sagewing.models import ErrorState, Model
from sagewing.models.error_state import N_DX
from sagewing.models.quadrotor import ANGLES, N_X, Quadrotor
from sagewing.models.rotations import from_euler_angles, rotation_vector
from sagewing.policy.filter_settings import StoredPolicy
from sagewing.policy.ndr.policy import Policy
from sagewing.policy.noise import Noise

# "error-state": 18 errors, and the pose's attitude is measured as a rotation vector. "euler", the
# paper's: 19 states with an additive quaternion, and roll, pitch and yaw are measured.
Attitude = Literal["error-state", "euler"]


class Nominal(NamedTuple):
    """P0, Q0 and R0 of the flight filters."""

    P0: Float[np.ndarray, "n n"]
    Q0: Float[np.ndarray, "n"]
    R0: Float[np.ndarray, "modes 6"]


SIZES: dict[Attitude, tuple[int, ...]] = {
    "error-state": (3, 3, 3, 3, 3, 3),
    "euler": (3, 3, 4, 3, 3, 3),
}


def variances(
    attitude: Attitude, kinds: Float[np.ndarray, "6"] | tuple[float, ...]
) -> Float[np.ndarray, "n"]:
    """Those of all states, from one of position, velocity, attitude, rate and both biases.

    The attitude's is that of a small rotation, which is twice the vector part of its quaternion.
    """
    factor = np.array([1.0, 1.0, 0.25 if attitude == "euler" else 1.0, 1.0, 1.0, 1.0])
    return np.repeat(factor * np.asarray(kinds), SIZES[attitude])


# Paper, "Benchmarking", with 0.1 and 0.01 for the quaternion. R0 has a row for the pose and one for
# the IMU; the paper does not state the second.
_P0 = (1e-1, 1.0, 4e-1, 1e-1, 1e-4, 1e-3)
_Q0 = (1e-2, 1e-1, 4e-2, 1e-1, 1e-5, 1e-5)
R0 = np.full((2, 6), 5e-2)
NOMINAL: dict[Attitude, Nominal] = {
    attitude: Nominal(np.diag(variances(attitude, _P0)), variances(attitude, _Q0), R0)
    for attitude in SIZES
}


def with_attitude(model: Quadrotor, attitude: Attitude) -> Model:
    """The model with this kind of attitude."""
    return ErrorState(model=model) if attitude == "error-state" else model


def attitude_of(learned: Any, otherwise: Attitude) -> Attitude:
    """The kind of attitude that a learned part was made for, by its number of states."""
    noise = learned.nominal if isinstance(learned, StoredPolicy) else learned
    size = noise.q.size if isinstance(noise, Noise) else None
    size = learned.arch.n_x if isinstance(learned, Policy) else size
    if size not in (N_DX, N_X):
        return otherwise
    return "error-state" if size == N_DX else "euler"


def measured_as(
    attitude: Attitude, z: Float[Array, "*batch 6"], is_pose: Bool[Array, "*batch"]
) -> Float[Array, "*batch 6"]:
    """Measurements with Euler angles for a filter with this attitude: the same rotations.

    Where it is no pose that is measured, z does not change.
    """
    if attitude == "euler":
        return z
    turn = jnp.vectorize(lambda a: rotation_vector(from_euler_angles(a)), signature="(3)->(3)")
    angles = jnp.where(is_pose[..., None], turn(z[..., ANGLES]), z[..., ANGLES])
    return jnp.concatenate([z[..., :3], angles], axis=-1)
