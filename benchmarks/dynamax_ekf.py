"""dynamax's EKF: the yardstick for speed."""

import jax
import jax.numpy as jnp
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

from sagewing.problems.chaos import DT, Q_BASE, R_BASE


def dynamax_ekf_of(model, Q, R):
    """dynamax's EKF of a model with these variances, for one record: f(x0, P0, z)."""

    def one(x0, P0, z):
        params = ParamsNLGSSM(
            initial_mean=x0,
            initial_covariance=P0,
            dynamics_function=lambda x: model.transition(x, None, DT),
            dynamics_covariance=jnp.diag(jnp.asarray(Q)),
            emission_function=lambda x: model.observe(x, None),
            emission_covariance=jnp.diag(jnp.asarray(R)),
        )
        out = extended_kalman_filter(params, z)
        return out.filtered_means, out.filtered_covariances, out.marginal_loglik

    return one


def dynamax_ekf(model, records):
    """dynamax's EKF over all chaotic records, each from its own start."""
    run = jax.jit(jax.vmap(dynamax_ekf_of(model, Q_BASE, R_BASE), (0, None, 0)))
    return lambda: run(records.x0, records.P0, records.z)
