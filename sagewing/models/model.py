"""What a user writes to describe a system: how it moves and what its sensors see."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from sagewing.shapes import XX, ZX, Duration, Input, X, Z


class Model(eqx.Module):
    """A system for one record: `transition` is f, `observe` is h, and nothing else is required.

    Override the other methods where the system needs them: `innovation` for angles that wrap,
    `normalize` for a state on a manifold (a unit quaternion) and `normalized` for which states that
    is about, the Jacobians where you have them in closed form. Parameters are fields. A model knows
    no noise.
    """

    @abstractmethod
    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """The state `dt` seconds after `x` under the input `u` (None for a system without one)."""

    @abstractmethod
    def observe(self, x: X, u: Input) -> Z:
        """What the sensors would read in state `x`."""

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference between a measurement and its prediction."""
        return z - z_hat

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """`innovation`, for a model where the input says what is measured."""
        return self.innovation(z, z_hat)

    @property
    def constants(self) -> int:
        """How many states at the end never move, such as biases; filters skip their part of F."""
        return 0

    @property
    def modes(self) -> int:
        """How many kinds of measurement there are, each with its own noise."""
        return 1

    def mode(self, u: Input) -> Int[Array, ""]:
        """Which kind of measurement this step has."""
        return jnp.zeros((), int)

    def normalize(self, x: X) -> X:
        """The state brought back to where states live, after a correction; P follows.

        For manifolds, such as unit quaternions. What it clips has no derivative, and so no variance
        any more: such a model has `normalized` as slice(0, 0).
        """
        return x

    @property
    def normalized(self) -> slice:
        """Which neighbouring states `normalize` reads and changes: all, if it is overridden."""
        return slice(0, 0) if type(self).normalize is Model.normalize else slice(None)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """F in closed form; None has filters differentiate `transition`."""
        return None

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """H in closed form; None has filters differentiate `observe`."""
        return None
