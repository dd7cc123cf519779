"""How long a step takes: from Python with JAX or C, and in a loop of C."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sagewing.codegen.c99 import CSource
from sagewing.codegen.header import NAME
from sagewing.codegen.source import c_source
from sagewing.filters.protocols import Filter
from sagewing.runtime.cache import FLAGS
from sagewing.runtime.compiling import run_compiler
from sagewing.runtime.online import Online

TIMING = Path(__file__).parent / "timing"
BACKENDS = ("jax", "c", "c-loop")
WARM_UP = 200
ROUNDS = 5  # of a loop of C, whose short steps are disturbed by any other program


class TimedFilter(NamedTuple):
    """A filter, its initial state, and rows of measurements and inputs that are used cyclically."""

    filt: Filter
    x0: Float[np.ndarray, "n_x"]
    P0: Float[np.ndarray, "n_dx n_dx"]
    z: Float[np.ndarray, "T n_z"]
    u: Float[np.ndarray, "T n_u"]


def measured(case: TimedFilter, backend: str, steps: int) -> Float[np.ndarray, "rounds steps"]:
    """The microseconds of every step; a loop of C is timed in several rounds."""
    if backend == "c-loop":
        return _in_c(case, steps)
    return _from_python(case, backend, steps)[None]


def summary(us: Float[np.ndarray, "rounds steps"]) -> dict[str, Any]:
    """Statistics of the round with the smallest 99th percentile, and quantiles of every round."""
    p99 = np.quantile(us, 0.99, axis=1)
    quietest = us[np.argmin(p99)]
    return {
        "us_median": float(np.median(quietest)),
        "us_p99": float(np.min(p99)),
        "us_worst": float(np.max(quietest)),
        "us_p99_of_rounds": p99.tolist(),
        "us_median_of_rounds": np.median(us, axis=1).tolist(),
    }


def _from_python(case: TimedFilter, backend: Any, steps: int) -> np.ndarray:
    z = case.z.astype(np.float32)
    u = list(case.u.astype(np.float32)) if case.u.shape[1] else [None] * len(z)
    online = Online(case.filt, case.x0, case.P0, backend=backend)
    microseconds = np.empty(steps)
    done = jax.block_until_ready if backend == "jax" else lambda x: None  # C has no queue
    for k in range(-WARM_UP, steps):
        row = k % len(z)
        before = time.perf_counter_ns()
        x, _ = online.step(z[row], u[row], 0.01)
        done(x)
        after = time.perf_counter_ns()
        if k >= 0:
            microseconds[k] = 1e-3 * (after - before)
    return microseconds


def _in_c(case: TimedFilter, steps: int) -> np.ndarray:
    """Time a separate program, compiled with the flags of the library that Python calls."""
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    with loop(case, ["cc", *flags]) as program:
        program(WARM_UP)
        return np.stack([_round(program, steps) for _ in range(ROUNDS)])


def _round(program: "Loop", steps: int) -> np.ndarray:
    program(steps)
    return 1e-3 * np.frombuffer(program.nanoseconds.read_bytes())


class Loop(NamedTuple):
    """A program that runs steps in a loop and writes their times to a file."""

    command: tuple[str, ...]
    folder: Path
    rows: int

    @property
    def nanoseconds(self) -> Path:
        """The file of times."""
        return self.folder / "out"

    def __call__(self, steps: int) -> Float[np.ndarray, "n_x"]:
        """Run this number of steps; returns the state after the last one."""
        printed = run([*self.command, str(steps), str(self.rows), "in", "out"], self.folder)
        return np.array([float(line) for line in printed.split()])


@contextmanager
def loop(case: TimedFilter, compiler: list[str], emulator: tuple[str, ...] = ()) -> Iterator[Loop]:
    """The program of a case, built by this compiler in a temporary folder."""
    source = c_source(case.filt, case.u.shape[1], dtype=np.float32)
    numbers = np.concatenate([case.x0, case.P0.ravel(), np.hstack([case.u, case.z]).ravel()])
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write(source, folder)
        shutil.copy(TIMING / "loop.c", folder)
        run_compiler(
            [*compiler, "loop.c", f"{NAME}.c", "-o", "loop", "-lm"], folder
        ).check_returncode()
        (folder / "in").write_bytes(numbers.astype(np.float32).tobytes())
        yield Loop((*emulator, "./loop"), folder, len(case.z))


def write(source: CSource, folder: Path) -> None:
    """Write the two files of a filter's C."""
    (folder / f"{NAME}.h").write_text(source.header)
    (folder / f"{NAME}.c").write_text(source.code)


def run(command: list[str], folder: Path) -> str:
    """Run a command; returns its standard output."""
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
