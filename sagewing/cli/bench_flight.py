"""`sagewing bench flight`: the paper's flight table and its figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sagewing import catalogue
from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.cli.weights import own_weights
from sagewing.files import write_atomically
from sagewing.problems.flight.attitude import Attitude
from sagewing.problems.flight.dataset import SIM, Dataset, load
from sagewing.problems.flight.records import WithoutPose
from sagewing.problems.flight.setup import NOISE
from sagewing.problems.weights import flight_weights
from sagewing.report import flight, flight_figures
from sagewing.report.page.drawing import drawing_of
from sagewing.report.page.result_page import OVERVIEW, overview_in, write_page
from sagewing.report.table import latex, markdown, terminal
from sagewing.results import BenchResult
from sagewing.studies.flight import SCENARIOS, FlightComparison, check_names, compare
from sagewing.studies.scenes import scene_of


@dataclass(frozen=True)
class BenchFlight:
    """Run every filter on the same degraded flights, with and without a blackout of the pose.

    Prints the table; writes DIR/result.json, report.html with plots of one flight, table.md,
    table.tex, errors.png, and for every scenario tracking-SCENARIO.png and, of the learned filter,
    adaptation-SCENARIO.png.

    Example: sagewing bench flight --data FOLDER --noise good --filters ekf-gated,ndr
    """

    output: NewOutput = NewOutput(Path("out/bench-flight"))
    data: str = SIM
    """sim for simulated circles, or a folder of real flights, whose circles are flown"""
    fly: Literal["held-out", "other"] = "held-out"
    """the folder's circles, or the second half of each flight of another vehicle in it"""
    scenarios: str = ",".join(SCENARIOS)
    """what happens for 2 s in the middle of a flight: nothing, a noisier pose, or no pose"""
    filters: str = ",".join(catalogue.shown_by(catalogue.FLIGHT))
    """which filters, in the order of the table"""
    attitude: Attitude | None = None
    """of filters without weights, for all of them: error-state (18 errors) or euler (the paper's 19
    states); by default euler for the paper's filters"""
    noise: Literal["paper", "good"] = "paper"
    """the pose: up to 1 m of noise with outliers as in the paper, or 0.05 m of a good system"""
    without_pose: WithoutPose | None = None
    """what drives it in a blackout: dynamic, the motors (sim); drag, the IMU and its drag (real)"""
    seeds: int = 5
    """draws of the noise for each flight"""
    seed: int = 0
    """draws the noise and the simulated flights; no shipped filter was trained on these"""
    smooth: bool = False
    """add a row FILTER-smoothed of each filter's estimates by the whole record"""
    weights: tuple[str, ...] = ()
    """own weights in place of the shipped ones, as FILTER=DIR"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds")
        self.output.check()
        filters, scenarios = self.filters.split(","), self.scenarios.split(",")
        check_names(filters, scenarios)
        kind = "sim" if self.data == SIM else "real"
        learned = flight_weights(filters, kind, self.noise, own_weights(self.weights))
        with console.err.status("preparing the flights"):
            data = load(self.data, self.seed, parts=("test",))
        console.notes(data.notes)
        if self.fly == "other":
            data = data.on_other_vehicle()
        comparisons = compare_all(
            data,
            scenarios,
            filters,
            learned,
            noise=self.noise,
            without_pose=self.without_pose or data.without_pose,
            attitude=self.attitude,
            seed=self.seed,
            seeds=self.seeds,
            smooth=self.smooth,
        )
        rows = [row for comparison in comparisons for row in comparison.rows]
        settings = {
            "data": self.data,
            "fly": self.fly,
            "scenarios": scenarios,
            "filters": filters,
            "noise": self.noise,
            "without_pose": self.without_pose or data.without_pose,
            "attitude": self.attitude,
            "seeds": self.seeds,
            "smooth": self.smooth,
            "weights": list(self.weights),
            "vehicle": data.vehicle._asdict(),
        }
        result = BenchResult("bench flight", settings, self.seed, rows)
        self.output.write(result)
        out, table = self.output.out, flight.table(rows)
        write_atomically(out / "table.md", markdown(table).encode())
        write_atomically(out / "table.tex", latex(table).encode())
        flight_figures.errors(comparisons, out / "errors.png")
        for comparison in comparisons:
            name = f"{comparison.scenario}.png"
            flight_figures.tracking(comparison, out / f"tracking-{name}")
            flight_figures.adaptation(comparison, out / f"adaptation-{name}")
        write_report(out, result, comparisons)
        console.out.print(terminal(table))
        console.err.print(f"Written: {out}/ (report.html, result.json, tables, figures)")


def write_report(
    folder: Path, result: BenchResult, comparisons: Sequence[FlightComparison]
) -> None:
    """Write the page, with plots of the last scenario's first record, and the files it needs."""
    flight_figures.overview(comparisons, folder / OVERVIEW)
    write_page(folder, result, drawing_of(scene_of(comparisons[-1], 0)), overview_in(folder))


def compare_all(
    data: Dataset,
    scenarios: Sequence[str],
    filters: Sequence[str],
    learned: dict[str, Any],
    *,
    noise: str,
    without_pose: WithoutPose = "dynamic",
    attitude: Attitude | None = None,
    seed: int,
    seeds: int,
    smooth: bool = False,
) -> list[FlightComparison]:
    """The filters on the held-out flights in every scenario, with a progress bar."""
    comparisons = []
    with console.progress() as bar:
        task = bar.add_task("runs", total=len(scenarios) * len(filters), note="compiling")
        for scenario in scenarios:

            def report(name: str, scenario: str = scenario) -> None:
                bar.update(task, advance=1, note=f"{scenario}, {name}")

            comparisons.append(
                compare(
                    scenario,
                    data.test,
                    filters=filters,
                    learned=learned,
                    vehicle=data.vehicle,
                    without_pose=without_pose,
                    attitude=attitude,
                    noise=NOISE[noise],
                    seed=seed,
                    seeds=seeds,
                    smooth=smooth,
                    report=report,
                )
            )
    return comparisons
