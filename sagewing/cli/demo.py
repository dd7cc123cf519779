"""`sagewing demo`: compare the shipped filters on simulated flights."""

from dataclasses import dataclass
from pathlib import Path

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.bench_flight import compare_all, write_report
from sagewing.cli.output import NewOutput
from sagewing.problems.flight.dataset import SIM, load
from sagewing.problems.weights import flight_weights
from sagewing.report import flight
from sagewing.report.table import terminal
from sagewing.results import BenchResult
from sagewing.studies.flight import SCENARIOS

NOISE = "paper"


@dataclass(frozen=True)
class Demo:
    """Fly simulated circles with a bad, a worse and no pose: EKF, Sage-Husa, NDR-SHKF.

    Prints the errors; writes DIR/result.json, DIR/report.html with plots of one flight, and the
    data from which `sagewing report` makes that page again.

    Example: sagewing demo --out out/demo
    """

    output: NewOutput = NewOutput(Path("out/demo"))
    seeds: int = 5
    """draws of the noise for each flight"""
    seed: int = 0
    """draws flights and noise; no shipped filter was trained on these"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds")
        self.output.check()
        filters = catalogue.shown_by(catalogue.DEMO)
        learned = flight_weights(filters, SIM, NOISE, {})
        with console.err.status("preparing the flights"):
            data = load(SIM, self.seed, parts=("test",))
        comparisons = compare_all(
            data, SCENARIOS, filters, learned, noise=NOISE, seed=self.seed, seeds=self.seeds
        )
        rows = [row for comparison in comparisons for row in comparison.rows]
        settings = {
            "data": SIM,
            "scenarios": list(SCENARIOS),
            "filters": list(filters),
            "noise": NOISE,
            "seeds": self.seeds,
        }
        result = BenchResult("demo", settings, self.seed, rows)
        self.output.write(result)
        out = self.output.out
        write_report(out, result, comparisons)
        console.out.print(terminal(flight.table(rows)))
        console.err.print(f"Written: {out / 'report.html'}, {out / 'result.json'}")
