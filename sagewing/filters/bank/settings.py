"""Checks of a bank's settings; a mistake raises an `InputError`."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.protocols import Filter
from sagewing.shapes import Numbers

ROUNDING = 1e-5  # by so much a sum of probabilities may differ from 1


def members(given: Sequence[Filter]) -> list[Filter]:
    """At least one filter, all of the same sizes."""
    filters = list(given)
    if not filters:
        raise InputError("A bank needs at least one member; got an empty list.")
    for filt in filters:
        checks.is_filter(filt)
    sizes = [(filt.n_x, filt.q0.size, filt.n_z) for filt in filters]
    for i, own in enumerate(sizes):
        if own != sizes[0]:
            raise InputError(
                "The members of a bank must have the same states, errors and channels: member 0 "
                f"has (n_x, n_dx, n_z) = {sizes[0]}, member {i} has {own}."
            )
    return filters


def weighing(dof: float | None, forgetting: float, output: str) -> None:
    """Refuse settings of the weights that make no sense."""
    if dof is not None and not 0.0 < dof < np.inf:
        raise InputError(
            f"dof are degrees of freedom, a positive number, or None for a normal likelihood; got "
            f"{dof}."
        )
    if not 0.0 < forgetting <= 1.0:
        raise InputError(
            f"forgetting is the power of old weights and must lie in (0, 1]; got {forgetting}."
        )
    if output not in ("mixture", "best"):
        raise InputError(f'output must be "mixture" or "best"; got {output!r}.')


def prior(weights: Numbers | None, size: int) -> Float[Array, "members"]:
    """The initial weights: given, or equal ones."""
    if weights is None:
        return checks.as_real("weights", np.full(size, 1.0 / size))
    a = checks.as_real("weights", weights)
    if a.shape != (size,):
        raise InputError(f"weights must have one entry for each of {size} members; got {a.shape}.")
    if not isinstance(a, jax.core.Tracer):
        _check_probabilities("weights", np.asarray(a, float)[None])
    return a


def transitions(
    given: Numbers | None, size: int, filters: Sequence[Filter]
) -> Float[Array, "members members"] | None:
    """The transition probabilities of an IMM, for members whose states have an x and a P."""
    if given is None:
        return None
    a = checks.as_real("transitions", given)
    if a.shape != (size, size):
        raise InputError(
            f"transitions must be a matrix [members, members], {(size, size)}; got {a.shape}."
        )
    if not isinstance(a, jax.core.Tracer):
        _check_probabilities("Each row of transitions", np.asarray(a, float))
    for filt in filters:
        x = jax.ShapeDtypeStruct((filt.n_x,), a.dtype)
        P = jax.ShapeDtypeStruct((filt.q0.size, filt.q0.size), a.dtype)
        state: Any = jax.eval_shape(filt.init, x, P)
        if not {"x", "P"} <= set(getattr(state, "_fields", ())):
            raise InputError(
                "transitions mix the x and P of the members' states, and the state of "
                f"{type(filt).__name__} has none; leave transitions out."
            )
    return a


def _check_probabilities(name: str, rows: np.ndarray) -> None:
    for row in rows:
        if not np.all(np.isfinite(row) & (row >= 0.0)) or abs(row.sum() - 1.0) > ROUNDING:
            raise InputError(
                f"{name} must be probabilities, not negative and with the sum 1; got "
                f"{row.tolist()}."
            )


def offsets(given: Numbers | None, size: int, n_dx: int) -> Float[Array, "members n_dx"] | None:
    """What is added to x0 for each member."""
    if given is None:
        return None
    a = checks.as_real("offsets", given)
    if a.shape != (size, n_dx):
        raise InputError(
            f"offsets must have an error of the state for each member, shape {(size, n_dx)}; got "
            f"{a.shape}."
        )
    if not isinstance(a, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(a))):
        raise InputError("offsets must be finite.")
    return a
