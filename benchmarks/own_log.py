"""Ten minutes of a PX4 log at 1000 Hz: `sagewing run` against filterpy's EKF on the same rows.

The log is made up: a pose with 2 cm of noise comes 100 times a second. filterpy runs over the
first rows only, with our model's f, h and Jacobians as plain numpy functions of JAX's compiled
ones. Usage: python benchmarks/own_log.py [SECONDS]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import filterpy.kalman
import jax
import numpy as np

from sagewing.logs.estimate.estimate import measurements
from sagewing.logs.readers.read import read_log
from sagewing.logs.timeline import timeline
from sagewing.models import QuadrotorKinematic
from sagewing.problems.flight.setup import P0, Q0, R0

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import log_files

FILTERS = "ekf,shkf995,ndr"
ROWS = 5000  # of filterpy


def with_filterpy(path: Path) -> float:
    """Seconds a row of filterpy's EKF: a prediction at each, a correction where a pose came."""
    line = timeline(read_log(path))
    z = measurements(line, np.zeros(len(line.t), bool))
    model = QuadrotorKinematic(jacobian="euler")
    f, h = jax.jit(model.transition), jax.jit(model.observe)
    F, H = jax.jit(model.transition_jacobian), jax.jit(model.observe_jacobian)
    ekf = filterpy.kalman.ExtendedKalmanFilter(dim_x=19, dim_z=6)
    ekf.x, ekf.P, ekf.Q, ekf.R = np.eye(19)[6], P0.copy(), np.diag(Q0) / 10, np.diag(R0[0])

    def row(i: int) -> None:
        u, dt = line.imu[i], line.dt[i]
        ekf.F = np.asarray(F(ekf.x, u, dt))
        ekf.x = np.asarray(f(ekf.x, u, dt))
        ekf.P = ekf.F @ ekf.P @ ekf.F.T + ekf.Q
        if np.isfinite(z[i]).all():
            ekf.update(z[i], lambda x: np.asarray(H(x, u)), lambda x: np.asarray(h(x, u)))

    for _ in range(50):  # compilation, and the first steps
        row(0)
    began = time.perf_counter()
    for i in range(ROWS):
        row(i)
    return (time.perf_counter() - began) / ROWS


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flight.ulg"
        made = log_files.with_noise(log_files.flown(seconds, 1000.0, 100.0))
        path.write_bytes(log_files.ulog_bytes(log_files.px4(made)))
        rows = int(1000 * seconds)
        for again in ("compiling", "compiled"):
            command = [sys.executable, "-m", "sagewing", "run", path, "--filter", FILTERS]
            command += ["--out", Path(folder) / again, "--quiet"]
            timed = ["/usr/bin/time", "-f", "%e %U %M", *map(str, command)]
            said = subprocess.run(timed, check=True, capture_output=True, text=True).stderr
            wall, user, memory = map(float, re.findall(r"[\d.]+", said.splitlines()[-1]))
            print(
                f"sagewing run, {again}: {wall:.1f} s, {user:.1f} s of CPU, {memory / 1e6:.2f} GB"
            )
        each = with_filterpy(path)
        print(
            f"filterpy's EKF alone: {1e6 * each:.0f} us a row, so {rows * each:.0f} s for the log"
        )
        print(f"three filters, reading and the page: {rows * each / wall:.1f}x as fast as that")


if __name__ == "__main__":
    main()
