"""Which types of numbers C has: flags, whole numbers of 32 bits, reals of the working precision.

Whole numbers of 64 bits, which JAX makes in double precision, are such in C, too. Others would wrap
around or round elsewhere than they do in JAX, and are refused wherever they are not known.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
REALS = (np.dtype(np.float32), np.dtype(np.float64))
# What JAX counts places in an array with, none of which is negative
PLACES = np.dtype(np.uint32)


def not_in_c(equation: Any, real: np.dtype, places: bool) -> str | None:
    """The first type among an equation's numbers that C does not have here; `places`: of arrays."""
    for atom in (*equation.invars, *equation.outvars):
        dtype = getattr(atom.aval, "dtype", None)
        if dtype is None or is_key(dtype):
            return str(dtype or atom.aval)
        fits = dtype in (np.bool_, real, *INTEGERS) or (places and dtype == PLACES)
        if not fits:
            return str(dtype)
    return None


def is_key(dtype: Any) -> bool:
    """Whether a type is one of JAX's own, such as that of random keys."""
    return jnp.issubdtype(dtype, jax.dtypes.extended)
