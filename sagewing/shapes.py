"""The names of array shapes.

Inside the package the batch of records, if there is one, is the LAST axis: a state is `[n_x]` or
`[n_x, B]`, a covariance `[n_x, n_x]` or `[n_x, n_x, B]`. The arithmetic of small matrices then runs
over long contiguous vectors, and the same code runs one record or ten thousand.

A state has n_x entries and its error n_dx: fewer if the state lies on a manifold, such as a unit
quaternion, whose error is a rotation vector. Covariances, Jacobians and gains are the error's.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

# Anything that converts to an array.
Numbers = ArrayLike | Sequence[Any]

Scalar = Float[Array, ""]
Duration = Float[Array, ""] | float

# One record, as a user's model takes it.
X = Float[Array, "n_x"]
Z = Float[Array, "n_z"]
DX = Float[Array, "n_dx"]
XX = Float[Array, "n_dx n_dx"]
ZZ = Float[Array, "n_z n_z"]
ZX = Float[Array, "n_z n_dx"]
Input = Float[Array, "n_u"] | None

# One record or a batch of them, as a filter takes it.
States = Float[Array, "n_x *batch"]
Errors = Float[Array, "n_dx *batch"]
Measurements = Float[Array, "n_z *batch"]
Inputs = Float[Array, "n_u *batch"] | None
Covariances = Float[Array, "n_dx n_dx *batch"]
Transitions = Float[Array, "n_dx n_dx *batch"]  # as Covariances, and not symmetric
InnovationCov = Float[Array, "n_z n_z *batch"]
Jacobians = Float[Array, "n_z n_dx *batch"]
Gains = Float[Array, "n_dx n_z *batch"]
Attenuations = Float[Array, "n_d *batch"]
Values = Float[Array, "*batch"]
Arrived = Bool[Array, "n_z *batch"]
Flags = Bool[Array, "*batch"]
Steps = Float[Array, ""] | Float[Array, "batch"]


def real_dtype() -> jnp.dtype:
    """float32, or float64 if JAX is set to 64 bits."""
    return jnp.result_type(float)
