"""The table of the flight benchmark."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sagewing import catalogue
from sagewing.report.numbers import rounded
from sagewing.report.style import LABELS, SCENARIOS
from sagewing.report.table import DOCUMENTS, Cell, ReportTable, Section, TableColumn
from sagewing.studies.flight import DEAD_RECKONING, ONBOARD

# Chi-square with six degrees of freedom, three of position and three of attitude.
NEES_MEDIAN = 5.35
NEES_BAND = (1.24, 14.45)
FAR = 3.0  # a value over so many times its target, or under that part of it, is far from it
CAPTION = (
    "RMSE of position and attitude over a flight, mean ± std over flights and noise draws; window: "
    "position RMSE in the middle 2 s; drift: position error at their end, median. In those 2 s, a "
    "disturbance doubles the variance of the pose's noise and a denial takes the pose away. "
    f"NEES: median; a consistent filter has {NEES_MEDIAN}, and 95% of its values lie in "
    f"{NEES_BAND[0]}..{NEES_BAND[1]} (chi-square, 6 degrees of freedom). Bold: the smallest."
)
REFERENCES = {
    ONBOARD: "the estimate in the log, from the vehicle's own sensors, without our noise",
    DEAD_RECKONING: "the IMU integrated from the true state at the window's start",
}


class Measure(NamedTuple):
    """A number of the rows: its heading and unit, and how rows are summarised."""

    head: str
    unit: str
    key: str
    average: Callable[[np.ndarray], Any]
    spread: bool = False  # whether the standard deviation follows
    digits: int = 3
    target: float | None = 0.0  # the nearest to it is the best of its scenario; None: none is


MEASURES = (
    Measure("position", "[m]", "pos_rmse_m", np.mean, spread=True),
    Measure("attitude", "[rad]", "att_rmse_rad", np.mean, spread=True),
    Measure("window", "[m]", "window_pos_rmse_m", np.mean),
    Measure("drift", "[m]", "drift_m", np.median),
    Measure("NEES", "", "nees_median", np.median, digits=2, target=None),
)


# Of a smoothed estimate the error is largest in the middle of a blackout, and not at its end.
WORST_KEY = "worst_m"
WORST = Measure("worst", "[m]", WORST_KEY, np.median)
WORST_CAPTION = (
    "Worst: the largest position error in the middle 2 s, median. Smoothed: the estimates by all "
    "measurements of the flight."
)


def any_smoothed(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether some row is of smoothed estimates."""
    return any(catalogue.is_smoothed(row["filter"]) for row in rows)


def measures_of(rows: Sequence[dict[str, Any]]) -> tuple[Measure, ...]:
    """The measures of a table; with smoothed rows the largest error in the window, too."""
    if not any_smoothed(rows):
        return MEASURES
    place = 1 + [m.key for m in MEASURES].index("drift_m")
    return (*MEASURES[:place], WORST, *MEASURES[place:])


class FlightLine(NamedTuple):
    """One filter in one scenario."""

    scenario: str
    filter: str
    cells: list[Cell]


def table(rows: list[dict[str, Any]]) -> ReportTable:
    """The errors, a section for each scenario."""
    measures = measures_of(rows)
    columns = [
        TableColumn("scenario", lambda line: line.scenario, left=True, forms=("markdown",)),
        TableColumn("", _label, left=True, wrap="between words", forms=("terminal",)),
        TableColumn("filter", _label, left=True, forms=DOCUMENTS),
        *measure_columns(measures),
    ]
    sections = [
        Section(lines, {"terminal": scenario, "latex": SCENARIOS[scenario]})
        for scenario, lines in lines_of(rows, measures)
    ]
    return ReportTable(columns, sections, caption=caption(rows), align_markdown=True)


def measure_columns(measures: Sequence[Measure]) -> list[TableColumn]:
    """A column for each measure; its rows are `FlightLine`."""

    def cell_of(place: int) -> Callable[[FlightLine], Cell]:
        return lambda line: line.cells[place]

    return [TableColumn(m.head, cell_of(i), m.unit, math=True) for i, m in enumerate(measures)]


def _label(line: FlightLine) -> str:
    return LABELS[line.filter]


def caption(rows: list[dict[str, Any]]) -> list[str]:
    """What the columns mean, and which rows are not filters of this package."""
    present = {row["filter"] for row in rows}
    references = [
        f"{LABELS[name]}: {text}." for name, text in REFERENCES.items() if name in present
    ]
    worst = [WORST_CAPTION] if any_smoothed(rows) else []
    return [CAPTION, *worst, *_attitudes(rows), *references]


def _attitudes(rows: list[dict[str, Any]]) -> list[str]:
    """Which filters have the paper's states and which an error state, if there are both."""
    filtered = [row for row in rows if not catalogue.is_smoothed(row["filter"])]
    kinds = {row["filter"]: row["attitude"] for row in filtered if "attitude" in row}
    papers = [LABELS[name] for name, kind in kinds.items() if kind == "euler"]
    if not papers or len(papers) == len(kinds):
        return []
    return [f"{', '.join(papers)}: the paper's 19 states and Euler angles; others: an error state."]


def lines_of(
    rows: list[dict[str, Any]], measures: Sequence[Measure] = MEASURES
) -> Iterator[tuple[str, list[FlightLine]]]:
    """The scenarios, and the filters in each, in the order of the rows."""
    for scenario in dict.fromkeys(row.get("scenario", "") for row in rows):
        of_scenario = [row for row in rows if row.get("scenario", "") == scenario]
        names = list(dict.fromkeys(row["filter"] for row in of_scenario))
        by_filter = {name: [row for row in of_scenario if row["filter"] == name] for name in names}
        columns = [_cells(measure, by_filter) for measure in measures]
        yield (
            scenario,
            [FlightLine(scenario, name, [cells[name] for cells in columns]) for name in names],
        )


def _cells(measure: Measure, by_filter: dict[str, list[dict[str, Any]]]) -> dict[str, Cell]:
    """A measure of every filter of a scenario; a dash where a filter has no value."""
    values = {
        name: np.array([r[measure.key] for r in rows if r.get(measure.key) is not None], float)
        for name, rows in by_filter.items()
    }
    averages = {name: float(measure.average(v)) for name, v in values.items() if len(v)}
    texts = {name: rounded(averages.get(name), measure.digits) for name in values}
    compared = [n for n in averages if n not in REFERENCES and np.isfinite(averages[n])]
    best = min(compared, key=lambda n: _distance(averages[n], measure.target), default=None)
    cells = {}
    for name, v in values.items():
        text = texts[name]
        if measure.spread and len(v) > 1:
            text += f" ± {rounded(float(v.std()), measure.digits)}"
        equals_best = best is not None and name in compared and texts[name] == texts[best]
        # Where all are far from the target, the nearest is not marked.
        distance = _distance(averages.get(name, 0.0), measure.target)
        far = bool(measure.target) and distance > np.log(FAR)
        cells[name] = Cell(text, measure.target is not None and equals_best and not far)
    return cells


def _distance(value: float, target: float | None) -> float:
    """The distance from the target: half of it and twice it are equally far."""
    return abs(np.log(max(value, 1e-30) / target)) if target else abs(value)
