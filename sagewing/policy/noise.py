"""Constant noise variances fitted to data, for the tuned EKF."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.policy.ndr.architecture import LARGEST
from sagewing.policy.storage import Stored
from sagewing.shapes import Numbers, X, Z, real_dtype


class Noise(Stored):
    """The variances of Q and R, stored as logarithms; R has a row for each mode of the model.

    Example: `noise = sw.Noise.load(folder); sw.EKF(model, noise.q, noise.r)`
    """

    kind: ClassVar[str] = "noise"
    log_q: Float[Array, "n_x"]
    log_r: Float[Array, "n_z"] | Float[Array, "modes n_z"]

    def __init__(self, q: Numbers, r: Numbers):
        self.log_q = jnp.log(jnp.asarray(q, real_dtype()))
        self.log_r = jnp.log(jnp.asarray(r, real_dtype()))

    @property
    def q(self) -> X:
        """The variances of the process noise."""
        return jnp.exp(self.log_q)

    @property
    def r(self) -> Z | Float[Array, "modes n_z"]:
        """The variances of the measurement noise."""
        return jnp.exp(self.log_r)

    def card(self) -> dict[str, Any]:
        """The sizes, and the variances in readable form."""
        return {
            "architecture": {"n_x": self.log_q.size, "r": list(self.log_r.shape)},
            "variances": {"q": self.q.tolist(), "r": self.r.tolist()},
        }

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Noise":
        """Noise of these sizes."""
        sizes = card["architecture"]
        shape = sizes["r"] if "r" in sizes else [sizes["n_z"]]
        if not isinstance(shape, list) or len(shape) not in (1, 2):
            raise ValueError(f"r has the shape {shape!r}")
        for size in (sizes["n_x"], *shape):
            if type(size) is not int or not 1 <= size <= LARGEST:
                raise ValueError(f"a size must lie in 1..{LARGEST}; got {size!r}")
        return cls(jnp.ones(sizes["n_x"]), jnp.ones(shape))
