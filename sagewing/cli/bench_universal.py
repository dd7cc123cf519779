"""`sagewing bench universal`: the universal policy on systems outside its training family."""

from dataclasses import dataclass
from pathlib import Path

from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.files import write_atomically
from sagewing.policy import Universal
from sagewing.policy.storage import folder_of
from sagewing.problems.unseen.systems import CASES, UNSEEN
from sagewing.report import universal
from sagewing.report.table import markdown, terminal
from sagewing.results import BenchResult
from sagewing.studies.universal import (
    FILTERS,
    LEARNED,
    TRAININGS,
    bench,
    check_filters,
    check_systems,
    drift,
)
from sagewing.studies.universal_claims import checks


@dataclass(frozen=True)
class BenchUniversal:
    """Run the universal policy, zero-shot, on systems that are not in its training family.

    For comparison: the nominal EKF, Sage-Husa, VBAKF, robust filters, a bank of 25 EKFs, and the
    EKF tuned on that system and noise.
    All errors are relative to the oracle's. Prints the table and which claims hold; writes
    DIR/result.json and table.md.

    Example: sagewing bench universal --systems turn,rossler --runs 200
    """

    output: NewOutput = NewOutput(Path("out/bench-universal"))
    systems: str = ",".join(UNSEEN)
    """which systems"""
    filters: str = ",".join(FILTERS)
    """which filters; the claims are checked where all are there"""
    runs: int = 200
    """records of each system and noise"""
    steps: int = 500
    """measurements in a record"""
    policies: str = ",".join(TRAININGS)
    """trainings to pool: shipped names or folders of `sagewing train universal`"""
    drift: bool = True
    """also run Rössler for 10,000 steps, to see whether the error grows"""
    seed: int = 0
    """draws the records"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "runs", "steps")
        self.output.check()
        systems = self.systems.split(",")
        check_systems(systems)
        filters = self.filters.split(",")
        check_filters(filters)
        complete = set(filters) == set(FILTERS)
        policies = [Universal.load(folder_of(name)) for name in self.policies.split(",")]
        with console.progress() as bar:
            task = bar.add_task("cells", total=len(systems) * len(CASES), note="compiling")
            rows = bench(
                systems,
                policies,
                seed=self.seed,
                runs=self.runs,
                steps=self.steps,
                filters=filters,
                report=lambda note: bar.update(task, advance=1, note=note),
            )
        drifts = self.drift and LEARNED in filters
        drifted = drift(policies, seed=self.seed, runs=self.runs) if drifts else None
        settings = {
            "systems": systems,
            "filters": filters,
            "runs": self.runs,
            "steps": self.steps,
            "policies": self.policies.split(","),
            "checks": [check._asdict() for check in checks(rows)] if complete else [],
            "drift": None if drifted is None else drifted._asdict(),
        }
        result = BenchResult("bench universal", settings, self.seed, rows)
        self.output.write(result)
        table = universal.table(rows)
        write_atomically(self.output.out / "table.md", markdown(table).encode())
        console.out.print(terminal(table))
        for line in universal.verdict(rows, drifted) if complete else ():
            console.out.print(line, soft_wrap=True)
        console.err.print(f"Written: {self.output.out}/ (result.json, table.md)")
