"""A thousand Lorenz records of 600 steps smoothed: our filters, and dynamax's extended smoother.

Same data, same f and h with automatic Jacobians, one run. Usage: python benchmarks/smoothing.py
"""

import jax
from dynamax.nonlinear_gaussian_ssm import extended_kalman_smoother
from dynamax_ekf import over_records
from timing import race, show

import sagewing as sw
from sagewing.problems.chaos import ALIGNED, DT, LORENZ, Q_BASE, R_BASE, episodes

RUNS, STEPS = 1000, 600


def dynamax_smoother(params, z):
    """Filtered and smoothed estimates, as our result has them."""
    out = extended_kalman_smoother(params, z)
    filtered = out.filtered_means, out.filtered_covariances, out.marginal_loglik
    return filtered, out.smoothed_means, out.smoothed_covariances


def main() -> None:
    model = sw.models.Lorenz(jacobian="exact")
    records = episodes(jax.random.key(0), LORENZ, ALIGNED, RUNS, STEPS)
    x0, P0, z = records[:3]
    filters = {
        "sagewing EKF": sw.EKF(model, Q_BASE, R_BASE),
        "sagewing Sage-Husa": sw.SageHusa(model, Q_BASE, R_BASE),
        "sagewing universal": sw.NDRSageHusa(
            model, Q_BASE, R_BASE, sw.Policy.pretrained("universal")
        ),
    }
    contenders = {"dynamax smoother": over_records(dynamax_smoother, model, records)}
    for name, filt in filters.items():
        contenders[f"{name}, smoothed"] = lambda filt=filt: sw.run(
            filt, x0, P0, z, dt=DT, smooth=True
        )[:-1]
    seconds = race(contenders)
    show(f"{RUNS} x {STEPS} steps, time for each step", seconds, "dynamax smoother", RUNS * STEPS)


if __name__ == "__main__":
    main()
