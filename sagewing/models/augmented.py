"""A model with more states at the end, for what its sensors do."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from sagewing.models.wrapper import Wrapper
from sagewing.shapes import DX, XX, ZZ, Duration, Input, X, Z


class Augmented(Wrapper):
    """The states of `model` and `added` more, which are vectors; derive from it.

    `own_factors` and `own_noise_variances` say how the added states move in a step.
    """

    @property
    @abstractmethod
    def added(self) -> int:
        """The number of states at the end."""

    @abstractmethod
    def own_factors(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """By which the added states are multiplied in a step: their part of F."""

    @abstractmethod
    def own_noise_variances(self, dt: Duration, dtype: jnp.dtype) -> jax.Array:
        """Their part of Q."""

    def parts(self, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The model's own entries, and the added ones."""
        cut = a.shape[0] - self.added
        return a[:cut], a[cut:]

    @property
    def n_x(self) -> int | None:
        """The model's and the added ones."""
        return None if self.model.n_x is None else self.model.n_x + self.added

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """The process noise of the added states, and the model's."""
        return True, self.model.own_noise[1]

    @property
    def constants(self) -> int:
        """None: the last states are the added ones."""
        return 0

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """That of the model, and the factors of the added states."""
        own, added = self.parts(x)
        moved = self.model.transition(own, u, dt)
        return jnp.concatenate([moved, self.own_factors(dt, x.dtype) * added])

    def process_noise(self, x: X, u: Input, dt: Duration) -> DX | XX:
        """That of the model, and of the added states; NaN is Q0's."""
        own, added = self.parts(x)
        noise = self.own_noise_variances(dt, x.dtype)
        given = self.model.process_noise(own, u, dt)
        if given is None:
            given = jnp.full(self._errors(x) - len(added), jnp.nan, x.dtype)
        return (
            jnp.concatenate([given, noise])
            if given.ndim == 1
            else block_diag(given, jnp.diag(noise))
        )

    def measurement_noise(self, x: X, u: Input) -> Z | ZZ | None:
        """That of the model."""
        return self.model.measurement_noise(self.parts(x)[0], u)

    def _errors(self, x: X) -> int:
        return eqx.filter_eval_shape(self.minus, x, x).shape[0]

    def plus(self, x: X, dx: DX) -> X:
        """That of the model, and addition."""
        (own, added), (own_dx, added_dx) = self.parts(x), self.parts(dx)
        return jnp.concatenate([self.model.plus(own, own_dx), added + added_dx])

    def minus(self, a: X, b: X) -> DX:
        """That of the model, and subtraction."""
        (own_a, added_a), (own_b, added_b) = self.parts(a), self.parts(b)
        return jnp.concatenate([self.model.minus(own_a, own_b), added_a - added_b])

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """That of the model, and 1 for added states that are among its `curved` errors."""
        (own, added), (own_dx, _) = self.parts(x), self.parts(dx)
        J = self.model.plus_jacobian(own, own_dx)
        if J is None or self.curved.stop is not None:
            return J
        return block_diag(J, jnp.eye(len(added), dtype=x.dtype))

    def normalize(self, x: X) -> X:
        """That of the model."""
        own, added = self.parts(x)
        return jnp.concatenate([self.model.normalize(own), added])

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """That of the model, and the factors of the added states."""
        F = self.model.transition_jacobian(self.parts(x)[0], u, dt)
        return None if F is None else block_diag(F, jnp.diag(self.own_factors(dt, x.dtype)))
