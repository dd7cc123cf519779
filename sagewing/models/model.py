"""The description of a system: its motion and its measurements."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from sagewing.shapes import XX, ZX, Duration, Input, X, Z


class Model(eqx.Module):
    """A system for one record: `transition` is f, `observe` is h, and nothing else is required.

    Override the other methods where the system needs them: `innovation` for angles that wrap,
    `normalize` and `normalized` for a state on a manifold (a unit quaternion), the Jacobians if you
    have them in closed form. Parameters are fields. Noise is not part of a model.
    """

    @abstractmethod
    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """The state `dt` seconds after `x` under the input `u` (None for a system without one)."""

    @abstractmethod
    def observe(self, x: X, u: Input) -> Z:
        """The measurement without noise in the state `x`."""

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference between a measurement and its prediction."""
        return z - z_hat

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """`innovation`, for a model whose input selects what is measured."""
        return self.innovation(z, z_hat)

    @property
    def constants(self) -> int:
        """How many states at the end are constant, such as biases: filters skip them in F."""
        return 0

    @property
    def modes(self) -> int:
        """The number of kinds of measurement, each with an R of its own."""
        return 1

    def mode(self, u: Input) -> Int[Array, ""]:
        """The kind of measurement in this step."""
        return jnp.zeros((), int)

    def normalize(self, x: X) -> X:
        """The state projected onto its manifold after a correction, such as a unit quaternion.

        P is projected by the derivative. Clipping has the derivative 0, which would remove the
        variance: a model that clips sets `normalized` to slice(0, 0), and P stays.
        """
        return x

    @property
    def normalized(self) -> slice:
        """The slice of states that `normalize` reads and changes; all, if it is overridden."""
        return slice(0, 0) if type(self).normalize is Model.normalize else slice(None)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """F in closed form; None has filters differentiate `transition`."""
        return None

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """H in closed form; None has filters differentiate `observe`."""
        return None
