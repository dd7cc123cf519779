"""The covariance of the estimated pose, and NEES: whether the errors are consistent with it."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.kernels import cholesky, diagonal, matmul, transpose, whiten
from sagewing.filters.lifting import per_sample
from sagewing.models.error_state import N_DX, TURN
from sagewing.models.quadrotor import Q, R
from sagewing.models.rotations import attitude_matrix
from sagewing.shapes import Covariances, States, Values


def pose_covariance(x: States, P: Covariances) -> Float[Array, "6 6 *batch"]:
    """The covariance of position and attitude, the attitude as a small rotation in the body: an
    error of the state, or 2 Xi^T dq of a quaternion with additive errors."""
    if P.shape[0] == N_DX:
        own = jnp.array([*range(R.start, R.stop), *range(TURN.start, TURN.stop)])
        return P[own][:, own]
    Xi = 2.0 * per_sample(attitude_matrix, x[Q])
    eye = jnp.broadcast_to(jnp.eye(3)[..., None], (3, 3, x.shape[-1]))
    top = jnp.concatenate([eye, jnp.zeros((3, 4, x.shape[-1]))], axis=1)
    bottom = jnp.concatenate([jnp.zeros((3, 3, x.shape[-1])), transpose(Xi)], axis=1)
    J = jnp.concatenate([top, bottom]).astype(x.dtype)
    pose = jnp.array([*range(R.start, R.stop), *range(Q.start, Q.stop)])
    return matmul(matmul(J, P[pose][:, pose]), transpose(J))


def pose_std(S: Float[Array, "6 6 *batch"]) -> Float[Array, "6 *batch"]:
    """Standard deviations of a pose; a variance that rounding made negative counts as zero."""
    return jnp.sqrt(jnp.maximum(diagonal(S), 0.0))


def nees(
    x: States,
    S: Float[Array, "6 6 *batch"],
    position: Float[Array, "3 *batch"],
    quaternion: Float[Array, "4 *batch"],
) -> Values:
    """The normalised estimation error squared of a pose with covariance S: 6 degrees of freedom.

    The attitude's error is the small rotation between truth and estimate, 2 Xi^T (q_true - q).
    """
    aligned = jnp.where(jnp.sum(x[Q] * quaternion, axis=0) < 0, -quaternion, quaternion)
    Xi = 2.0 * per_sample(attitude_matrix, x[Q])
    turn = sum(Xi[i] * (aligned - x[Q])[i] for i in range(4))
    error = jnp.concatenate([position - x[R], turn])
    return jnp.sum(whiten(cholesky(S), error) ** 2, axis=0)
