"""Several models of one state; the input selects one of them in each step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sagewing.errors import InputError
from sagewing.models.model import Model, error_after, measured_after, measured_by
from sagewing.shapes import DX, XX, ZX, ZZ, Duration, Input, X, Z


class Switched(Model):
    """The model selected by the input u = [mode, inputs of the models].

    The models share the state and the number of measured channels, whose meaning may differ: a
    pose in one, an IMU in another. A filter takes one row of R0 for each model. The manifold of the
    state is that of the first. `inputs` has the range of each model's inputs among the numbers
    after the mode; a model without inputs is given None.

    Example: `Switched((QuadrotorKinematic(), QuadrotorDynamic()), inputs=((0, 6), (6, 10)))`
    """

    models: tuple[Model, ...]
    inputs: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def __init__(self, models: Sequence[Model], inputs: Sequence[tuple[int, int]]):
        if len(models) != len(inputs) or not models:
            raise InputError(
                f"Switched needs to know the inputs of each model; got {len(models)} models and "
                f"{len(inputs)} places."
            )
        self.models = tuple(models)
        self.inputs = tuple((int(first), int(last)) for first, last in inputs)

    @property
    def modes(self) -> int:
        """The number of models."""
        return len(self.models)

    @property
    def constants(self) -> int:
        """The smallest number of the models."""
        return min(model.constants for model in self.models)

    def mode(self, u: Input) -> Int[Array, ""]:
        """The selected model; an invalid number selects the nearest valid one."""
        return jnp.clip(jnp.round(self._given(u)[0]).astype(jnp.int32), 0, self.modes - 1)

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """That of the selected model."""
        return self._of_mode(u, lambda model, u: model.transition(x, u, dt))

    def observe(self, x: X, u: Input) -> Z:
        """That of the selected model."""
        return self._of_mode(u, lambda model, u: model.observe(x, u))

    def residual(self, z: Z, z_hat: Z, u: Input) -> Z:
        """That of the selected model."""
        return self._of_mode(u, lambda model, u: model.residual(z, z_hat, u))

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """Whether any of the models has noise of its own."""
        process, measurement = zip(*(model.own_noise for model in self.models), strict=True)
        return any(process), any(measurement)

    def process_noise(self, x: X, u: Input, dt: Duration) -> DX | XX | None:
        """That of the selected model."""
        return self._noise_of_mode(u, lambda model, u: model.process_noise(x, u, dt))

    def measurement_noise(self, x: X, u: Input) -> Z | ZZ | None:
        """That of the selected model."""
        return self._noise_of_mode(u, lambda model, u: model.measurement_noise(x, u))

    @property
    def n_x(self) -> int | None:
        """That of the first model."""
        return self.models[0].n_x

    @property
    def origin(self) -> X | None:
        """That of the first model."""
        return self.models[0].origin

    def plus(self, x: X, dx: DX) -> X:
        """That of the first model."""
        return self.models[0].plus(x, dx)

    def minus(self, a: X, b: X) -> DX:
        """That of the first model."""
        return self.models[0].minus(a, b)

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """That of the first model."""
        return self.models[0].plus_jacobian(x, dx)

    def normalize(self, x: X) -> X:
        """That of the first model."""
        return self.models[0].normalize(x)

    @property
    def on_manifold(self) -> bool:
        """That of the first model."""
        return self.models[0].on_manifold

    @property
    def curved(self) -> slice:
        """That of the first model."""
        return self.models[0].curved

    @property
    def has_difference(self) -> bool:
        """Whether any of the models has a difference of its own."""
        return any(model.has_difference for model in self.models)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """That of the selected model, in closed form or by automatic differentiation."""

        def of(model: Model, u: Input) -> XX:
            given = model.transition_jacobian(x, u, dt)
            if given is not None:
                return given
            if not model.on_manifold:
                return jax.jacfwd(model.transition)(x, u, dt)
            x_pred = model.transition(x, u, dt)
            return jax.jacfwd(partial(error_after, model))(self._no_error(x), x, x_pred, u, dt)

        return self._of_mode(u, of)

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """That of the selected model, in closed form or by automatic differentiation."""

        def of(model: Model, u: Input) -> ZX:
            given = model.observe_jacobian(x, u)
            if given is not None:
                return given
            z_hat = model.observe(x, u)
            if not model.on_manifold:
                return jax.jacfwd(partial(measured_by, model))(x, z_hat, u)
            return jax.jacfwd(partial(measured_after, model))(self._no_error(x), x, z_hat, u)

        return self._of_mode(u, of)

    def _noise_of_mode(self, u: Input, call: Callable[[Model, Input], Any]) -> Any:
        """The noise of the selected model as variances, with NaN where it has none of its own."""
        given = self._given(u)
        parts = [
            None if last == first else given[1 + first : 1 + last] for first, last in self.inputs
        ]
        noise = [call(model, part) for model, part in zip(self.models, parts, strict=True)]
        sizes = {a.shape for a in noise if a is not None}
        if not sizes:
            return None
        if len(sizes) > 1:
            raise InputError(f"The models of Switched give noise of different shapes, {sizes}.")
        (size,) = sizes
        nominal = jnp.full(size, jnp.nan, given.dtype)
        return jnp.stack([nominal if a is None else a for a in noise])[self.mode(u)]

    def _no_error(self, x: X) -> DX:
        return jnp.zeros(jax.eval_shape(self.minus, x, x).shape, x.dtype)

    def _given(self, u: Input) -> Float[Array, "n_u"]:
        size = 1 + max(last for _, last in self.inputs)
        if u is None or u.ndim != 1 or u.size < size:
            got = "none" if u is None else f"shape {u.shape}"
            raise InputError(
                f"u must be the mode and the models' inputs, {size} numbers for each step; "
                f"got {got}."
            )
        return u

    def _of_mode(self, u: Input, call: Callable[[Model, Input], Any]) -> Any:
        given, branches = self._given(u), []
        for model, (first, last) in zip(self.models, self.inputs, strict=True):
            part = given[1 + first : 1 + last] if last > first else None
            branches.append(lambda model=model, part=part: call(model, part))
        return jax.lax.switch(self.mode(u), branches)
