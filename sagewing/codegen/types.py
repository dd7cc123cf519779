"""The types that C code may compute with: flags, integers of 32 bits, reals of its precision.

Integers of 64 bits, which JAX uses in double precision, are also allowed. Numbers of other types
would wrap around or round differently than in JAX; only constants may have them.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
REALS = (np.dtype(np.float32), np.dtype(np.float64))
# The type of JAX's own indices, which are never negative
INDEX = np.dtype(np.uint32)


def not_in_c(equation: Any, real: np.dtype, indices: bool) -> str | None:
    """The first type in an equation that C may not compute with; `indices` may have their own."""
    for atom in (*equation.invars, *equation.outvars):
        dtype = getattr(atom.aval, "dtype", None)
        if dtype is None or is_key(dtype):
            return str(dtype or atom.aval)
        fits = dtype in (np.bool_, real, *INTEGERS) or (indices and dtype == INDEX)
        if not fits:
            return str(dtype)
    return None


def is_key(dtype: Any) -> bool:
    """Whether a type is an extended one of JAX, such as that of random keys."""
    return jnp.issubdtype(dtype, jax.dtypes.extended)
