"""`sagewing bench latency`: how long a step takes, and whether it fits a flight computer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.box import SIMPLE
from rich.table import Table

from sagewing.cli import console
from sagewing.cli.weights import learned_part
from sagewing.codegen.c99 import c_source
from sagewing.errors import InputError
from sagewing.report.style import LABELS
from sagewing.results import BenchResult
from sagewing.studies.arm import FLASH, RAM, on_cortex_m7, on_linux_arm
from sagewing.studies.exported import QUADROTOR, System, built, drawn, known
from sagewing.studies.flight import UNIVERSAL
from sagewing.studies.latency import BACKENDS, ROUNDS, Case, measured

POLICIES = {"lorenz": "chaos-ndr-posterior-aligned", QUADROTOR: "flight-sim-paper-ndr"}
FILTERS = ("ekf", "shkf99", "ndr")
RECORD = 1000  # rows that a measurement goes round in


@dataclass(frozen=True)
class BenchLatency:
    """Time the steps of EKF, Sage-Husa and NDR-SHKF at 3 and 19 states, one by one.

    From Python with JAX, from Python with generated C, and in a loop of C. Where Debian's
    gcc-arm-none-eabi is installed, also the size of a program for a Cortex-M7, such as a Pixhawk's;
    with gcc-arm-linux-gnueabihf and qemu-user, whether 60 steps on ARM end where they end here.
    Single precision. A loop of C is timed in five rounds, of which the table shows the quietest and
    the file all. Prints the table; writes DIR/result.json.

    Example: sagewing bench latency --filters ekf,ndr --steps 10000
    """

    out: Path = Path("out/bench-latency")
    """folder for the result"""
    filters: str = ",".join(FILTERS)
    """which: ekf, ekf-gated, shkf95, shkf99, shkf995, shkf999, vbakf, ndr, ndr-universal"""
    models: str = ",".join(POLICIES)
    """which models: lorenz, rossler, thomas (3 states), quadrotor (19)"""
    backends: str = ",".join(BACKENDS)
    """jax and c are called from Python, c-loop is C alone"""
    steps: int = 100_000
    """how many steps are timed"""
    seed: int = 0
    """draws the measurements"""
    force: bool = False
    """replace what is there"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "steps")
        console.check_places(self.out, self.json)
        console.check_absent((self.out / "result.json", self.json), self.force)
        filters, backends = self.filters.split(","), self.backends.split(",")
        for backend in backends:
            if backend not in BACKENDS:
                raise InputError(f"There is no backend {backend!r}; known: {', '.join(BACKENDS)}.")
        systems = {name: known(name, {}) for name in self.models.split(",")}
        rows: list[dict[str, Any]] = []
        with console.progress() as bar:
            total = len(systems) * len(filters) * len(backends)
            task = bar.add_task("timings", total=total, note="compiling")
            for model, system in systems.items():
                for name in filters:
                    case, about = _case(name, model, system, self.seed)
                    for backend in backends:
                        spent = _times(measured(case, backend, self.steps))
                        where = {"filter": name, "model": model, "backend": backend}
                        rows.append({**where, **spent, **about})
                        bar.update(task, advance=1, note=f"{model}, {name}, {backend}")
        settings = {"steps": self.steps, "filters": filters, "backends": backends}
        result = BenchResult("bench latency", settings, self.seed, rows)
        for path in filter(None, (self.out / "result.json", self.json)):
            result.write(path)
        console.out.print(table(rows))
        console.notes([*tails(rows), *on_arm(rows)])
        console.err.print(f"Written: {self.out / 'result.json'}")


def _times(us: Float[np.ndarray, "rounds steps"]) -> dict[str, Any]:
    """Of the quietest round, in which other programs disturbed least; beside it the p99 of all."""
    p99 = np.quantile(us, 0.99, axis=1)
    quietest = us[np.argmin(p99)]
    return {
        "us_median": float(np.median(quietest)),
        "us_p99": float(np.min(p99)),
        "us_worst": float(np.max(quietest)),
        "us_p99_of_rounds": p99.tolist(),
        "us_median_of_rounds": np.median(us, axis=1).tolist(),
    }


def _case(name: str, model: str, system: System, seed: int) -> tuple[Case, dict[str, Any]]:
    """A filter with something to measure, and what its C is made of."""
    own = {"ndr": POLICIES.get(model, POLICIES["lorenz"]), UNIVERSAL: "universal"}
    learned = learned_part(own[name])[0] if name in own else None
    filt = built("ndr" if name in own else name, system, learned)
    made = c_source(filt, system.n_u, dtype=np.float32)
    fit = on_cortex_m7(made)
    z, u = drawn(system, RECORD, seed)
    case = Case(filt, system.x0, system.P0, z, u)
    about = {
        "operations": made.operations,
        "state_bytes": 4 * sum(field.size for field in made.program.state),
        "flash_bytes": None if fit is None else fit.flash,
        "ram_bytes": None if fit is None else fit.ram,
        "fits_stm32h7": None if fit is None else fit.flash < FLASH and fit.ram < RAM,
        "arm_difference": on_linux_arm(case),
    }
    return case, about


def table(rows: list[dict[str, Any]]) -> Table:
    """Microseconds a step, for the terminal."""
    out = Table(title="Microseconds a step, single precision", box=SIMPLE, padding=(0, 1, 0, 0))
    for i, name in enumerate(("", "backend", "median", "p99", "worst", "flash", "RAM")):
        out.add_column(name, justify="left" if i < 2 else "right", no_wrap=True)
    for model in dict.fromkeys(row["model"] for row in rows):
        out.add_section()
        out.add_row(model)
        for row in (row for row in rows if row["model"] == model):
            out.add_row(
                LABELS[row["filter"]],
                row["backend"],
                *(f"{row[key]:.2f}" for key in ("us_median", "us_p99", "us_worst")),
                *(_size(row[key]) for key in ("flash_bytes", "ram_bytes")),
            )
    return out


def tails(rows: list[dict[str, Any]]) -> list[str]:
    """How even the steps of a loop of C are, and how much other programs disturbed it."""
    loops = [row for row in rows if row["backend"] == "c-loop"]
    if not loops:
        return []
    quiet = max(row["us_p99"] / row["us_median"] for row in loops)
    each = [
        p / m
        for r in loops
        for p, m in zip(*(r[f"us_{k}_of_rounds"] for k in ("p99", "median")), strict=True)
    ]
    return [
        f"in a loop of C the p99 is at most {quiet:.2f} times the median, in the quietest of "
        f"{ROUNDS} rounds (in the {len(each)} rounds of all filters: median {np.median(each):.2f}, "
        f"largest {max(each):.2f})"
    ]


def on_arm(rows: list[dict[str, Any]]) -> list[str]:
    """What ARM says to it, in sentences."""
    lines = []
    if any(row["fits_stm32h7"] is None for row in rows):
        lines.append("without gcc-arm-none-eabi there is no size for a Cortex-M7")
    else:
        fit = "each fits" if all(row["fits_stm32h7"] for row in rows) else "NOT each fits"
        lines.append(f"{fit} the STM32H7 of a Pixhawk (2 MB of flash, 1 MB of RAM)")
    apart = [row["arm_difference"] for row in rows]
    if None in apart:
        lines.append("without gcc-arm-linux-gnueabihf and qemu-user nothing was run on ARM")
    else:
        lines.append(f"60 steps on ARM, under qemu, end within {max(apart):.1e} of those here")
    return lines


def _size(number: int | None) -> str:
    return "–" if number is None else f"{number / 1024:.1f} KB"
