"""The quadrotor with an error state: 19 states, and 18 errors without a singularity."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.models.manifolds import Manifold, ManifoldModel, Product, Rotation, Vector
from sagewing.models.quadrotor import ANGLES, N_X, Q, Quadrotor, QuadrotorKinematic, R
from sagewing.models.rotations import (
    attitude_matrix,
    conjugate,
    from_rotation_vector,
    product,
    rotation_vector,
    unit,
)
from sagewing.shapes import XX, ZX, Duration, Input, X, Z

# The errors of the attitude among the 18, a rotation vector in the body, in rad.
TURN = slice(6, 9)
N_DX = N_X - 1


class ErrorState(ManifoldModel):
    """A quadrotor's model whose attitude has an error of three numbers, a rotation vector.

    The quaternion stays at length 1, P is regular, and no attitude is singular. Where `model`
    measures Euler angles, this measures the attitude as a rotation vector (`rotation_vector` of a
    quaternion): all else is as in `model`.

    Example: `sw.EKF(ErrorState(QuadrotorKinematic()), Q0, R0)`, with 18 variances in Q0
    """

    model: Quadrotor
    space: Manifold = Product(Vector(Q.start), Rotation(), Vector(N_X - Q.stop))

    @property
    def constants(self) -> int:
        """Those of the model."""
        return self.model.constants

    @property
    def has_difference(self) -> bool:
        """Whether an attitude is measured."""
        return isinstance(self.model, QuadrotorKinematic)

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """That of the model, with the quaternion at length 1."""
        moved = self.model.transition(x, u, dt)
        return moved.at[Q].set(unit(moved[Q]))

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """The model's, for errors before and after."""
        F = _by_turn(self.model.transition_jacobian(x, u, dt), x[Q])
        q = self.model.transition(x, u, dt)[Q]
        length = jnp.sqrt(jnp.sum(q * q))
        turned = 2.0 / length**2 * attitude_matrix(q).T @ F[Q]
        return jnp.concatenate([F[: Q.start], turned, F[Q.stop :]])

    def observe(self, x: X, u: Input) -> Z:
        """Position and attitude, or what else the model measures."""
        if not self.has_difference:
            return self.model.observe(x, u)
        return jnp.concatenate([x[R], rotation_vector(x[Q])])

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """The errors themselves, or the model's H for errors."""
        if not self.has_difference:
            given = self.model.observe_jacobian(x, u)
            return None if given is None else _by_turn(given, x[Q])
        H = jnp.zeros((6, N_DX), x.dtype)
        H = H.at[:3, R].set(jnp.eye(3, dtype=x.dtype))
        return H.at[ANGLES, TURN].set(jnp.eye(3, dtype=x.dtype))

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference of positions, and the rotation vector between the attitudes."""
        nu = z - z_hat
        if not self.has_difference:
            return nu
        measured, expected = (from_rotation_vector(a[ANGLES]) for a in (z, z_hat))
        return nu.at[ANGLES].set(rotation_vector(product(conjugate(expected), measured)))


def _by_turn(A: Float[Array, "n 19"], q: Float[Array, "4"]) -> Float[Array, "n 18"]:
    """A derivative by the 19 states as one by the 18 errors: dq = 1/2 Xi times the rotation."""
    return jnp.concatenate(
        [A[:, : Q.start], A[:, Q] @ (0.5 * attitude_matrix(q)), A[:, Q.stop :]], 1
    )
