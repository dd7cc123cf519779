"""The cost of every row of the chaos benchmark, against dynamax's EKF on the same records.

One chunk of a thousand Lorenz records of 600 steps, errors and NEES included for our filters.
Usage: python benchmarks/chaos_table.py
"""

import jax
import jax.numpy as jnp
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter
from timing import race, show

from sagewing.bench.chaos import FILTERS, ORACLE, build, oracle, score
from sagewing.sim.chaos import ALIGNED, DT, LORENZ, Q_BASE, R_BASE, episodes

RUNS, STEPS = 1000, 600


def dynamax_ekf(model, records):
    """dynamax's EKF over all records, each from its own start."""

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
            out = extended_kalman_filter(params, z)
            return out.filtered_means, out.filtered_covariances

        return jax.vmap(one)(x0, z)

    return lambda: run(records.x0, records.z)


def main() -> None:
    model = LORENZ.model(ALIGNED)
    records = episodes(jax.random.key(0), LORENZ, ALIGNED, RUNS, STEPS)
    contenders = {"dynamax EKF": dynamax_ekf(model, records)}
    for name in FILTERS:
        told = oracle(LORENZ, ALIGNED, records) if name == ORACLE else None
        filt = told or build(name, model, ALIGNED)
        contenders[name] = lambda filt=filt: score(filt, records)
    seconds = race(contenders, rounds=5)
    show(f"{RUNS} x {STEPS} steps, time for each step", seconds, "dynamax EKF", RUNS * STEPS)


if __name__ == "__main__":
    main()
