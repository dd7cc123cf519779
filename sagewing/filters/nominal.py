"""The common part of filters with a nominal Q and R."""

import jax.numpy as jnp

from sagewing.filters.recovery import Recovering
from sagewing.models import Model
from sagewing.shapes import DX, XX, ZZ, Z


class NominalNoise(Recovering):
    """A model and its nominal noise covariances, as matrices."""

    model: Model
    Q: XX
    R: ZZ

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        return self.model.n_x or self.Q.shape[0]

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.R.shape[0]

    @property
    def q0(self) -> DX:
        """The process noise variances."""
        return jnp.diagonal(self.Q)

    @property
    def r0(self) -> Z:
        """The measurement noise variances."""
        return jnp.diagonal(self.R)
