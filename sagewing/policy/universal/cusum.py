"""Is anything wrong at all? Until the innovations prove it, the nominal noise stands.

While the nominal noise is right, a whitened innovation is normal, of variance 1, and independent of
what went before it. Each test adds up, never below zero, the logarithm of how much better another
hypothesis explains the innovations (CUSUM): their variance is another, or a larger gain would have
expected them, or both. Where nothing is wrong a test that begins at zero comes to a sum of `proof`
no more often than every exp(proof) steps (Lorden 1971); one that begins at `first` does so before
it has ever come back to zero with a chance of exp(first - proof) at most.

What is proven once stays so: from then on innovations are those of the adapted filter, and say
nothing of the nominal one.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.shapes import Arrived, Measurements, Values

# Hypotheses on all channels together, and on the variance of one: that over what S says, the share
# by which every gain should have been larger, and the sum that the test begins with: what is wrong
# is mostly wrong from the beginning. Many channels that are tested one by one share a chance of
# being wrong: each begins lower by the logarithm of their number.
TOGETHER = (
    (4.0, 0.0, 6.0),  # R is too small
    (1.2, 0.7, 6.0),  # Q is too small: what ten times as much looks like in few channels
    (1.0, -1.0, 3.0),  # Q is too large
    (0.5, 0.5, 3.0),  # R is too large
)
ALONE = ((3.0, 6.0), (1.0 / 3.0, 3.0))
MOST = 20.0  # a sum goes no further: it must be able to come back
LEAST_PROOF = max(first for *_, first in (*TOGETHER, *ALONE))


class Doubt(NamedTuple):
    """The sums of all tests, and whether one of them has ever come to a proof."""

    alone: Float[Array, "hypotheses n_z *batch"]
    together: Float[Array, "hypotheses *batch"]
    proven: Values


def none_yet(r: Measurements) -> Doubt:
    """Nothing seen yet."""
    shared = math.log(len(r))
    alone = jnp.stack([jnp.full_like(r, max(first - shared, 0.0)) for *_, first in ALONE])
    together = jnp.stack([jnp.full_like(r[0], first) for *_, first in TOGETHER])
    return Doubt(alone, together, jnp.zeros_like(r[0]))


def weighed(
    doubt: Doubt,
    proof: float,
    white: Measurements,
    by_gain: Measurements,
    squares: Measurements,
    arrived: Arrived,
) -> Doubt:
    """One more innovation: whitened, what the sway expects of that, and its squares over S."""
    count = jnp.sum(arrived, axis=0, dtype=white.dtype)
    square, along, own = (
        jnp.sum(a * b, axis=0) for a, b in ((white, white), (white, by_gain), (by_gain, by_gain))
    )
    together = [
        0.5 * square - 0.5 / rho * (square - 2.0 * c * along + c**2 * own) - _half_log(rho) * count
        for rho, c, _ in TOGETHER
    ]
    alone = [0.5 * (1.0 - 1.0 / rho) * squares - _half_log(rho) * arrived for rho, _ in ALONE]
    alone, together = (
        jnp.clip(before + jnp.stack(more), 0.0, MOST)
        for before, more in ((doubt.alone, alone), (doubt.together, together))
    )
    proven = jnp.any(alone > proof, axis=(0, 1)) | jnp.any(together > proof, axis=0)
    return Doubt(alone, together, jnp.where(proven, 1.0, doubt.proven))


def _half_log(rho: float) -> float:
    return 0.5 * math.log(rho)
