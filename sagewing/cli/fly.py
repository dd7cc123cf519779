"""`sagewing fly`: a simulated quadrotor flies on estimates, through a blackout, and lands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.cli.weights import own_weights
from sagewing.errors import InputError
from sagewing.files import write_atomically
from sagewing.problems.flight.attitude import Attitude, attitude_of
from sagewing.problems.flight.dataset import SIM
from sagewing.problems.flight.setup import NOISE, estimator
from sagewing.problems.weights import flight_weights
from sagewing.report import closed_loop
from sagewing.report.table import markdown, terminal
from sagewing.results import BenchResult
from sagewing.runtime.online import Online
from sagewing.sim.paths import CIRCLES
from sagewing.studies.closed_loop import BLACKOUT, FlownMission, fly
from sagewing.studies.flight import build, check_names

TRUTH = "truth"
ATTITUDE: Attitude = "error-state"  # of filters without a learned part


@dataclass(frozen=True)
class Fly:
    """Hover, fly a circle on a filter's estimates and through 2 s without a pose, and land.

    The controller uses the filter's estimates only. For comparison, the row `truth` flies on the
    true state. Prints the table; writes DIR/result.json, table.md and a picture of every circle.

    Example: sagewing fly --filters ekf,ndr --circles 1
    """

    output: NewOutput = NewOutput(Path("out/fly"))
    filters: str = "ekf,ekf-gated,ndr"
    """which filters"""
    noise: Literal["paper", "good"] = "good"
    """the pose: up to 1 m of noise with outliers as in the paper, or 0.05 m of a good system"""
    backend: Literal["auto", "c", "jax"] = "auto"
    """generated C, or JAX"""
    circles: int = len(CIRCLES)
    """how many of the three circles"""
    blackout: float = BLACKOUT
    """seconds without a pose, in the middle of the circle"""
    seed: int = 0
    """draws the vehicle, the wind and the noise"""
    weights: tuple[str, ...] = ()
    """own weights in place of the shipped ones, as FILTER=DIR"""

    def __call__(self) -> None:
        """Run it."""
        filters = self.filters.split(",")
        check_names([name for name in filters if name != TRUTH], ("denial",))
        if not 1 <= self.circles <= len(CIRCLES):
            raise InputError(f"--circles must lie in 1..{len(CIRCLES)}; got {self.circles}.")
        if not 0.0 <= self.blackout <= 8.0:
            raise InputError(f"--blackout must lie in 0..8 seconds; got {self.blackout:g}.")
        self.output.check()
        learned = flight_weights(filters, SIM, self.noise, own_weights(self.weights))
        missions: list[list[FlownMission]] = []
        with console.progress() as bar:
            names = [TRUTH, *(name for name in filters if name != TRUTH)]
            task = bar.add_task("missions", total=self.circles * len(names), note="compiling")
            factories = {name: self._factory(name, learned) for name in names}
            for circle in range(self.circles):
                missions.append([])
                for name in names:
                    options = {"seed": self.seed, "circle": circle, "blackout": self.blackout}
                    kind = attitude_of(learned.get(name), ATTITUDE)
                    flown = fly(name, factories[name], kind, NOISE[self.noise], **options)
                    missions[-1].append(flown)
                    bar.update(task, advance=1, note=f"circle {circle + 1}, {name}")
        rows = [flown.row for flight in missions for flown in flight]
        settings = {
            "filters": filters,
            "noise": self.noise,
            "backend": self.backend,
            "circles": self.circles,
            "blackout": self.blackout,
            "weights": list(self.weights),
        }
        result = BenchResult("fly", settings, self.seed, rows)
        self.output.write(result)
        out, table = self.output.out, closed_loop.table(rows)
        write_atomically(out / "table.md", markdown(table).encode())
        for circle, flight in enumerate(missions, 1):
            closed_loop.picture(flight, out / f"circle-{circle}.png")
        console.out.print(terminal(table))
        console.err.print(f"Written: {out}/ (result.json, table.md, circle-N.png)")

    def _factory(self, name: str, learned: dict[str, Any]) -> Any:
        """Builds the filter to fly on; None means the true state."""
        if name == TRUTH:
            return None
        kind = attitude_of(learned.get(name), ATTITUDE)
        filt = build(name, estimator(attitude=kind), learned.get(name), kind)
        return lambda x0, P0: Online(filt, x0, P0, self.backend)
