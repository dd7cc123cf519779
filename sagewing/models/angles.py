"""Angles."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def wrap_angle(angle: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same angle within [-pi, pi)."""
    wrapped = jnp.mod(angle + jnp.pi, 2.0 * jnp.pi) - jnp.pi
    # An angle just below -pi is rounded to pi.
    return jnp.where(wrapped >= jnp.pi, -jnp.pi, wrapped).astype(wrapped.dtype)
