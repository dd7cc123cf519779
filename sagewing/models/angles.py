"""Angles."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def wrap_angle(angle: Float[Array, "..."]) -> Float[Array, "..."]:
    """The same angle within [-pi, pi)."""
    return jnp.mod(angle + jnp.pi, 2.0 * jnp.pi) - jnp.pi
