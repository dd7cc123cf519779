"""Thomas' attractor with distances to two beacons: a third domain, to choose settings on."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from sagewing.models.continuous import ContinuousModel
from sagewing.shapes import XX, ZX, Input, X, Z

# Outside of the attractor, so that no distance is close to zero.
BEACONS = ((10.0, 0.0, 0.0), (0.0, 10.0, 0.0))


class Thomas(ContinuousModel):
    """Thomas 1999, slow and cyclically symmetric; its distances from two beacons are measured."""

    b: float = 0.208186
    jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Thomas' equations."""
        return jnp.sin(jnp.roll(x, -1)) - self.b * x

    def drift_jacobian(self, x: X, u: Input) -> XX:
        """A in closed form."""
        eye = jnp.eye(3, dtype=x.dtype)
        return jnp.cos(jnp.roll(x, -1))[:, None] * jnp.roll(eye, 1, axis=1) - self.b * eye

    def observe(self, x: X, u: Input) -> Z:
        """The distances."""
        return jnp.sqrt(jnp.sum((x - jnp.asarray(BEACONS, x.dtype)) ** 2, axis=1))

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H in closed form: the directions from the beacons."""
        return (x - jnp.asarray(BEACONS, x.dtype)) / self.observe(x, u)[:, None]
