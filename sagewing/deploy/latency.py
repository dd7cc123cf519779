"""How long a step takes: from Python with JAX or C, and in a loop of C; and whether it fits."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sagewing.deploy.c99 import Source, source
from sagewing.deploy.cache import FLAGS
from sagewing.deploy.header import NAME
from sagewing.deploy.online import Online

LOOP = Path(__file__).parent / "timing" / "loop.c"
BACKENDS = ("jax", "c", "c-loop")
WARM_UP = 200
# A Pixhawk's STM32H7: Cortex-M7, 2 MB of flash, 1 MB of RAM.
FLASH, RAM = 2 * 2**20, 2**20
CORTEX_M7 = ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard")


class Case(NamedTuple):
    """A filter, where it starts, and rows of measurements and inputs to go round and round."""

    filt: Any
    x0: Float[np.ndarray, "n_x"]
    P0: Float[np.ndarray, "n_x n_x"]
    z: Float[np.ndarray, "T n_z"]
    u: Float[np.ndarray, "T n_u"]


class Fit(NamedTuple):
    """Bytes of a build for a flight computer: code and tables; state, estimate and stack."""

    flash: int
    ram: int


def measured(case: Case, backend: str, steps: int) -> Float[np.ndarray, "steps"]:
    """The microseconds of every step."""
    return _in_c(case, steps) if backend == "c-loop" else _from_python(case, backend, steps)


def _from_python(case: Case, backend: Any, steps: int) -> np.ndarray:
    z = case.z.astype(np.float32)
    u = list(case.u.astype(np.float32)) if case.u.shape[1] else [None] * len(z)
    online = Online(case.filt, case.x0, case.P0, backend=backend)
    spent = np.empty(steps)
    for k in range(-WARM_UP, steps):
        row = k % len(z)
        before = time.perf_counter_ns()
        x, _ = online.step(z[row], u[row], 0.01)
        jax.block_until_ready(x)
        after = time.perf_counter_ns()
        if k >= 0:
            spent[k] = 1e-3 * (after - before)
    return spent


def _in_c(case: Case, steps: int) -> np.ndarray:
    """A program of its own, compiled as the library that Python calls is."""
    made = source(case.filt, case.u.shape[1], dtype=np.float32)
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    numbers = np.concatenate([case.x0, case.P0.ravel(), np.hstack([case.u, case.z]).ravel()])
    with tempfile.TemporaryDirectory() as work:
        _written(made, Path(work))
        shutil.copy(LOOP, work)
        _run(["cc", *flags, "loop.c", f"{NAME}.c", "-o", "loop", "-lm"], work)
        Path(work, "in").write_bytes(numbers.astype(np.float32).tobytes())
        for count in (WARM_UP, steps):
            _run(["./loop", str(count), str(len(case.z)), "in", "out"], work)
        return 1e-3 * np.frombuffer(Path(work, "out").read_bytes())


def on_cortex_m7(made: Source) -> Fit | None:
    """The size of a build for a Cortex-M7 in single precision; None without a cross compiler."""
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as work:
        _written(made, Path(work))
        flags = ["-std=c99", "-O2", *CORTEX_M7, "-fstack-usage"]
        _run([compiler, *flags, "-c", f"{NAME}.c"], work)
        said = _run(["arm-none-eabi-size", f"{NAME}.o"], work).splitlines()[1].split()
        text, data, bss = (int(number) for number in said[:3])
        used = (Path(work) / f"{NAME}.su").read_text().splitlines()
        stack = max(int(line.split("\t")[1]) for line in used)
    state = 4 * sum(field.size for field in (*made.program.state, *made.program.estimate))
    return Fit(text + data, data + bss + state + stack)


def _written(made: Source, folder: Path) -> None:
    (folder / f"{NAME}.h").write_text(made.header)
    (folder / f"{NAME}.c").write_text(made.code)


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
