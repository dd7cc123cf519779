"""Apply a user's functions, written for one record, to a batch in the last axis."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# The names in a traced program of the user's model and of the directions of its derivatives: the C
# code generator propagates every NaN of a model's own functions.
MODEL = "sagewing.model"
DIRECTIONS = "sagewing.directions"


class PerRecord(eqx.Module):
    """A number or array of a filter that differs between records: its last axis is the batch."""

    value: Float[Array, "..."]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape for one record."""
        return self.value.shape[:-1]

    @property
    def size(self) -> int:
        """The number of entries for one record."""
        return math.prod(self.shape)


def per_sample(fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn`, written for one record, on one record or on a batch in the last axis.

    The first argument decides: a vector is one record. `None` and scalars are shared by the batch.
    """
    with jax.named_scope(MODEL):
        return _per_sample(fn, *args)


def _per_sample(fn: Callable[..., Any], *args: Any) -> Any:
    if args[0].ndim == 1:
        return fn(*args)
    axes = tuple(None if a is None or jnp.ndim(a) == 0 else -1 for a in args)
    return jax.vmap(fn, in_axes=axes, out_axes=-1)(*args)


def for_each_record(
    a: jax.Array, shape: tuple[int, ...], batch: tuple[int, ...]
) -> Float[Array, "..."]:
    """The same for every record of a batch (the last axis); of known values nothing is compiled."""
    traced = isinstance(a, jax.core.Tracer)
    module: Any = jnp if traced else np
    whole = module.broadcast_to(a if traced else np.asarray(a), (*batch, *shape))
    return jnp.asarray(module.moveaxis(whole, 0, -1) if batch else whole)


def closed_form(fn: Callable[..., Any], *args: Any) -> Any:
    """A derivative that a model gives, or None; C may leave out its products with zero."""
    return _per_sample(fn, *args)


def derivative(
    fn: Callable[..., Any], x: Float[Array, "n *batch"], *args: Any
) -> Float[Array, "m n *batch"]:
    """The derivative of `fn` by `x`, by JAX."""

    def push(direction: jax.Array) -> jax.Array:
        tangent = jnp.broadcast_to(direction.reshape(-1, *(1,) * (x.ndim - 1)), x.shape)
        return jax.jvp(lambda x: per_sample(fn, x, *args), (x,), (tangent,))[1]

    with jax.named_scope(MODEL):
        with jax.named_scope(DIRECTIONS):
            directions = jnp.eye(x.shape[0], dtype=x.dtype)
        # The directions are the outer vmap, so that the batch stays the last axis.
        return jax.vmap(push, out_axes=1)(directions)
