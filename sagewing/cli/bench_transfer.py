"""`sagewing bench transfer`: policies in filters that they were not trained for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sagewing.cli import console
from sagewing.cli.output import NewOutput
from sagewing.files import write_atomically
from sagewing.policy import Policy
from sagewing.policy.storage import folder_of
from sagewing.problems.chaos import protocol_named
from sagewing.problems.flight.dataset import simulated
from sagewing.report import transfer
from sagewing.report.table import latex, markdown, terminal
from sagewing.results import BenchResult
from sagewing.studies.chaos import CHUNK, check_names
from sagewing.studies.flight import SCENARIOS
from sagewing.studies.transfer import BOUNDS, OFFSETS, native, to_chaos, to_flight, untuned

REFERENCES = 3  # filters that to_chaos runs in addition to the offsets


@dataclass(frozen=True)
class BenchTransfer:
    """Run a policy trained on flights on Lorenz and Rössler, at the eight offsets of the paper.

    Also the reverse, which the paper does not have: a policy trained on Lorenz, in the flight
    filter on the simulated circles. Prints both tables; writes DIR/result.json, table.md and
    table.tex.

    Example: sagewing bench transfer --runs 1000 --no-reverse
    """

    policy: str = "flight-sim-paper-ndr-paper"
    """the policy trained on flights: a folder, or the name of a shipped one"""
    chaos_policy: str | None = None
    """the one trained on Lorenz, likewise; by default the protocol's shipped one"""
    output: NewOutput = NewOutput(Path("out/bench-transfer"))
    protocol: str = "paper"
    """paper or aligned, with changes such as paper,lag=no (see docs/protocol.md)"""
    systems: str = "lorenz,rossler"
    """which systems: lorenz, rossler, thomas"""
    runs: int = 10_000
    """records of each system"""
    steps: int = 600
    """measurements in a record"""
    bounds: tuple[float, float] = BOUNDS
    """range of q and r in the filter of the transferred policy, as factors of their base"""
    gain_noise: Literal["prior", "posterior"] | None = None
    """r in a step's gain there: of the step before, or of this step; by default as in training"""
    reverse: bool = True
    """also the policy trained on Lorenz, in flight"""
    seeds: int = 5
    """draws of noise for each of the three flights"""
    seed: int = 0
    """draws the records and the flights; no shipped policy was trained on these"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "runs", "steps", "seeds")
        self.output.check()
        systems = self.systems.split(",")
        protocol = protocol_named(self.protocol)
        policy = Policy.load(folder_of(self.policy))
        gain_noise = self.gain_noise or policy.gain_noise
        check_names((native(gain_noise),), systems)
        chaos_name = f"chaos-{native(gain_noise)}-{protocol.base}"
        chosen = self.chaos_policy or chaos_name
        chaos_policy = Policy.load(folder_of(chosen)) if self.reverse else None
        in_filter: dict[str, Any] = {"bounds": self.bounds, "gain_noise": gain_noise}
        chaos_rows: list[dict[str, Any]] = []
        flight_rows: list[dict[str, Any]] = []
        with console.progress() as bar:
            forward = len(systems) * (REFERENCES + len(OFFSETS)) * -(-self.runs // CHUNK)
            backward = len(SCENARIOS) * (len(untuned()) + 2) * self.reverse
            task = bar.add_task("runs", total=forward + backward, note="")

            def report(name: str) -> None:
                bar.update(task, advance=1, note=name)

            if chaos_policy is not None:
                flights = simulated(self.seed, ("test",)).test
                draws = {"home": policy, "seed": self.seed, "seeds": self.seeds}
                for scenario in SCENARIOS:
                    flight_rows += to_flight(
                        chaos_policy, scenario, flights, report=report, **draws, **in_filter
                    )
            for system in systems:
                size = {"seed": self.seed, "runs": self.runs, "steps": self.steps}
                chaos_rows += to_chaos(
                    policy, system, protocol, report=report, **size, **in_filter
                ).rows
        settings = {
            "policy": self.policy,
            "chaos_policy": chosen,
            "protocol": self.protocol,
            "systems": systems,
            "runs": self.runs,
            "steps": self.steps,
            "bounds": list(self.bounds),
            "gain_noise": gain_noise,
            "reverse": self.reverse,
            "seeds": self.seeds,
        }
        result = BenchResult("bench transfer", settings, self.seed, chaos_rows + flight_rows)
        self.output.write(result)
        out, forward_table = self.output.out, transfer.chaos_table(chaos_rows)
        tables = [forward_table, *([transfer.flight_table(flight_rows)] if flight_rows else [])]
        write_atomically(out / "table.md", "\n".join(map(markdown, tables)).encode())
        write_atomically(out / "table.tex", latex(forward_table).encode())
        for table in tables:
            console.out.print(terminal(table))
        console.err.print(f"Written: {out}/ (result.json, tables)")
