"""A filter in two parts: its arrays, and the rest, which determines its compiled program."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax

from sagewing.filters.protocols import Filter


class Rest(NamedTuple):
    """A filter without its arrays, as a hashable key; a list in a filter prevents hashing."""

    leaves: tuple[Any, ...]
    where: tuple[int, ...]  # which leaves are arrays
    structure: Any


def separated(filt: Filter) -> tuple[tuple[Any, ...], Rest]:
    """Separate a filter into its arrays and the rest."""
    leaves, structure = jax.tree.flatten(filt)
    where = tuple(i for i, leaf in enumerate(leaves) if eqx.is_array(leaf))
    others = tuple(leaf for leaf in leaves if not eqx.is_array(leaf))
    return tuple(leaves[i] for i in where), Rest(others, where, structure)


def together(arrays: Sequence[Any], rest: Rest) -> Any:
    """Combine the two parts to the filter."""
    by_place, others = dict(zip(rest.where, arrays, strict=True)), iter(rest.leaves)
    total = len(rest.where) + len(rest.leaves)
    leaves = [by_place[i] if i in by_place else next(others) for i in range(total)]
    return jax.tree.unflatten(rest.structure, leaves)
