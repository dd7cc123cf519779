"""A model around another one, to change a part of it."""

from jaxtyping import Array, Float, Int

from sagewing.models.model import Model
from sagewing.shapes import DX, XX, ZX, ZZ, Duration, Input, X, Z


class Wrapper(Model):
    """The same as `model` in everything; derive from it and override what differs.

    `inner_u` gives the inputs of `model` among those of the wrapper.
    """

    model: Model

    def inner_u(self, u: Input) -> Input:
        """The same inputs."""
        return u

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """That of the model."""
        return self.model.transition(x, self.inner_u(u), dt)

    def observe(self, x: X, u: Input) -> Z:
        """That of the model."""
        return self.model.observe(x, self.inner_u(u))

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """That of the model."""
        return self.model.innovation(z, z_hat)

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """That of the model."""
        return self.model.residual(z, z_hat, self.inner_u(u))

    def process_noise(self, x: X, u: Input, dt: Duration) -> DX | XX | None:
        """That of the model."""
        return self.model.process_noise(x, self.inner_u(u), dt)

    def measurement_noise(self, x: X, u: Input) -> Z | ZZ | None:
        """That of the model."""
        return self.model.measurement_noise(x, self.inner_u(u))

    @property
    def n_x(self) -> int | None:
        """That of the model."""
        return self.model.n_x

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """As the model says."""
        return self.model.own_noise

    @property
    def own_variances(self) -> tuple[float, ...]:
        """Those of the model."""
        return self.model.own_variances

    @property
    def origin(self) -> X | None:
        """That of the model."""
        return self.model.origin

    def plus(self, x: X, dx: DX) -> X:
        """That of the model."""
        return self.model.plus(x, dx)

    def minus(self, a: X, b: X) -> DX:
        """That of the model."""
        return self.model.minus(a, b)

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """That of the model."""
        return self.model.plus_jacobian(x, dx)

    @property
    def on_manifold(self) -> bool:
        """As the model says."""
        return self.model.on_manifold

    @property
    def has_difference(self) -> bool:
        """As the model says."""
        return self.model.has_difference

    @property
    def curved(self) -> slice:
        """That of the model."""
        return self.model.curved

    def normalize(self, x: X) -> X:
        """That of the model."""
        return self.model.normalize(x)

    @property
    def constants(self) -> int:
        """Those of the model."""
        return self.model.constants

    @property
    def modes(self) -> int:
        """Those of the model."""
        return self.model.modes

    def mode(self, u: Input) -> Int[Array, ""]:
        """That of the model."""
        return self.model.mode(self.inner_u(u))

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX | None:
        """That of the model."""
        return self.model.transition_jacobian(x, self.inner_u(u), dt)

    def observe_jacobian(self, x: X, u: Input) -> ZX | None:
        """That of the model."""
        return self.model.observe_jacobian(x, self.inner_u(u))
