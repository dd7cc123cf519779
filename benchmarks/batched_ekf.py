"""A thousand Lorenz records of 600 steps: sagewing's filters against dynamax's EKF.

Same data, same f and h with automatic Jacobians, one run. Usage: python benchmarks/batched_ekf.py
"""

import jax
import jax.numpy as jnp
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter
from timing import race, show

import sagewing as sw
from sagewing.sim.chaos import ALIGNED, DT, LORENZ, Q_BASE, R_BASE, episodes

RUNS, STEPS = 1000, 600


def main() -> None:
    model = sw.models.Lorenz(jacobian="exact")
    records = episodes(jax.random.key(0), LORENZ, ALIGNED, RUNS, STEPS)
    x0 = records.x0[0]

    def f(x):
        return model.transition(x, None, DT)

    params = ParamsNLGSSM(
        initial_mean=x0,
        initial_covariance=records.P0,
        dynamics_function=f,
        dynamics_covariance=jnp.diag(jnp.asarray(Q_BASE)),
        emission_function=lambda x: model.observe(x, None),
        emission_covariance=jnp.diag(jnp.asarray(R_BASE)),
    )

    @jax.jit
    def dynamax(z):
        def one(z):
            out = extended_kalman_filter(params, z)
            return out.filtered_means, out.filtered_covariances, out.marginal_loglik

        return jax.vmap(one)(z)

    policy = sw.Policy(sw.Architecture(3, 2), key=jax.random.key(0))
    filters = {
        "sagewing EKF": sw.EKF(model, Q_BASE, R_BASE),
        "sagewing Sage-Husa": sw.SageHusa(model, Q_BASE, R_BASE),
        "sagewing NDR-SHKF (3 layers)": sw.NDRSageHusa(model, Q_BASE, R_BASE, policy),
    }
    contenders = {"dynamax EKF": lambda: dynamax(records.z)}
    for name, filt in filters.items():
        contenders[name] = lambda filt=filt: sw.run(filt, x0, records.P0, records.z, dt=DT)[:-1]
    seconds = race(contenders)
    show(f"{RUNS} x {STEPS} steps, time for each step", seconds, "dynamax EKF", RUNS * STEPS)


if __name__ == "__main__":
    main()
