"""A filter in two parts: its arrays, and the rest, which says what program they need."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax

from sagewing.filters.protocols import Filter


class Rest(NamedTuple):
    """What a filter is besides its arrays, as a key of a table: a module with a list is none."""

    leaves: tuple[Any, ...]
    where: tuple[int, ...]  # the arrays stand among all leaves
    structure: Any


def separated(filt: Filter) -> tuple[tuple[Any, ...], Rest]:
    """The arrays of a filter, and the rest of it."""
    leaves, structure = jax.tree.flatten(filt)
    where = tuple(i for i, leaf in enumerate(leaves) if eqx.is_array(leaf))
    others = tuple(leaf for leaf in leaves if not eqx.is_array(leaf))
    return tuple(leaves[i] for i in where), Rest(others, where, structure)


def together(arrays: Sequence[Any], rest: Rest) -> Any:
    """The filter again."""
    given, others = dict(zip(rest.where, arrays, strict=True)), iter(rest.leaves)
    total = len(rest.where) + len(rest.leaves)
    leaves = [given[i] if i in given else next(others) for i in range(total)]
    return jax.tree.unflatten(rest.structure, leaves)
