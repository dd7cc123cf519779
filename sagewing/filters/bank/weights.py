"""The weights of a bank's members, as logarithms: finite in float32, and never all zero.

A member's weight is its probability by Bayes' rule, with two changes against models that are all
wrong: the likelihood has heavy tails, so that one outlier does not decide, and old evidence fades.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sagewing.filters.equations import LOG_2PI
from sagewing.filters.gain import IMPLAUSIBLE
from sagewing.filters.step import Step

# The smallest log weight: exp of it is a normal number in float32.
FLOOR = -80.0
# The log-likelihood of a member whose step failed, below that of the least likely other one.
FAILED = 5.0
# A number below all log-likelihoods
LOWEST = -1e30

PerMember = Float[Array, "members *batch"]


def normalized(log_weights: PerMember) -> PerMember:
    """Log weights of a sum of one; none is below the floor."""
    return jnp.maximum(log_weights - log_sum(log_weights)[None], FLOOR)


def probabilities(logs: PerMember) -> tuple[PerMember, PerMember]:
    """The normalised log weights, none below the floor, and the weights."""
    largest = jnp.max(logs, axis=0)
    weights = jnp.exp(logs - largest[None])
    total = jnp.sum(weights, axis=0)
    return jnp.maximum(logs - (largest + jnp.log(total))[None], FLOOR), weights / total


def log_sum(logs: PerMember) -> Float[Array, "*batch"]:
    """log of the sum of exp over the members, of which some may be -inf."""
    largest = jnp.maximum(jnp.max(logs, axis=0), LOWEST)
    return largest + jnp.log(jnp.sum(jnp.exp(logs - largest[None]), axis=0))


class Evidence(NamedTuple):
    """The log-likelihood of a measurement for each member, between two limits.

    They are equal, or -inf and inf where the member's step failed.
    """

    low: PerMember
    high: PerMember


def evidence(logs: PerMember, failed: Bool[Array, "*each"]) -> Evidence:
    """That of a log-likelihood; one that is not finite has failed, too."""
    failed = failed | ~jnp.isfinite(logs)
    return Evidence(jnp.where(failed, -jnp.inf, logs), jnp.where(failed, jnp.inf, logs))


def penalized(given: Evidence) -> PerMember:
    """The log-likelihoods, where a member that failed is less likely than all others."""
    lowest = jnp.min(given.high, axis=0)
    lowest = jnp.where(jnp.isfinite(lowest), lowest, 0.0)
    return jnp.maximum(given.low, lowest[None] - FAILED)


def log_likelihood(
    step: Step,
    arrived: Bool[Array, "n_z *each"],
    refused: Bool[Array, "n_z *each"],
    dof: float | None,
) -> Float[Array, "*each"]:
    """Of a step's measurement, for each member: Student's t, or normal without `dof`.

    With `dof` degrees of freedom and m measured channels it is, but for what is equal for all
    members, -1/2 log det S - (dof + m) / 2 log(1 + NIS / dof). A channel that a member refused
    counts as an innovation at the limit of what it would not have refused.
    """
    limit = IMPLAUSIBLE**2
    log_det = -2.0 * step.loglik - step.nis  # with log(2 pi) for each channel that was used
    if step.innovation is not None:
        variance = step.innovation**2 / limit
        known = refused & jnp.isfinite(variance) & (variance > 0.0)
        each = jnp.log(jnp.where(known, variance, 1.0)) + LOG_2PI
        log_det = log_det + jnp.sum(jnp.where(known, each, 0.0), axis=0)
    nis = step.nis + limit * jnp.sum(refused.astype(step.nis.dtype), axis=0)
    if dof is None:
        return -0.5 * (log_det + nis)
    m = jnp.sum(arrived.astype(nis.dtype), axis=0)
    return -0.5 * (log_det + (dof + m) * jnp.log(1.0 + nis / dof))


def heaviest(log_weights: PerMember) -> jax.Array:
    """The first member of the largest weight: 1 for it, 0 for the others."""
    at = jnp.argmax(log_weights, axis=0)
    places = jnp.arange(len(log_weights)).reshape(-1, *(1,) * at.ndim)
    return places == at[None]
