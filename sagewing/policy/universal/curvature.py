"""The error of the linearisation of f within the estimate's uncertainty."""

import jax
import jax.numpy as jnp

from sagewing.filters.kernels import diagonal
from sagewing.filters.step import Linearization
from sagewing.policy.universal.features import limited
from sagewing.policy.universal.settings import LARGEST_CURVATURE, TINY
from sagewing.shapes import Arrived, Errors


def curvature(
    linear: Linearization,
    probe_sigmas: float,
    sensitivity: Errors,
    propagated: Errors,
    arrived: Arrived,
) -> Errors:
    """f(x + dx) - f(x) - F dx, for a dx along the gain sensitivity; F times that is `propagated`.

    dx moves one state by `probe_sigmas` standard deviations. Zero if nothing arrives, so that P
    does not grow in proportion to itself.
    """
    largest = jnp.max(jnp.abs(sensitivity) / jnp.sqrt(diagonal(linear.P) + TINY), axis=0)
    scale = probe_sigmas / (largest + TINY)
    offset = linear.nonlinear_offset(scale * sensitivity) - scale * propagated
    offset = limited(offset, LARGEST_CURVATURE * jnp.sqrt(diagonal(linear.P_pred)))
    return jax.lax.stop_gradient(jnp.where(jnp.any(arrived, axis=0), offset, 0.0))
