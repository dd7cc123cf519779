"""The transfer benchmark in tables: our figures beside the paper's."""

from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from sagewing.report.style import LABELS, SYSTEMS
from sagewing.studies.flight import SCENARIOS
from sagewing.studies.transfer import COUPLED, DECOUPLED, FROM_CHAOS, FROM_FLIGHT

Key = str | tuple[int, int]


class Figures(NamedTuple):
    """ARMSE, its standard deviation, and the percentage of lost runs."""

    mean: float | None = None
    std: float | None = None
    lost: float | None = None


# Paper, table "Cross-Dynamics Transfer Benchmark", by (z_off, x_off), and its Table 1. It has no
# column for lost runs of Lorenz: there are none.
PAPER: dict[str, dict[Key, Figures]] = {
    "lorenz": {
        "ekf": Figures(0.652, 0.108, 0.0),
        "ndr": Figures(0.527, 0.126, 0.0),
        (0, 0): Figures(0.545, 0.129, 0.0),
        (1, 4): Figures(0.558, 0.165, 0.0),
        (2, 8): Figures(0.574, 0.127, 0.0),
        (3, 12): Figures(0.569, 0.129, 0.0),
        (4, 16): Figures(0.565, 0.173, 0.0),
        (3, 0): Figures(0.580, 0.212, 0.0),
        (3, 8): Figures(0.589, 0.183, 0.0),
        (3, 16): Figures(0.566, 0.149, 0.0),
    },
    "rossler": {
        "ekf": Figures(2.894, 2.146, 2.25),
        "ndr": Figures(0.493, 0.548, 2.23),
        (0, 0): Figures(0.678, 0.672, 2.24),
        (1, 4): Figures(0.864, 0.963, 2.23),
        (2, 8): Figures(0.605, 0.612, 2.23),
        (3, 12): Figures(0.849, 0.831, 2.25),
        (4, 16): Figures(0.756, 0.713, 2.24),
        (3, 0): Figures(0.515, 0.351, 2.23),
        (3, 8): Figures(0.581, 0.409, 2.23),
        (3, 16): Figures(0.799, 0.812, 2.23),
    },
}
HOME, COUPLED_SHIFT, ATTITUDE, OTHER = (
    "trained on chaos, or not at all",
    "coupled linear shift, x_off = 4 z_off",
    "attitude-isolated decoupling, z_off = 3",
    "other offsets",
)
FLIGHT_LABELS = {**LABELS, FROM_CHAOS: "NDR-SHKF, from chaos"}


class Line(NamedTuple):
    """A line of the table: its group, its name, and for each system our figures and the paper's."""

    group: str
    name: str
    ours: list[Figures]
    paper: list[Figures]


def systems_of(rows: list[dict[str, Any]]) -> list[str]:
    """The systems, in the order in which they were run."""
    return list(dict.fromkeys(row["system"] for row in rows))


def lines_of(rows: list[dict[str, Any]]) -> list[Line]:
    """The table's lines, in the paper's order."""
    by_key: dict[Key, dict[str, Figures]] = {}
    for row in rows:
        moved = row["filter"] == FROM_FLIGHT
        key = (row["z_off"], row["x_off"]) if moved else row["filter"]
        figures = Figures(row["armse_mean"], row["armse_std"], row["divergence_pct"])
        by_key.setdefault(key, {})[row["system"]] = figures
    lines = []
    for key, found in by_key.items():
        paper = [PAPER.get(system, {}).get(key, Figures()) for system in found]
        if isinstance(key, str):
            group, name = HOME, LABELS[key]
        else:
            group = COUPLED_SHIFT if key in COUPLED else ATTITUDE if key in DECOUPLED else OTHER
            name = f"z_off {key[0]}, x_off {key[1]}"
        lines.append(Line(group, name, list(found.values()), paper))
    return sorted(lines, key=lambda line: (HOME, COUPLED_SHIFT, ATTITUDE, OTHER).index(line.group))


