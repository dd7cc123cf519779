"""A thousand Lorenz records of 600 steps: our filters, on JAX and on C, and dynamax's EKF.

Same data, same f and h with automatic Jacobians, one run. Usage: python benchmarks/batched_ekf.py
"""

import jax
from dynamax_ekf import dynamax_ekf
from timing import race, show

import sagewing as sw
from sagewing.problems.chaos import ALIGNED, DT, LORENZ, Q_BASE, R_BASE, episodes

RUNS, STEPS = 1000, 600


def main() -> None:
    model = sw.models.Lorenz(jacobian="exact")
    records = episodes(jax.random.key(0), LORENZ, ALIGNED, RUNS, STEPS)
    x0, P0, z = records[:3]
    policy = sw.Policy(sw.Architecture(3, 2), key=jax.random.key(0))
    filters = {
        "sagewing EKF": sw.EKF(model, Q_BASE, R_BASE),
        "sagewing Sage-Husa": sw.SageHusa(model, Q_BASE, R_BASE),
        "sagewing NDR-SHKF": sw.NDRSageHusa(model, Q_BASE, R_BASE, policy),
    }
    contenders = {"dynamax EKF": dynamax_ekf(model, records)}
    for name, filt in filters.items():
        contenders[name] = lambda filt=filt: sw.run(filt, x0, P0, z, dt=DT)[:-1]
        contenders[f"{name}, C"] = lambda filt=filt: sw.run(filt, x0, P0, z, dt=DT, backend="c")[
            :-1
        ]
    seconds = race(contenders)
    show(f"{RUNS} x {STEPS} steps, time for each step", seconds, "dynamax EKF", RUNS * STEPS)


if __name__ == "__main__":
    main()
