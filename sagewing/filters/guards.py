"""Guards that stop NaN from spreading, and XLA from repeating work.

The functions take one record or a batch in the last axis.
"""

from functools import reduce
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.filters.sizes import written_out
from sagewing.shapes import Flags, Values

T = TypeVar("T")

# The name under which a program keeps products with zero that are there to find a NaN: the C code
# generator, which otherwise leaves out a product with zero, computes these.
NAN_PROBE = "sagewing.nan_probe"


@jax.custom_vjp
def prevent_fusion(values: T) -> T:
    """The same values, computed once.

    XLA fuses cheap arithmetic into every use of it, and so repeats it; it does not fuse across a
    branch. This branch depends on a NaN check, which the compiler cannot evaluate, and both of
    its sides return the values.
    """
    return _unfused(values)


def _unfused(values):
    def nan_kept(v):
        return jax.tree.map(lambda a: jnp.where(a == a, a, jnp.nan), v)

    if _one_large(values):
        return jax.lax.optimization_barrier(values)
    first = jax.tree.leaves(values)[0].ravel()[0]
    return jax.lax.cond(first == first, lambda v: v, nan_kept, values)


prevent_fusion.defvjp(lambda values: (_unfused(values), None), lambda _, bar: (_unfused(bar),))


@jax.custom_vjp
def finite_derivative(values: T) -> T:
    """The same values; a derivative with respect to them that overflowed becomes zero."""
    return values


finite_derivative.defvjp(
    lambda values: (values, None),
    lambda _, bar: (jax.tree.map(lambda b: jnp.where(jnp.isfinite(b), b, 0.0), bar),),
)


def all_finite(*vectors: Float[Array, "..."]) -> Flags:
    """For every record, whether all numbers of some vectors are finite."""
    probe = jnp.zeros_like(vectors[0][0])
    with jax.named_scope(NAN_PROBE):
        for vector in vectors:
            probe = total(0.0 * vector, probe)  # zero, or NaN
    return _computed_once(probe, vectors[0]) == 0.0


def _computed_once(total: Values, entries: Float[Array, "n *batch"]) -> Values:
    """The total of these entries; XLA fuses no reduction into its users."""
    explicit = written_out(len(entries), batched=entries.ndim > 1)
    return prevent_fusion(total) if explicit else total


def valid(x: Float[Array, "n *batch"], variances: Float[Array, "m *batch"]) -> Flags:
    """For every record, whether x is finite and no variance is negative or close to overflow.

    With variances near the largest number a covariance may overflow though they do not. The sum
    of all numbers is finite only if each of them is.
    """
    limit = 1e-6 * float(jnp.finfo(variances.dtype).max)
    sum_x, sum_variances = total(x), total(variances)
    sum_x = _computed_once(sum_x, x)
    bounded = (jnp.abs(sum_x) <= limit) & (sum_variances <= limit)
    return bounded & every(variances >= 0.0)


def every(flags: Bool[Array, "n *batch"]) -> Flags:
    """For every record, whether all of its flags are set; XLA fuses no reduction into its users."""
    if not written_out(len(flags), batched=flags.ndim > 1):
        return jnp.all(flags, axis=0)
    return reduce(jnp.logical_and, list(flags))


def some(flags: Bool[Array, "n *batch"]) -> Flags:
    """For every record, whether any of its flags is set."""
    if not written_out(len(flags), batched=flags.ndim > 1):
        return jnp.any(flags, axis=0)
    return reduce(jnp.logical_or, list(flags))


def total(
    values: Float[Array, "n *batch"],
    start: Float[Array, "*batch"] | None = None,
    *,
    batched: bool | None = None,
) -> Float[Array, "*batch"]:
    """The sum of a vector's entries, after `start`; with `batched` these are vectors or not."""
    batched = values.ndim > 1 if batched is None else batched
    entries = (
        list(values) if written_out(len(values), batched=batched) else [jnp.sum(values, axis=0)]
    )
    return reduce(jnp.add, entries if start is None else [start, *entries])


def keep_where(ok: Flags, values: T, otherwise: T) -> T:
    """`values` for the valid records, `otherwise` for the rest.

    A branch, because nearly always all records are valid; it also prevents fusion.
    """

    def choose(v, o):
        return jax.tree.map(lambda a, b: jnp.where(ok, a, b), v, o)

    if _one_large(values):
        return choose(values, otherwise)
    return jax.lax.cond(jnp.all(ok), lambda v, o: v, choose, values, otherwise)


def _one_large(values: Any) -> bool:
    """Whether these are of one record and large: library routines are not fused."""
    largest = max(jax.tree.leaves(values), key=lambda a: a.ndim)
    return largest.ndim == 2 and not written_out(max(largest.shape), batched=False)
