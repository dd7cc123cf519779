"""A flight log from `sagewing inspect` to C, as you would do it with a log of your own.

Writes a simulated flight as a log, looks at it, runs filters on it with the pose hidden for two
seconds, and exports the learned one as C.

    python examples/flight_log.py out/flight-log
    python examples/flight_log.py --log FLIGHT.npz          # writes the log, and nothing else
"""

import argparse
from pathlib import Path

import numpy as np

from sagewing.cli.main import main as sagewing
from sagewing.sim.plant import circle_flights

CIRCLE = 0  # the slowest of three
EVERY = 2  # a pose with every second reading of the IMU: 50 Hz of 100
POSITION_STD, ATTITUDE_STD = 0.05, 0.02  # m and rad: a good positioning system
FAR, FAR_STD = 0.01, 0.25  # one position in a hundred is off by a quarter of a metre


def write_log(path: Path, seed: int = 0) -> None:
    """Ten seconds along a circle; the arrays are those of docs/logs.md."""
    flown = circle_flights(seed)[CIRCLE]
    draw = np.random.default_rng(seed)
    t, position, quaternion = (a[::EVERY] for a in (flown.t, flown.position, flown.quaternion))
    std = np.where(draw.random((len(t), 1)) < FAR, FAR_STD, POSITION_STD)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        imu_t=flown.t,
        acc=flown.imu[:, :3],
        gyro=flown.imu[:, 3:],
        pose_t=t,
        pos=position + std * draw.standard_normal(position.shape),
        quat_wxyz=turned(quaternion, ATTITUDE_STD * draw.standard_normal((len(t), 3))),
        truth_t=flown.t,
        truth_pos=flown.position,
        truth_quat_wxyz=flown.quaternion,
    )


def turned(q: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Unit quaternions (w, x, y, z), each turned by small angles about the body's axes."""
    w, v = q[:, :1], q[:, 1:]
    half = 0.5 * angles
    product = np.hstack(
        [
            w - np.sum(v * half, axis=1, keepdims=True),
            v + w * half + np.cross(v, half),
        ]
    )
    return product / np.linalg.norm(product, axis=1, keepdims=True)


def step(*command: str) -> None:
    """Print a command and run it."""
    print(f"\n$ sagewing {' '.join(command)}", flush=True)
    sagewing(list(command))


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description="A flight log from inspect to C.")
    parser.add_argument("out", type=Path, nargs="?", default=Path("out/flight-log"))
    parser.add_argument("--log", type=Path, help="write the simulated log here, and nothing else")
    given = parser.parse_args()
    log = given.log or given.out / "flight.npz"
    write_log(log)
    print(f"Written: {log}")
    if given.log:
        return
    step("inspect", str(log))
    filters = ("--filter", "ekf,ekf-gated,ndr", "--outage", "4:6")
    step("run", str(log), *filters, "--out", str(given.out / "run"), "--force")
    step("export", "flight-sim-good-ndr", "--out", str(given.out / "c"), "--force")
    print(f"\nNext: make -C {given.out / 'c'} check; then open {given.out / 'run'}/report.html")


if __name__ == "__main__":
    main()
