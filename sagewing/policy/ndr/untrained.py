"""An untrained policy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sagewing.filters.protocols import GainNoise
from sagewing.policy.ndr.architecture import Architecture
from sagewing.policy.ndr.policy import Policy
from sagewing.shapes import Numbers


def untrained(
    Q0: Numbers,
    R0: Numbers,
    bounds: tuple[float, float] = (0.1, 100.0),
    gain_noise: GainNoise = "prior",
) -> Policy:
    """A policy for noise of these sizes with d = 1/2 for any input."""
    arch = Architecture(n_x=np.shape(Q0)[0], n_z=np.shape(R0)[-1])
    policy = Policy(arch, bounds, gain_noise, key=jax.random.key(0))
    return eqx.tree_at(
        lambda p: p.head.layers[-1], policy, replace_fn=lambda a: jax.tree.map(jnp.zeros_like, a)
    )
