"""The noise that a sensor reports of its own samples, as inputs of the model."""

import equinox as eqx
import jax.numpy as jnp

from sagewing.models.wrapper import Wrapper
from sagewing.shapes import Input, X, Z


class Reported(Wrapper):
    """A model whose inputs end with the variances of z that were reported with the sample.

    A NaN among them is R0's, or what the model itself says.
    """

    n_z: int = eqx.field(static=True)

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """The reported variances."""
        return self.model.own_noise[0], True

    def inner_u(self, u: Input) -> Input:
        """All inputs but the variances."""
        assert u is not None
        return u[: -self.n_z] if u.shape[0] > self.n_z else None

    def measurement_noise(self, x: X, u: Input) -> Z:
        """The reported variances."""
        assert u is not None
        reported, own = u[-self.n_z :], self.model.measurement_noise(x, self.inner_u(u))
        return reported if own is None else jnp.where(jnp.isfinite(reported), reported, own)
