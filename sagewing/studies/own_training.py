"""Compare a policy trained on a user's logs with the tuned EKF, on a held-out flight."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagewing.problems.flight.dataset import Dataset
from sagewing.problems.flight.setup import NOISE
from sagewing.studies.card import Figures, add_figures, figures
from sagewing.studies.flight import compare
from sagewing.train.flight import FlightTraining

SCENARIOS = ("baseline", "denial")
BASELINE = "ekf-gated"
DRAWS = 5
NOT_FOR = "vehicles and positioning systems other than those of the logs it was trained on"


def compare_on_test(
    data: Dataset,
    setup: FlightTraining,
    noise: str,
    learned: dict[str, Any],
    report: Callable[[str], None] = lambda note: None,
) -> list[dict[str, Any]]:
    """The rows of both filters on the held-out flight."""
    rows: list[dict[str, Any]] = []
    for scenario in SCENARIOS:

        def report_filter(name: str, scenario: str = scenario) -> None:
            report(f"{scenario}, {name}")

        comparison = compare(
            scenario,
            data.test,
            filters=(BASELINE, setup.filter),
            learned=learned,
            vehicle=setup.vehicle,
            without_pose=setup.without_pose,
            noise=NOISE[noise],
            seeds=DRAWS,
            report=report_filter,
        )
        rows += comparison.rows
    return rows


def write_figures(folder: Path, rows: list[dict[str, Any]], name: str, data: Dataset) -> list[str]:
    """Write both filters' figures into the policy's card; returns the verdict."""
    own, other = figures(rows, name), figures(rows, BASELINE)
    source = {"flights": [flight.name for flight in data.test], "kept aside": True}
    add_figures(folder, {**source, name: own, BASELINE: other}, NOT_FOR)
    return verdict(own, other)


def verdict(own: Figures, other: Figures) -> list[str]:
    """Whether the policy is better than the EKF: one sentence for each scenario."""
    lines = []
    for scenario in own:
        a, b = own[scenario]["pos_rmse_m"], other[scenario]["pos_rmse_m"]
        if a < b:
            by = 100 * (1 - a / b)
            lines.append(f"{scenario}: the policy is {by:.0f}% better than the tuned, gated EKF.")
        else:
            lines.append(
                f"WARNING, {scenario}: the policy is no better than the tuned, gated EKF "
                f"({a:.3f} against {b:.3f} m); fly the EKF."
            )
    return lines
