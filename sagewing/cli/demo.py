"""`sagewing demo`: the main job on what ships with the package."""

from dataclasses import dataclass
from pathlib import Path

from sagewing.bench.flight import SCENARIOS, SHIPPED
from sagewing.bench.result import BenchResult, versions
from sagewing.cli import console
from sagewing.cli.bench_flight import compare_all
from sagewing.cli.weights import flight_weights
from sagewing.files import write_atomically
from sagewing.flights.dataset import SIM, load
from sagewing.report import flight, flight_figures
from sagewing.report.page import page

FILTERS = SHIPPED
NOISE = "paper"


@dataclass(frozen=True)
class Demo:
    """Fly simulated circles with a bad, a worse and no pose: EKF, Sage-Husa, NDR-SHKF.

    Prints the errors; writes DIR/result.json, DIR/report.html, and its figures as PNG files.

    Example: sagewing demo --out out/demo
    """

    out: Path = Path("out/demo")
    """folder for the result and the page"""
    seeds: int = 5
    """draws of the noise for each flight"""
    seed: int = 0
    """draws flights and noise; no shipped filter was trained on these"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds")
        console.check_places(self.out, self.json)
        learned = flight_weights(FILTERS, SIM, NOISE, ())
        with console.err.status("preparing the flights"):
            data = load(SIM, self.seed, parts=("test",))
        comparisons = compare_all(
            data, SCENARIOS, FILTERS, learned, noise=NOISE, seed=self.seed, seeds=self.seeds
        )
        rows = [row for comparison in comparisons for row in comparison.rows]
        settings = {
            "data": SIM,
            "scenarios": list(SCENARIOS),
            "filters": list(FILTERS),
            "noise": NOISE,
            "seeds": self.seeds,
        }
        result = BenchResult("demo", settings, self.seed, rows)
        for path in filter(None, (self.out / "result.json", self.json)):
            result.write(path)
        pictures = flight_figures.gallery(comparisons, self.out)
        made = page(
            "Sagewing: a quadrotor's state when its position system fails",
            [
                f"{len(data.test)} simulated QDrone flights along circles, {self.seeds} draws of "
                "noise each. The pose comes 100 times a second with up to 1 m of noise and "
                "outliers of 5 m. Every filter sees the same measurements from the same start."
            ],
            flight.html(rows),
            flight.caption(rows),
            pictures,
            f"sagewing demo --seeds {self.seeds} --seed {self.seed}; "
            + ", ".join(f"{name} {version}" for name, version in versions().items()),
        )
        write_atomically(self.out / "report.html", made.encode())
        console.out.print(flight.table(rows))
        console.err.print(f"Written: {self.out / 'report.html'}, {self.out / 'result.json'}")
