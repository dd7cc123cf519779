"""`sagewing demo`: the main job on what ships with the package."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagewing.bench.chaos import compare
from sagewing.bench.result import BenchResult
from sagewing.cli import console
from sagewing.report import chaos
from sagewing.sim.chaos import PROTOCOLS

SYSTEMS = ("lorenz", "rossler")
FILTERS = ("ekf", "shkf95", "shkf99", "ndr", "ndr-posterior")


@dataclass(frozen=True)
class Demo:
    """Compare EKF, Sage-Husa and the shipped NDR-SHKF on Lorenz and Rössler.

    Prints the errors and writes DIR/result.json and DIR/demo.png.

    Example: sagewing demo --out out/demo
    """

    out: Path = Path("out/demo")
    """folder for the result and the picture"""
    runs: int = 1000
    """records of each system"""
    steps: int = 600
    """measurements in a record"""
    seed: int = 0
    """draws the records; the shipped policy was trained with another stream"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "runs", "steps")
        protocol = PROTOCOLS["aligned"]
        comparisons = []
        rows: list[dict[str, Any]] = []
        with console.progress() as bar:
            task = bar.add_task("systems", total=len(SYSTEMS), note="")
            for system in SYSTEMS:
                bar.update(task, note=system)
                comparisons.append(
                    compare(
                        system,
                        protocol,
                        seed=self.seed,
                        runs=self.runs,
                        steps=self.steps,
                        filters=FILTERS,
                    )
                )
                rows += comparisons[-1].rows
                bar.advance(task)
        settings = {
            "protocol": protocol.name,
            "filters": list(FILTERS),
            "runs": self.runs,
            "steps": self.steps,
        }
        result = BenchResult("demo", settings, self.seed, rows)
        for path in filter(None, (self.out / "result.json", self.json)):
            result.write(path)
        chaos.overview(comparisons, self.out / "demo.png")
        console.out.print(chaos.table(rows))
        console.err.print(f"Written: {self.out / 'result.json'}, {self.out / 'demo.png'}")
