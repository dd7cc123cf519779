"""dynamax over a batch of chaotic records: the yardstick for speed."""

import jax
import jax.numpy as jnp
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

from sagewing.problems.chaos import DT, Q_BASE, R_BASE


def dynamax_ekf(model, records):
    """dynamax's EKF over all records, each from its own start."""
    return over_records(filtered, model, records)


def filtered(params, z):
    """dynamax's EKF over one record."""
    out = extended_kalman_filter(params, z)
    return out.filtered_means, out.filtered_covariances, out.marginal_loglik


def over_records(estimate, model, records):
    """`estimate(params, z)` over all records, each from its own start."""

    @jax.jit
    def run(x0, z):
        def one(x0, z):
            params = ParamsNLGSSM(
                initial_mean=x0,
                initial_covariance=records.P0,
                dynamics_function=lambda x: model.transition(x, None, DT),
                dynamics_covariance=jnp.diag(jnp.asarray(Q_BASE)),
                emission_function=lambda x: model.observe(x, None),
                emission_covariance=jnp.diag(jnp.asarray(R_BASE)),
            )
            return estimate(params, z)

        return jax.vmap(one)(x0, z)

    return lambda: run(records.x0, records.z)
