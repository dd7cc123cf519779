"""`sagewing bench chaos`: the paper's Table 1 and its figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.cli.weights import own_weights
from sagewing.files import write_atomically
from sagewing.problems.chaos import protocol_named
from sagewing.report import chaos, chaos_figures
from sagewing.report.table import latex, markdown, terminal
from sagewing.results import BenchResult
from sagewing.studies.chaos import CHUNK, check_names, compare


@dataclass(frozen=True)
class BenchChaos:
    """Run every filter on the same records and compare them: the paper's Table 1 and its figures.

    Prints the table; writes DIR/result.json, table.md, table.tex, attractors.png, tracking.png,
    crmse.png and histograms.png.

    Example: sagewing bench chaos --protocol paper --filters ekf,vbakf,ndr --runs 1000
    """

    output: NewOutput = NewOutput(Path("out/bench-chaos"))
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
    smooth: bool = False
    """add a row FILTER-smoothed of each filter's estimates by the whole record"""
    weights: tuple[str, ...] = ()
    """own weights in place of the shipped ones, as FILTER=DIR"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "runs", "steps")
        self.output.check()
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
                        smooth=self.smooth,
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
            "smooth": self.smooth,
            "weights": list(self.weights),
            "truth_divergence_pct": truth_lost,
        }
        result = BenchResult("bench chaos", settings, self.seed, rows)
        self.output.write(result)
        out, table = self.output.out, chaos.table(rows, truth_lost)
        write_atomically(out / "table.md", markdown(table).encode())
        write_atomically(out / "table.tex", latex(table).encode())
        chaos_figures.attractors(comparisons, out / "attractors.png")
        chaos_figures.tracking(comparisons, out / "tracking.png")
        chaos_figures.errors_over_time(comparisons, out / "crmse.png")
        chaos_figures.histograms(comparisons, out / "histograms.png")
        console.out.print(terminal(table))
        for system, lost in truth_lost.items():
            console.out.print(f"truth runs away, {system}: {lost:.2f}% of the runs")
        console.err.print(f"Written: {out}/ (result.json, tables, figures)")
