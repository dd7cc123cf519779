"""Training on one's own logs: a recipe that takes minutes, and an honest word at its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sagewing.cli import console
from sagewing.cli.fitting import resumable
from sagewing.policy import Noise
from sagewing.problems.flight.dataset import Dataset
from sagewing.report import flight
from sagewing.report.table import terminal
from sagewing.results import commit, versions
from sagewing.studies.card import Figures, add_figures, figures
from sagewing.studies.flight import NOISE, compare
from sagewing.train.flight import EPOCHS, FlightTraining
from sagewing.train.tuning import ROUNDS, STRIDES, tune_flight

SCENARIOS = ("baseline", "denial")
BASELINE = "ekf-gated"
DRAWS = 5
NOT_FOR = "vehicles and positioning systems other than those of the logs it was trained on"


@dataclass(frozen=True)
class Recipe:
    """What `sagewing train flight` does where it is not told."""

    epochs: int
    batch: int
    shortest: int
    longest: int
    learning_rate: float
    aux_weight: float
    noise: Literal["paper", "good"]
    imu: Literal["paper", "as-flown"]


PAPER = Recipe(EPOCHS, 128, 20, 300, 1e-3, 0.1, "paper", "paper")
# What the shipped filters were made with, with a pose as good as a flying vehicle has.
OWN = Recipe(40, 64, 500, 500, 2e-3, 3e-4, "good", "as-flown")


def tuned(setup: FlightTraining, data: Dataset, seed: int, folder: Path) -> Noise:
    """The gated EKF's noise for the same flights, where the learned filter begins; kept there."""
    with console.progress() as bar:
        rounds = ROUNDS * len(STRIDES)
        task = bar.add_task("tuning the EKF", total=rounds, note="compiling")

        def report(loss: float) -> None:
            bar.update(task, advance=1, note=f"loss {loss:.5f}")

        found = tune_flight(setup, data.train, seed, report)
        bar.update(task, completed=rounds)
    made = {"training": {"filter": BASELINE, "loss": found.losses[-1]}, "seed": seed}
    about = {**made, "commit": commit(), "versions": versions()}
    found.noise.save(folder, about, overwrite=True)
    return found.noise


def judge(
    data: Dataset, setup: FlightTraining, noise: str, learned: dict[str, Any], folder: Path
) -> None:
    """Both filters on the flight that was kept aside: a table, a plain word, and the card."""
    rows: list[dict[str, Any]] = []
    filters = (BASELINE, setup.filter)
    with console.progress() as bar, resumable(bar):
        total = len(SCENARIOS) * len(filters)
        task = bar.add_task("comparing", total=total, note="compiling")
        for scenario in SCENARIOS:

            def report(name: str, scenario: str = scenario) -> None:
                bar.update(task, advance=1, note=f"{scenario}, {name}")

            made = compare(
                scenario,
                data.test,
                filters=filters,
                learned=learned,
                vehicle=setup.vehicle,
                without_pose=setup.without_pose,
                noise=NOISE[noise],
                seeds=DRAWS,
                report=report,
            )
            rows += made.rows
    console.out.print(terminal(flight.table(rows)))
    own, other = figures(rows, setup.filter), figures(rows, BASELINE)
    for line in verdict(own, other):
        console.out.print(line, soft_wrap=True)
    about = {"flights": [f.name for f in data.test], "kept aside": True}
    add_figures(folder, {**about, setup.filter: own, BASELINE: other}, NOT_FOR)
    said = f"Written: {folder / 'policy.json'}, the model card. Use it: sagewing run LOG"
    console.err.print(f"{said} --policy {folder}", soft_wrap=True)


def verdict(own: Figures, other: Figures) -> list[str]:
    """Whether to fly the policy, in a sentence for each scenario."""
    said = []
    for scenario in own:
        a, b = own[scenario]["pos_rmse_m"], other[scenario]["pos_rmse_m"]
        if a < b:
            by = 100 * (1 - a / b)
            said.append(f"{scenario}: the policy is {by:.0f}% better than the tuned, gated EKF.")
        else:
            said.append(
                f"WARNING, {scenario}: the policy is no better than the tuned, gated EKF "
                f"({a:.3f} against {b:.3f} m); fly the EKF."
            )
    return said
