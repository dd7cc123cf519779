"""A fixed lag in C: a step that keeps what the smoother needs against one that does not, and
`smoothed(20)`, in loops of C that take turns in one program."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

import sagewing as sw
from sagewing.codegen.lag import lag_source
from sagewing.codegen.source import c_source
from sagewing.problems.named import problem_named
from sagewing.problems.problem import draw_record
from sagewing.runtime.cache import FLAGS
from sagewing.studies.latency import write

ROWS, LAG = 300, 20
LOOP = f"""
#define _POSIX_C_SOURCE 199309L
#include "sagewing_lag.h"
#include "record.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

static sw_state state;
static sw_estimate estimate;
static sw_kept kept[{LAG} + 1];
static sw_lag lag;
static sw_real x[SW_NX], P[SW_NDX * SW_NDX];

static double seconds(void)
{{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}}

static void steps(void)
{{
    sw_init(&state, x0, P0);
    for (int k = 0; k < ROWS; ++k) sw_step(&state, z[k], u[k], (sw_real)0.01, &estimate);
}}

static void kept_steps(void)
{{
    sw_lag_init(&lag, kept, {LAG} + 1, x0, P0);
    for (int k = 0; k < ROWS; ++k) sw_lag_step(&lag, z[k], u[k], (sw_real)0.01, &estimate);
}}

static void smoothed(void)
{{
    for (int k = 0; k < ROWS; ++k) sw_lag_smoothed(&lag, {LAG}, x, P);
}}

int main(void)
{{
    void (*const each[])(void) = {{steps, kept_steps, smoothed}};
    double best[] = {{1e9, 1e9, 1e9}};
    for (int round = 0; round < 100; ++round) {{
        for (int i = 0; i < 3; ++i) {{
            const double start = seconds();
            each[i]();
            const double taken = (seconds() - start) / ROWS;
            best[i] = taken < best[i] ? taken : best[i];
        }}
    }}
    printf("%.9g %.9g %.9g\\n", best[0], best[1], best[2]);
    return isfinite(x[0]) ? 0 : 1;
}}
"""
CASES = {"3 errors": "lorenz", "18 errors": "quadrotor-error-state"}


def microseconds(name: str, folder: Path) -> list[float]:
    """Of a step, of one that keeps, and of the smoothed estimate."""
    problem = problem_named(name, {})
    filt = sw.EKF(problem.model, problem.q, problem.r)
    z, u = draw_record(problem, ROWS, 0)
    u = u if problem.n_u else np.zeros((ROWS, 1))
    write(c_source(filt, problem.n_u, dtype=np.float32), folder)
    arrays = {"x0": problem.x0, "P0": np.ravel(problem.P0), "z": z, "u": u}
    record = f"#include <math.h>\n#define ROWS {ROWS}\n"
    for key, a in arrays.items():
        sizes = "".join(f"[{n}]" for n in np.shape(a))
        rows = ", ".join("NAN" if np.isnan(v) else repr(float(v)) for v in np.ravel(a))
        record += f"static const sw_real {key}{sizes} = {{{rows}}};\n"
    files = dict(lag_source(filt, problem.n_u, dtype=np.float32).files)
    for file, text in (files | {"loop.c": LOOP, "record.h": record}).items():
        (folder / file).write_text(text)
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    sources = [path.name for path in folder.glob("*.c")]
    subprocess.run(["cc", *flags, *sources, "-o", "loop", "-lm"], cwd=folder, check=True)
    said = subprocess.run([folder / "loop"], capture_output=True, check=True).stdout
    return [1e6 * float(seconds) for seconds in said.split()]


def main() -> None:
    print(f"{'us, best of 100':<16} {'step':>8} {'kept':>8} {'ratio':>8} {f'smoothed({LAG})':>14}")
    for label, name in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            step, kept, smoothed = microseconds(name, Path(folder))
        print(
            f"{label:<16} {step:8.3f} {kept:8.3f} {kept / step:7.2f}x {smoothed:14.2f}", flush=True
        )


if __name__ == "__main__":
    main()
