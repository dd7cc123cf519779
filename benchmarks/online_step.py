"""One online step: C in a C loop, C called from Python, and jitted JAX, in turn in one run."""

import subprocess
import tempfile
import timeit
from functools import partial
from pathlib import Path

import numpy as np

import sagewing as sw
from sagewing.codegen.header import NAME
from sagewing.codegen.source import c_source
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.flight.setup import P0, Q0, R0, estimator
from sagewing.runtime.cache import FLAGS
from sagewing.studies.flight import build

ROUNDS = 5
LOOP = """
#define _POSIX_C_SOURCE 199309L
#include "sagewing_filter.h"
#include <stdio.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void)
{
    static const sw_real x0[] = {%s}, P0[] = {%s}, u[] = {%s}, z[] = {%s};
    sw_real seen[SW_NZ];
    sw_state state;
    sw_estimate estimate;
    double best = 1e9;
    for (int round = 0; round < 100; ++round) {
        sw_init(&state, x0, P0);
        const double start = seconds();
        for (int k = 0; k < 1000; ++k) {
            for (int i = 0; i < SW_NZ; ++i) seen[i] = z[i] + (sw_real)(k %% 5 - 2) * (sw_real)0.01;
            sw_step(&state, seen, u, (sw_real)0.01, &estimate);
        }
        const double taken = (seconds() - start) / 1000;
        best = taken < best ? taken : best;
    }
    printf("%%.9g\\n", best);
    return 0;
}
"""


def cases():
    """Filter, x0, P0, z and u of each row."""
    lorenz, flight = sw.models.Lorenz(), estimator()
    policy = sw.Policy.pretrained("flight-sim-paper-ndr")
    start, noise = (np.array([-8.0, -6.0, 25.0]), np.eye(3)), ([0.01] * 3, [1.0, 2.0])
    hover = np.eye(19)[6], P0
    u = np.array([0, 0, 0, 9.81, 0, 0, 0, 0.5, 0.5, 0.5, 0.5])
    small = sw.Policy.pretrained("chaos")
    error_state = estimator(attitude="error-state")
    errors = NOMINAL["error-state"]
    turning = hover[0], errors.P0
    return {
        "EKF, 3 states": (sw.EKF(lorenz, *noise), *start, start[0][[0, 2]], None),
        "EKF, 3 states, root of P": (
            sw.EKF(lorenz, *noise, square_root=True),
            *start,
            start[0][[0, 2]],
            None,
        ),
        "NDR-SHKF, 3 states": (
            sw.NDRSageHusa(lorenz, *noise, small),
            *start,
            start[0][[0, 2]],
            None,
        ),
        "EKF, 19 states": (sw.EKF(flight, Q0, R0), *hover, np.zeros(6), u),
        "EKF, 18 errors": (sw.EKF(error_state, errors.Q0, R0), *turning, np.zeros(6), u),
        "NDR-SHKF, 19 states": (build("ndr", flight, policy), *hover, np.zeros(6), u),
    }


def c_loop(folder, filt, x0, P0, z, u):
    """The program that takes the steps in C."""
    made = c_source(filt, 0 if u is None else u.size, dtype=np.float32)
    arrays = (x0, P0, [0.0] if u is None else u, z)
    numbers = [", ".join(repr(float(v)) for v in np.ravel(a)) for a in arrays]
    for name, text in ((f"{NAME}.h", made.header), (f"{NAME}.c", made.code), ("loop.c", LOOP)):
        (folder / name).write_text(text % tuple(numbers) if name == "loop.c" else text)
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    command = ["cc", *flags, f"{NAME}.c", "loop.c", "-o", "loop", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "loop"


def fastest(step, steps):
    """Seconds a step, in the fastest tenth of so many."""
    return min(timeit.repeat(step, number=steps // 10, repeat=10)) / (steps // 10)


def main() -> None:
    print(f"{'us a step, best of rounds':<24} {'C loop':>8} {'C':>8} {'JAX':>8} {'JAX / C':>8}")
    for name, (filt, x0, P_start, z, u) in cases().items():
        z = np.asarray(z, np.float32)
        u = None if u is None else np.asarray(u, np.float32)
        with tempfile.TemporaryDirectory() as folder:
            loop = c_loop(Path(folder), filt, x0, P_start, z, u)
            online = {b: sw.Online(filt, x0, P_start, backend=b) for b in ("c", "jax")}
            for one in online.values():
                one.step(z, u, 0.01)
            best = dict.fromkeys(("loop", "c", "jax"), np.inf)
            for _ in range(ROUNDS):
                taken = float(subprocess.run([loop], capture_output=True, check=True).stdout)
                best["loop"] = min(best["loop"], 1e6 * taken)
                for backend, steps in (("c", 5000), ("jax", 300)):
                    taken = fastest(partial(online[backend].step, z, u, 0.01), steps)
                    best[backend] = min(best[backend], 1e6 * taken)
        row = "".join(f" {best[key]:8.2f}" for key in ("loop", "c", "jax"))
        print(f"{name:<24}{row} {best['jax'] / best['c']:7.1f}x", flush=True)


if __name__ == "__main__":
    main()
