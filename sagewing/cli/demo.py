"""`sagewing demo`: the main job on what ships with the package."""

from dataclasses import dataclass
from pathlib import Path

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.bench_flight import compare_all, write_report
from sagewing.problems.flight.dataset import SIM, load
from sagewing.problems.weights import flight_weights
from sagewing.report import flight
from sagewing.results import BenchResult
from sagewing.studies.flight import SCENARIOS

NOISE = "paper"


@dataclass(frozen=True)
class Demo:
    """Fly simulated circles with a bad, a worse and no pose: EKF, Sage-Husa, NDR-SHKF.

    Prints the errors; writes DIR/result.json, DIR/report.html with plots of one flight, and what
    `sagewing report` makes that page from again.

    Example: sagewing demo --out out/demo
    """

    out: Path = Path("out/demo")
    """folder for the result and the page"""
    seeds: int = 5
    """draws of the noise for each flight"""
    seed: int = 0
    """draws flights and noise; no shipped filter was trained on these"""
    force: bool = False
    """replace what is there"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds")
        console.check_places(self.out, self.json)
        console.check_absent((self.out / "result.json", self.json), self.force)
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
        for path in filter(None, (self.out / "result.json", self.json)):
            result.write(path)
        write_report(self.out, result, comparisons)
        console.out.print(flight.table(rows))
        console.err.print(f"Written: {self.out / 'report.html'}, {self.out / 'result.json'}")
