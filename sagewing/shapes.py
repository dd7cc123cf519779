"""The names of array shapes, said once.

Inside the package the record's batch, if there is one, is the LAST axis: a state is `[n_x]` or
`[n_x, B]`, a covariance `[n_x, n_x]` or `[n_x, n_x, B]`. The arithmetic of small matrices then runs
over long contiguous vectors, and the same lines serve one record and ten thousand.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

# What a caller may give where numbers are wanted.
Numbers = ArrayLike | Sequence[Any]

Scalar = Float[Array, ""]
Duration = Float[Array, ""] | float

# One record, as a user's model sees it.
X = Float[Array, "n_x"]
Z = Float[Array, "n_z"]
XX = Float[Array, "n_x n_x"]
ZZ = Float[Array, "n_z n_z"]
ZX = Float[Array, "n_z n_x"]
Input = Float[Array, "n_u"] | None

# One record or a batch of them, as a filter sees it.
States = Float[Array, "n_x *batch"]
Measurements = Float[Array, "n_z *batch"]
Inputs = Float[Array, "n_u *batch"] | None
Covariances = Float[Array, "n_x n_x *batch"]
InnovationCov = Float[Array, "n_z n_z *batch"]
Jacobians = Float[Array, "n_z n_x *batch"]
Gains = Float[Array, "n_x n_z *batch"]
Attenuations = Float[Array, "n_d *batch"]
Values = Float[Array, "*batch"]
Arrived = Bool[Array, "n_z *batch"]
Flags = Bool[Array, "*batch"]
Steps = Float[Array, ""] | Float[Array, "batch"]


def real_dtype() -> jnp.dtype:
    """float32, or float64 where the caller has switched JAX to 64 bits."""
    return jnp.result_type(float)
