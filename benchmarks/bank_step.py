"""A bank of 25 EKFs in C against one EKF: ratios of processor time in a loop of C, in one run."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from sagewing import catalogue
from sagewing.codegen.header import NAME
from sagewing.codegen.source import c_source
from sagewing.filters import Filter
from sagewing.problems.named import problem_named
from sagewing.problems.problem import Problem, draw_record
from sagewing.runtime.cache import FLAGS
from sagewing.studies.latency import write

ROUNDS = 7
ROWS = 1000
LOOP = """
#define _POSIX_C_SOURCE 199309L
#include "sagewing_filter.h"
#include "record.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void)
{
    static sw_state state;
    static sw_estimate estimate;
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
        sw_init(&state, x0, P0);
        const double start = seconds();
        for (int k = 0; k < ROWS; ++k) sw_step(&state, z[k], u[k], (sw_real)0.01, &estimate);
        const double taken = (seconds() - start) / ROWS;
        best = taken < best ? taken : best;
    }
    printf("%.9g\\n", best);
    return isfinite(estimate.x[0]) ? 0 : 1;
}
"""
# The largest ratio that we allow
CASES = {"lorenz": 6.0, "quadrotor": 12.0, "quadrotor-error-state": 12.0}


def loop(folder: Path, filt: Filter, problem: Problem) -> Path:
    """The program that filters a simulated record in C, again and again."""
    folder.mkdir()
    z, u = draw_record(problem, ROWS, 0)
    u = u if problem.n_u else np.zeros((ROWS, 1))
    made = c_source(filt, problem.n_u, dtype=np.float32)
    write(made, folder)
    (folder / "loop.c").write_text(LOOP)
    record = f"#define ROWS {ROWS}\n"
    for name, a in {"x0": problem.x0, "P0": np.ravel(problem.P0), "z": z, "u": u}.items():
        sizes = "".join(f"[{n}]" for n in np.shape(a))
        rows = ", ".join("NAN" if np.isnan(v) else repr(float(v)) for v in np.ravel(a))
        record += f"static const sw_real {name}{sizes} = {{{rows}}};\n"
    (folder / "record.h").write_text(f"#include <math.h>\n{record}")
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    command = ["cc", *flags, f"{NAME}.c", "loop.c", "-o", "loop", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "loop"


def seconds(name: str, folder: Path) -> tuple[float, float]:
    """Seconds a step of one EKF and of the bank, each in its fastest round."""
    problem = problem_named(name, {})
    loops = []
    for kind in ("ekf", catalogue.BANK):
        filt = catalogue.build(kind, problem.model, problem.q, problem.r)
        loops.append(loop(folder / kind, filt, problem))
    best = [np.inf, np.inf]
    for _ in range(ROUNDS):
        for i, program in enumerate(loops):
            taken = float(subprocess.run([program], capture_output=True, check=True).stdout)
            best[i] = min(best[i], taken)
    return best[0], best[1]


def main() -> None:
    """Print a row for each model."""
    print(f"{'us a step, best of rounds':<26} {'EKF':>8} {'bank':>8} {'ratio':>7} {'limit':>6}")
    for name, limit in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            one, bank = seconds(name, Path(folder))
        row = f"{1e6 * one:8.3f} {1e6 * bank:8.3f} {bank / one:6.1f}x {limit:5.0f}x"
        print(f"{name:<26} {row}", flush=True)


if __name__ == "__main__":
    main()
