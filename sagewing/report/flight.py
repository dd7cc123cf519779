"""The flight benchmark in tables: for the terminal, for Markdown, for LaTeX."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from sagewing.report.style import LABELS, SCENARIOS
from sagewing.studies.flight import DEAD_RECKONING, ONBOARD

# Chi-square with six degrees of freedom, three of position and three of attitude.
NEES_MEDIAN = 5.35
NEES_BAND = (1.24, 14.45)
MISSING = "–"
FAR = 3.0  # times its goal, or that part of it
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


class Column(NamedTuple):
    """What a column says, of which number of the rows, and how it sums them up."""

    head: str
    unit: str
    key: str
    typical: Callable[[np.ndarray], Any]
    spread: bool = False
    digits: int = 3
    goal: float | None = 0.0  # the nearest to it is the best of its scenario; None: no race


COLUMNS = (
    Column("position", "m", "pos_rmse_m", np.mean, spread=True),
    Column("attitude", "rad", "att_rmse_rad", np.mean, spread=True),
    Column("window", "m", "window_pos_rmse_m", np.mean),
    Column("drift", "m", "drift_m", np.median),
    Column("NEES", "", "nees_median", np.median, digits=2, goal=None),
)


class Cell(NamedTuple):
    """A number as a reader wants it, and whether it is the best of its scenario."""

    text: str
    best: bool


class Line(NamedTuple):
    """One filter in one scenario."""

    filter: str
    cells: list[Cell]


def table(rows: list[dict[str, Any]]) -> Table:
    """The errors for the terminal, a section a scenario."""
    out = Table(
        caption="\n".join(caption(rows)),
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        caption_justify="left",
    )
    out.add_column("")
    for column in COLUMNS:
        out.add_column(escape(headed(column, "\n")), justify="right", no_wrap=True)
    for scenario, lines in summed_up(rows):
        out.add_row(f"[italic]{scenario}[/]")
        for i, line in enumerate(lines):
            cells = [f"[bold]{c.text}[/]" if c.best else c.text for c in line.cells]
            out.add_row(LABELS[line.filter], *cells, end_section=i == len(lines) - 1)
    return out


def caption(rows: list[dict[str, Any]]) -> list[str]:
    """What the columns mean, and what in the table is not a filter of ours."""
    there = {row["filter"] for row in rows}
    named = [f"{LABELS[name]}: {text}." for name, text in REFERENCES.items() if name in there]
    return [CAPTION, *named]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table for a README."""
    head = ["scenario", "filter", *map(headed, COLUMNS)]
    made = [f"| {' | '.join(head)} |", f"|---|---|{'---:|' * len(COLUMNS)}"]
    for scenario, lines in summed_up(rows):
        for line in lines:
            cells = [f"**{c.text}**" if c.best else c.text for c in line.cells]
            made.append(f"| {' | '.join([scenario, LABELS[line.filter], *cells])} |")
    return "\n".join([*made, "", *caption(rows)]) + "\n"


def latex(rows: list[dict[str, Any]]) -> str:
    """The table in the form of the paper's."""
    wide = len(COLUMNS) + 1
    made = [rf"\begin{{tabular}}{{l{'c' * len(COLUMNS)}}}", r"\hline"]
    made.append(" & ".join(["Filter", *map(headed, COLUMNS)]) + r" \\ \hline")
    for scenario, lines in summed_up(rows):
        made.append(rf"\multicolumn{{{wide}}}{{c}}{{{SCENARIOS[scenario]}}} \\ \hline")
        for line in lines:
            cells = [_latex(cell) for cell in line.cells]
            made.append(" & ".join([LABELS[line.filter], *cells]) + r" \\")
        made.append(r"\hline")
    return "\n".join([*made, r"\end{tabular}"]) + "\n"


def _latex(cell: Cell) -> str:
    if cell.text == MISSING:
        return "--"
    text = cell.text.replace("±", r"\pm")
    return rf"$\mathbf{{{text}}}$" if cell.best else f"${text}$"


def summed_up(
    rows: list[dict[str, Any]], columns: Sequence[Column] = COLUMNS
) -> Iterator[tuple[str, list[Line]]]:
    """The scenarios, and of each its filters, in the order of the rows; references come last."""
    for scenario in dict.fromkeys(row.get("scenario", "") for row in rows):
        here = [row for row in rows if row.get("scenario", "") == scenario]
        names = list(dict.fromkeys(row["filter"] for row in here))
        found = {name: [r for r in here if r["filter"] == name] for name in names}
        made = [_column(column, found) for column in columns]
        yield scenario, [Line(name, [cells[name] for cells in made]) for name in names]


def _column(column: Column, found: dict[str, list[dict[str, Any]]]) -> dict[str, Cell]:
    """The column of a scenario; what a filter does not say is a dash."""
    values = {}
    for name, rows in found.items():
        said = [row[column.key] for row in rows if row.get(column.key) is not None]
        values[name] = np.array(said, float)
    typical = {name: float(column.typical(v)) for name, v in values.items() if len(v)}
    texts = {name: number(typical.get(name), column.digits) for name in values}
    raced = [name for name in typical if name not in REFERENCES and np.isfinite(typical[name])]
    best = texts[min(raced, key=lambda name: _away(typical[name], column.goal))] if raced else None
    cells = {}
    for name, v in values.items():
        text = texts[name]
        if column.spread and len(v) > 1:
            text += f" ± {number(float(v.std()), column.digits)}"
        won = column.goal is not None and name in raced and texts[name] == best
        # The nearest of some that are all far from their goal is not good.
        far = bool(column.goal) and _away(typical.get(name, 0.0), column.goal) > np.log(FAR)
        cells[name] = Cell(text, won and not far)
    return cells


def _away(value: float, goal: float | None) -> float:
    """How far from the goal: half of it and twice it are equally far."""
    return abs(np.log(max(value, 1e-30) / goal)) if goal else abs(value)


def headed(column: Column, between: str = " ") -> str:
    """A column's heading with its unit."""
    return f"{column.head}{between}[{column.unit}]" if column.unit else column.head


def number(value: float | None, digits: int) -> str:
    """So many digits after the point, and fewer for what is large; nothing becomes zero."""
    if value is None or not np.isfinite(value):
        return MISSING
    if 0.0 < abs(value) < 0.5 * 0.1**digits:
        return f"<{0.1**digits:.{digits}f}"
    if abs(value) >= 1e4:
        return f"{value:.0e}"
    fewer = sum(abs(value) >= limit for limit in (10.0, 100.0, 1e3))
    return f"{value:.{max(digits - fewer, 0)}f}"
