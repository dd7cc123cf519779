"""The noise that a sensor reports of its own samples, as inputs of the model."""

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.models.wrapper import Wrapper
from sagewing.shapes import ZZ, Input, X, Z


class Reported(Wrapper):
    """A model whose inputs end with the noise of z that was reported with the sample.

    It is variances, or with `matrices` a covariance, row by row. A variance that is not a positive
    number is R0's, or what the model itself says.
    """

    n_z: int = eqx.field(static=True)
    matrices: bool = eqx.field(static=True, default=False)

    @property
    def own_noise(self) -> tuple[bool, bool]:
        """The reported noise."""
        return self.model.own_noise[0], True

    @property
    def reported(self) -> int:
        """How many inputs are reported noise."""
        return self.n_z**2 if self.matrices else self.n_z

    def inner_u(self, u: Input) -> Input:
        """All inputs but the reported noise."""
        assert u is not None
        return u[: -self.reported] if u.shape[0] > self.reported else None

    def measurement_noise(self, x: X, u: Input) -> Z | ZZ:
        """The reported noise."""
        assert u is not None
        given = u[-self.reported :]
        given = given.reshape(self.n_z, self.n_z) if self.matrices else given
        own = self.model.measurement_noise(x, self.inner_u(u))
        return given if own is None else _filled(given, own)


def _filled(given: jax.Array, own: jax.Array) -> jax.Array:
    """The given noise, and the model's own for channels without any; a matrix if either is."""
    variances = given if given.ndim == 1 else jnp.diagonal(given)
    known = jnp.isfinite(variances) & (variances > 0.0)
    if given.ndim == own.ndim == 1:
        return jnp.where(known, given, own)
    given, own = (jnp.diag(a) if a.ndim == 1 else a for a in (given, own))
    unknown = jnp.where(~known[:, None] & ~known[None], own, 0.0)
    return jnp.where(known[:, None] & known[None], given, unknown)
