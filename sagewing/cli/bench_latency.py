"""`sagewing bench latency`: how long a step takes, and whether it fits a flight computer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from sagewing import catalogue
from sagewing.catalogue import UNIVERSAL
from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.codegen.source import c_source
from sagewing.errors import InputError
from sagewing.policy import Noise
from sagewing.problems.named import ERROR_STATE, QUADROTOR, problem_named
from sagewing.problems.problem import Problem, draw_record
from sagewing.problems.weights import learned_part
from sagewing.report import latency
from sagewing.report.table import terminal
from sagewing.results import BenchResult
from sagewing.studies.arm import FLASH, RAM, on_cortex_m7, on_linux_arm
from sagewing.studies.latency import BACKENDS, TimedFilter, measured, summary

POLICIES = {
    "lorenz": "chaos-ndr-posterior-aligned",
    QUADROTOR: "flight-sim-paper-ndr-paper",
    ERROR_STATE: "flight-sim-paper-ndr",
}
FILTERS = ("ekf", "shkf99", "ndr")
# The policies that are timed, by learned filter and model; an ndr has one for each size.
LEARNED = {"ndr": POLICIES, UNIVERSAL: dict.fromkeys(POLICIES, "universal")}
KNOWN = ", ".join(
    entry.name
    for entry in catalogue.entries()
    if entry.build is not None and (entry.needs in (None, Noise) or entry.name in LEARNED)
)
RECORD = 1000  # rows of the record, which is used cyclically


@dataclass(frozen=True)
class BenchLatency:
    """Time the steps of EKF, Sage-Husa and NDR-SHKF at 3, 19 and 18 states, one by one.

    From Python with JAX, from Python with generated C, and in a loop of C. Where Debian's
    gcc-arm-none-eabi is installed, also the size of a program for a Cortex-M7, such as a Pixhawk's;
    with gcc-arm-linux-gnueabihf and qemu-user, whether 60 steps on ARM end where they end here.
    Single precision. A loop of C is timed in five rounds, of which the table shows the quietest and
    the file all. Prints the table; writes DIR/result.json.

    Example: sagewing bench latency --filters ekf,ndr --steps 10000
    """

    output: NewOutput = NewOutput(Path("out/bench-latency"))
    filters: Annotated[str, tyro.conf.arg(help=f"which: {KNOWN}")] = ",".join(FILTERS)
    models: str = ",".join(POLICIES)
    """which: lorenz, rossler, thomas (3 states), quadrotor (19), quadrotor-error-state (18)"""
    backends: str = ",".join(BACKENDS)
    """jax and c are called from Python, c-loop is C alone"""
    steps: int = 100_000
    """how many steps are timed"""
    seed: int = 0
    """draws the measurements"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "steps")
        self.output.check()
        filters, backends = self.filters.split(","), self.backends.split(",")
        for backend in backends:
            if backend not in BACKENDS:
                raise InputError(f"There is no backend {backend!r}; known: {', '.join(BACKENDS)}.")
        problems = {name: problem_named(name, {}) for name in self.models.split(",")}
        rows: list[dict[str, Any]] = []
        with console.progress() as bar:
            total = len(problems) * len(filters) * len(backends)
            task = bar.add_task("timings", total=total, note="compiling")
            for model, problem in problems.items():
                for name in filters:
                    case, size = _case(name, model, problem, self.seed)
                    for backend in backends:
                        times = summary(measured(case, backend, self.steps))
                        labels = {"filter": name, "model": model, "backend": backend}
                        rows.append({**labels, **times, **size})
                        bar.update(task, advance=1, note=f"{model}, {name}, {backend}")
        settings = {"steps": self.steps, "filters": filters, "backends": backends}
        result = BenchResult("bench latency", settings, self.seed, rows)
        self.output.write(result)
        console.out.print(terminal(latency.table(rows)))
        console.notes([*latency.tails(rows), *latency.on_arm(rows)])
        console.err.print(f"Written: {self.output.out / 'result.json'}")


def _case(name: str, model: str, problem: Problem, seed: int) -> tuple[TimedFilter, dict[str, Any]]:
    """A filter with a record to time it on, and the size of its C."""
    policies = LEARNED.get(name)
    learned = None if policies is None else learned_part(policies.get(model, policies["lorenz"]))[0]
    filt = catalogue.build(name, problem.model, problem.q, problem.r, learned)
    source = c_source(filt, problem.n_u, dtype=np.float32)
    footprint = on_cortex_m7(source)
    z, u = draw_record(problem, RECORD, seed)
    case = TimedFilter(filt, problem.x0, problem.P0, z, u)
    fits = None if footprint is None else footprint.flash < FLASH and footprint.ram < RAM
    size = {
        "operations": source.operations,
        "state_bytes": 4 * sum(field.size for field in source.layout.state),
        "flash_bytes": None if footprint is None else footprint.flash,
        "ram_bytes": None if footprint is None else footprint.ram,
        "fits_stm32h7": fits,
        "arm_difference": on_linux_arm(case),
    }
    return case, size