def table(rows: list[dict[str, Any]]) -> Table:
    """A flight policy on chaos, for the terminal; of the paper, the means."""
    out = Table(
        title="A flight policy on chaos: ARMSE, mean ± std over runs, and the paper's mean",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    out.add_column("")
    for system in systems_of(rows):
        out.add_column(SYSTEMS[system], justify="right")
        out.add_column("paper", justify="right")
        out.add_column("lost", justify="right")
    before = HOME
    for line in lines_of(rows):
        if line.group != before:
            out.add_section()
        before = line.group
        cells = []
        for ours, paper in zip(line.ours, line.paper, strict=True):
            cells += [_both(ours, " ± "), _number(paper.mean), f"{_number(ours.lost, 2)}%"]
        out.add_row(line.name, *cells)
    return out


def markdown(rows: list[dict[str, Any]]) -> str:
    """A flight policy on chaos, for a page."""
    head = ["embedding"]
    for system in systems_of(rows):
        head += [f"{SYSTEMS[system]}, mean ± std", "paper", "lost", "paper"]
    out = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    group = None
    for line in lines_of(rows):
        if line.group != group:
            out.append(f"| **{line.group}** |" + " |" * (len(head) - 1))
        group = line.group
        cells = [line.name]
        for ours, paper in zip(line.ours, line.paper, strict=True):
            cells += [_both(ours, " ± "), _both(paper, " ± ")]
            cells += [f"{_number(f.lost, 2)}%" for f in (ours, paper)]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def latex(rows: list[dict[str, Any]]) -> str:
    """A flight policy on chaos, in the form of the paper's table."""
    systems = systems_of(rows)
    width = 1 + 4 * len(systems)
    names = [rf"\multicolumn{{4}}{{c}}{{{SYSTEMS[s]}}}" for s in systems]
    columns = ["mean $\\pm$ std", "paper", r"lost (\%)", "paper"] * len(systems)
    out = [r"\begin{tabular}{l" + "cccc" * len(systems) + "}", r"\hline"]
    out += [" & ".join(["", *names]) + r" \\", " & ".join(["Embedding", *columns]) + r" \\ \hline"]
    group = None
    for line in lines_of(rows):
        if line.group != group:
            title = line.group.replace("_", r"\_")
            out.append(rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{title}}}}} \\ \hline")
        group = line.group
        cells = [line.name.replace("_", r"\_")]
        for ours, paper in zip(line.ours, line.paper, strict=True):
            cells += ["$" + _both(f, r" \pm ") + "$" for f in (ours, paper)]
            cells += [_number(f.lost, 2) for f in (ours, paper)]
        out.append(" & ".join(cells) + r" \\")
    return "\n".join([*out, r"\hline", r"\end{tabular}"]) + "\n"


def flight_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A line a filter: position (m) and attitude (rad) in each scenario, mean over flights."""
    scenarios = [s for s in SCENARIOS if any(row["scenario"] == s for row in rows)]
    lines = [["", *(f"{s}, {unit}" for s in scenarios for unit in ("m", "rad"))]]
    for name in dict.fromkeys(row["filter"] for row in rows):
        cells = [FLIGHT_LABELS[name]]
        for scenario in scenarios:
            of = [row for row in rows if (row["filter"], row["scenario"]) == (name, scenario)]
            cells += [
                _number(float(np.mean([row[error] for row in of])))
                for error in ("pos_rmse_m", "att_rmse_rad")
            ]
        lines.append(cells)
    return lines


def flight_table(rows: list[dict[str, Any]]) -> Table:
    """A chaos policy in flight, for the terminal."""
    out = Table(
        title="A chaos policy in flight: RMSE of position and attitude, mean over flights",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    head, *lines = flight_cells(rows)
    for i, name in enumerate(head):
        above, _, unit = name.partition(", ")
        above = "" if unit == "rad" else above  # the scenario stands over its first column
        out.add_column(f"{above}\n{unit}", justify="right" if i else "left", no_wrap=True)
    for cells in lines:
        out.add_row(*cells)
    return out


def flight_markdown(rows: list[dict[str, Any]]) -> str:
    """A chaos policy in flight, for a page."""
    head, *lines = flight_cells(rows)
    out = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(out + [f"| {' | '.join(cells)} |" for cells in lines]) + "\n"


def _both(figures: Figures, sign: str) -> str:
    return f"{_number(figures.mean)}{sign}{_number(figures.std)}"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"
