"""Batches whose records do not depend on each other: one by one, or so many at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from sagewing.filters.lifting import PerRecord
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.sizes import STATES_OF_BATCH, Use, records_together


def each_by_itself(filt: Filter, use: Use) -> bool:
    """Whether every record of a batch is computed by itself: the fastest for many states."""
    return _independent(filt) and filt.q0.size > STATES_OF_BATCH[use]


def _independent(filt: Filter) -> bool:
    """Whether no array of the filter belongs to one of the records."""
    leaves = jax.tree.leaves(filt, is_leaf=lambda leaf: isinstance(leaf, PerRecord))
    shared = not any(isinstance(leaf, PerRecord) for leaf in leaves)
    return isinstance(filt, AdaptiveFilter) and shared


def batch_axes(filt: Filter, state: Any) -> Any:
    """For every array of a batch's state 0 if it differs between records, and else None."""
    one = (jax.ShapeDtypeStruct(a.shape[:-1], a.dtype) for a in (state.x, state.P))
    alone = jax.eval_shape(filt.init, *one)
    return jax.tree.map(lambda one, a: 0 if a.ndim > one.ndim else None, alone, state)


def batch_first(tree: Any, axis: int = 0) -> Any:
    """Arrays whose last axis is the batch, with it as this axis."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, -1, axis), tree)


def batch_last(tree: Any, axis: int = 0) -> Any:
    """Arrays that have the batch as this axis, with it as the last."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, axis, -1), tree)


def for_each(of_one: Callable[..., Any], axes: Any, several_dt: bool) -> Callable[..., Any]:
    """A function of one record's state, z, u, dt and arrived, for every record, batch first."""
    return jax.vmap(of_one, (axes, 0, 0, 0 if several_dt else None, 0), (axes, 0))


def in_pieces(filt: Filter, run: Callable[..., Any], state: Any, given: Any) -> Any:
    """`run(state, given)` for pieces of a large batch that fit the processor's cache.

    `given` and the result's values have the batch as the first axis, states as the last.
    """
    batch = len(jax.tree.leaves(given)[0])
    pieces = -(-batch // records_together(filt.q0.size))
    shared = any(a.shape[-1:] != (batch,) for a in jax.tree.leaves(state))
    if pieces == 1 or shared or not _independent(filt):
        return run(state, given)
    size = -(-batch // pieces)
    pieces = -(-batch // size)

    def cut(a: jax.Array) -> jax.Array:
        fill = jnp.broadcast_to(a[:1], (pieces * size - batch, *a.shape[1:]))
        return jnp.concatenate([a, fill]).reshape(pieces, size, *a.shape[1:])

    def piece(given: Any) -> Any:
        state, given = given
        state, values = run(batch_last(state), given)
        return batch_first(state), values

    made = jax.lax.map(piece, jax.tree.map(cut, (batch_first(state), given)))
    state, values = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:batch], made)
    return batch_last(state), values
