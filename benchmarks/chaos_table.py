"""The cost of every row of the chaos benchmark, against dynamax's EKF on the same records.

One chunk of a thousand Lorenz records of 600 steps, errors and NEES included for our filters.
Usage: python benchmarks/chaos_table.py
"""

import jax
from dynamax_ekf import dynamax_ekf
from timing import race, show

from sagewing.catalogue import CHAOS, ORACLE, shown_by
from sagewing.problems.chaos import ALIGNED, LORENZ, episodes
from sagewing.studies.chaos import build, oracle, score

RUNS, STEPS = 1000, 600


def main() -> None:
    model = LORENZ.model(ALIGNED)
    records = episodes(jax.random.key(0), LORENZ, ALIGNED, RUNS, STEPS)
    contenders = {"dynamax EKF": dynamax_ekf(model, records)}
    for name in shown_by(CHAOS):
        filt = oracle(LORENZ, ALIGNED, records) if name == ORACLE else build(name, LORENZ, ALIGNED)
        contenders[name] = lambda filt=filt: score(filt, records)
    seconds = race(contenders, rounds=5)
    show(f"{RUNS} x {STEPS} steps, time for each step", seconds, "dynamax EKF", RUNS * STEPS)


if __name__ == "__main__":
    main()
