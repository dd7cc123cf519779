"""The description of a system: its motion and its measurements."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sagewing.shapes import DX, XX, ZX, ZZ, Duration, Input, X, Z


class Model(eqx.Module):
    """A system for one record: `transition` is f, `observe` is h, and nothing else is required.

    Override the other methods where the system needs them: `innovation` for angles that wrap,
    `plus`, `minus` and `n_x` for a state on a manifold, the Jacobians if you have them in closed
    form. Parameters are fields. The noise is Q0 and R0 of a filter; `process_noise` and
    `measurement_noise` are for noise that depends on the state or the input.

    P, Q, F, H and K are in coordinates of the state's error, whose number is that of Q0:
    x = `plus`(x_hat, error). `plus` and `minus` obey plus(x, 0) = x, plus(a, minus(b, a)) = b and,
    for small errors, minus(plus(x, error), x) = error.
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
    def n_x(self) -> int | None:
        """The number of entries of a state, where its error has fewer; None: as many."""
        return None

    @property
    def origin(self) -> X | None:
        """A state to start from where nothing is known; None: zeros."""
        return None

    def plus(self, x: X, dx: DX) -> X:
        """The state that differs from `x` by the error `dx`; override `minus` with it."""
        return self.normalize(x + dx)

    def minus(self, a: X, b: X) -> DX:
        """The error by which the state `a` differs from `b`."""
        return a - b

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """The derivative of minus(plus(x, dx + e), plus(x, dx)) by e at 0, of the `curved` errors.

        None has filters differentiate `plus` and `minus`.
        """
        return None

    @property
    def on_manifold(self) -> bool:
        """Whether `plus` and `minus` are the model's own, so that F and H are derived with them."""
        return type(self).plus is not Model.plus

    @property
    def has_difference(self) -> bool:
        """Whether `innovation` or `residual` is the model's own, so that H is derived with it."""
        own = type(self)
        return own.innovation is not Model.innovation or own.residual is not Model.residual

    @property
    def curved(self) -> slice:
        """The errors for which `plus` is no addition, if they are neighbours; by default all."""
        straight = not self.on_manifold and type(self).normalize is Model.normalize
        return slice(0, 0) if straight else slice(None)

    def normalize(self, x: X) -> X:
        """The state after a correction, for a vector with a constraint, such as a unit quaternion.

        P is projected by the derivative. Clipping has the derivative 0, which would remove the
        variance: a model that clips sets `curved` to slice(0, 0), and P stays.
        """
        return x

    def process_noise(self, x: X, u: Input, dt: Duration) -> DX | XX | None:
        """Q of a step from `x`, as variances or a matrix; None, or a NaN variance, is Q0."""
        return None

    def measurement_noise(self, x: X, u: Input) -> Z | ZZ | None:
        """R in the state `x`, as variances or a matrix; None, or a NaN variance, is R0."""
        return None

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """Whether `process_noise` and `measurement_noise` are the model's own."""
        own = type(self)
        return (
            own.process_noise is not Model.process_noise,
            own.measurement_noise is not Model.measurement_noise,
        )

    @property
    def own_variances(self) -> tuple[float, ...]:
        """The variances of states at the end that start at zero and that Q0, x0, P0 leave out."""
        return ()

    @property
    def constants(self) -> int:
        """How many errors at the end are constant, such as biases: filters skip them in F."""
        return 0

    @property
    def modes(self) -> int:
        """The number of kinds of measurement, each with an R of its own."""
        return 1

    def mode(self, u: Input) -> Int[Array, ""]:
        """The kind of measurement in this step."""
        return jnp.zeros((), int)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """F in closed form; None has filters differentiate `transition`."""
        return None

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """H in closed form; None has filters differentiate `observe`."""
        return None


def error_after(model: Model, dx: DX, x: X, x_pred: X, u: Input, dt: Duration) -> DX:
    """The error of the prediction where x has the error `dx`; its derivative at 0 is F."""
    return model.minus(model.transition(model.plus(x, dx), u, dt), x_pred)


def measured_by(model: Model, x: X, z_hat: Z, u: Input) -> Z:
    """The measurement in the state x, as the model's difference from z_hat; its slope is H."""
    z = model.observe(x, u)
    return model.residual(z, z_hat, u) if model.has_difference else z


def measured_after(model: Model, dx: DX, x: X, z_hat: Z, u: Input) -> Z:
    """The same where x has the error `dx`."""
    return measured_by(model, model.plus(x, dx), z_hat, u)
