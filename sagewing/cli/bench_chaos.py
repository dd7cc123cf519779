"""`sagewing bench chaos`: the paper's Table 1 and its figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.weights import own_weights
from sagewing.files import write_atomically
from sagewing.problems.chaos import protocol_named
from sagewing.report import chaos
from sagewing.results import BenchResult
from sagewing.studies.chaos import CHUNK, check_names, compare


@dataclass(frozen=True)
class BenchChaos:
    """Run every filter on the same records and compare them: the paper's Table 1 and its figures.

    Prints the table; writes DIR/result.json, table.md, table.tex, attractors.png, tracking.png,
    crmse.png and histograms.png.

    Example: sagewing bench chaos --protocol paper --filters ekf,vbakf,ndr --runs 1000
    """

    out: Path = Path("out/bench-chaos")
    """folder for the results and figures"""
    protocol: str = "aligned"
    """aligned or paper, with changes such as paper,lag=no (see docs/protocol.md)"""
    filters: str = ",".join(catalogue.shown_by(catalogue.CHAOS))
    """which filters, in the order of the table"""
    systems: str = "lorenz,rossler"
    """which systems: lorenz, rossler, thomas"""
    runs: int = 10_000
    """records of each system"""
    steps: int = 600
    """measurements in a record"""
    seed: int = 0
    """draws the records; no shipped filter was trained on this stream"""
    weights: tuple[str, ...] = ()
    """own weights in place of the shipped ones, as FILTER=DIR"""
    force: bool = False
    """replace what is there"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "runs", "steps")
        console.check_places(self.out, self.json)
        console.check_absent((self.out / "result.json", self.json), self.force)
        filters, systems = self.filters.split(","), self.systems.split(",")
        check_names(filters, systems)
        protocol = protocol_named(self.protocol)
        learned = own_weights(self.weights)
        comparisons = []
        chunks = -(-self.runs // CHUNK)
        with console.progress() as bar:
            task = bar.add_task("runs", total=len(systems) * len(filters) * chunks, note="")
            for system in systems:

                def report(name: str, system: str = system) -> None:
                    bar.update(task, advance=1, note=f"{system}, {name}")

                comparisons.append(
                    compare(
                        system,
                        protocol,
                        seed=self.seed,
                        runs=self.runs,
                        steps=self.steps,
                        filters=filters,
                        learned=learned,
                        report=report,
                    )
                )
        rows: list[dict[str, Any]] = [row for c in comparisons for row in c.rows]
        truth_lost = {c.system: c.truth_lost_pct for c in comparisons}
        settings = {
            "protocol": self.protocol,
            "filters": filters,
            "systems": systems,
            "runs": self.runs,
            "steps": self.steps,
            "weights": list(self.weights),
            "truth_divergence_pct": truth_lost,
        }
        result = BenchResult("bench chaos", settings, self.seed, rows)
        for path in filter(None, (self.out / "result.json", self.json)):
            result.write(path)
        write_atomically(self.out / "table.md", chaos.markdown(rows, truth_lost).encode())
        write_atomically(self.out / "table.tex", chaos.latex(rows, truth_lost).encode())
        chaos.attractors(comparisons, self.out / "attractors.png")
        chaos.tracking(comparisons, self.out / "tracking.png")
        chaos.errors_over_time(comparisons, self.out / "crmse.png")
        chaos.histograms(comparisons, self.out / "histograms.png")
        console.out.print(chaos.table(rows))
        for system, lost in truth_lost.items():
            console.out.print(f"truth runs away, {system}: {lost:.2f}% of the runs")
        console.err.print(f"Written: {self.out}/ (result.json, tables, figures)")
