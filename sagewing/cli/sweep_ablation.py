"""`sagewing sweep ablation`: the paper's ablation study, and our own axes."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sagewing.cli import console
from sagewing.cli.output import Output
from sagewing.errors import InputError
from sagewing.files import to_json, write_atomically
from sagewing.jobs.local_engine import LocalEngine
from sagewing.jobs.ray_engine import RayEngine
from sagewing.jobs.store import Finished, Store, open_store
from sagewing.jobs.sweep import GROUP, Engine, Remaining, Status, Study, sweep
from sagewing.report import ablation
from sagewing.report.ablation_figures import violins
from sagewing.report.table import terminal
from sagewing.results import BenchResult
from sagewing.studies.ablation import AXES, DOMAINS, NAME, VARIANTS, Ablation, variants_named
from sagewing.studies.ablation_lines import RunErrors, lines_of


@dataclass(frozen=True)
class SweepAblation:
    """Train the NDR-SHKF with one setting changed, over many seeds, and test each on the same runs.

    Every finished task is kept in the store: after a kill, or with more --seeds, the same command
    runs only what is missing. Prints the tables and the significant differences; writes
    DIR/result.json, differences.json, table.md, table.tex and a violin plot of each system.

    Example: sagewing sweep ablation --seeds 10 --variants depth,aux --budget 60
    """

    output: Output = Output(Path("out/sweep-ablation"))
    store: Path = Path("out/sweep-ablation.sqlite")
    """file for the results of all tasks"""
    variants: str = "paper"
    """which: names, axes (depth, aux, input, gain, bounds, dense, start), paper, ours or all"""
    seeds: int = 10
    """trainings of each variant"""
    seed: int = 0
    """the first of them"""
    engine: Literal["local", "ray"] = "local"
    """this machine, or a Ray cluster"""
    processes: int = os.cpu_count() or 1
    """workers of the local engine; each computes with one thread"""
    address: str | None = None
    """of the Ray cluster, as HOST:PORT; without it, Ray starts on this machine"""
    group: int = GROUP
    """seeds that a worker trains in one compiled program"""
    budget: float | None = None
    """minutes; a task starts only if it is expected to end in time"""
    runs: int = Ablation.runs
    """records of each system in the test"""
    steps: int = Ablation.steps
    """measurements in a record of the test"""
    epochs: int = Ablation.epochs
    """updates of a training, one batch each"""
    batch: int = Ablation.batch
    """records in a batch"""
    train_steps: int = Ablation.train_steps
    """measurements in a record of a batch"""

    def __call__(self) -> None:
        """Run it."""
        counts = ("seeds", "processes", "group", "runs", "steps", "epochs", "batch", "train_steps")
        console.at_least_one(self, *counts)
        if self.budget is not None and not self.budget > 0.0:
            raise InputError(f"--budget takes minutes above 0; got {self.budget}.")
        self.output.check()
        shared = Ablation(self.epochs, self.batch, self.train_steps, self.runs, self.steps)
        variants = variants_named(self.variants)
        study = shared.study(variants, range(self.seed, self.seed + self.seeds))
        with open_store(self.store) as store:
            left = self._sweep(study, store)
            results = list(store.get(task.key for task in study.tasks))
        if left.tasks:
            time_left = console.duration(left.seconds)
            console.err.print(
                f"The budget is spent: {left.tasks} of {len(study.tasks)} tasks are left, "
                f"{time_left}. The same command continues with them.",
                soft_wrap=True,
            )
        settings = {
            "variants": variants,
            "seeds": self.seeds,
            "runs": self.runs,
            "steps": self.steps,
            "epochs": self.epochs,
            "batch": self.batch,
            "train_steps": self.train_steps,
            "test_protocol": study.tasks[0].settings["test"]["protocol"],
            "tasks_left": left.tasks,
        }
        self._show(results, settings)

    def _sweep(self, study: Study, store: Store) -> Remaining:
        budget = math.inf if self.budget is None else 60.0 * self.budget
        with self._engine() as engine, console.progress() as bar:
            task = bar.add_task("tasks", total=len(study.tasks), note="")

            def report(status: Status) -> None:
                note = f"{console.duration(status.seconds_left)}; {status.note}"
                bar.update(task, completed=status.done, note=note)

            try:
                return sweep(study, store, engine, group=self.group, budget=budget, report=report)
            except KeyboardInterrupt:
                bar.stop()
                console.err.print("Interrupted: the same command continues with the missing tasks.")
                sys.exit(1)

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        if self.engine == "local":
            yield LocalEngine(self.processes)
            return
        engine = RayEngine(self.address)
        try:
            yield engine
        finally:
            engine.close()

    def _show(self, results: list[Finished], settings: dict[str, Any]) -> None:
        rows = [
            {
                "axis": VARIANTS[done.variant].axis or "default",
                "variant": done.variant,
                "seed": done.seed,
                **done.outcome.numbers,
            }
            for done in results
        ]
        result = BenchResult(f"sweep {NAME}", settings, self.seed, rows)
        self.output.write(result)
        errors: RunErrors = {}
        for done in results:
            errors.setdefault(done.variant, {})[done.seed] = done.outcome.arrays
        lines = lines_of(errors)
        if not lines:
            return
        out = self.output.out
        write_atomically(out / "table.md", ablation.markdown(lines).encode())
        write_atomically(out / "table.tex", ablation.latex(lines).encode())
        write_atomically(out / "differences.json", to_json(ablation.differences_content(lines)))
        for domain in DOMAINS:
            violins(lines, domain, out / f"violins_{domain}.png")
        for axis, on_axis in lines.items():
            console.out.print(terminal(ablation.table(on_axis)))
            if any(line.differences for line in on_axis):
                console.out.print(terminal(ablation.differences_table(on_axis)))
            if axis in AXES:
                console.out.print(ablation.finding(axis, on_axis))
        origins = {to_json(done.origin["versions"]) for done in results}
        if len(origins) > 1:
            console.notes(["the rows come from several versions of this package or of JAX."])
        console.err.print(f"Written: {out}/ (result.json, tables, figures)")
