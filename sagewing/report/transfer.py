"""The transfer benchmark in tables: our figures and the paper's."""

from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sagewing.report.numbers import fixed
from sagewing.report.style import LABELS, SYSTEMS
from sagewing.report.table import DOCUMENTS, ReportTable, Section, TableColumn
from sagewing.studies.flight import SCENARIOS
from sagewing.studies.transfer import COUPLED, DECOUPLED, FROM_CHAOS, FROM_FLIGHT

Key = str | tuple[int, int]  # a filter, or the offsets (z_off, x_off)


class TransferFigures(NamedTuple):
    """ARMSE, its standard deviation, and the percentage of lost runs."""

    mean: float | None = None
    std: float | None = None
    lost: float | None = None


# Paper, table "Cross-Dynamics Transfer Benchmark", by (z_off, x_off), and its Table 1. It has no
# column for lost runs of Lorenz: there are none.
PAPER: dict[str, dict[Key, TransferFigures]] = {
    "lorenz": {
        "ekf": TransferFigures(0.652, 0.108, 0.0),
        "ndr": TransferFigures(0.527, 0.126, 0.0),
        (0, 0): TransferFigures(0.545, 0.129, 0.0),
        (1, 4): TransferFigures(0.558, 0.165, 0.0),
        (2, 8): TransferFigures(0.574, 0.127, 0.0),
        (3, 12): TransferFigures(0.569, 0.129, 0.0),
        (4, 16): TransferFigures(0.565, 0.173, 0.0),
        (3, 0): TransferFigures(0.580, 0.212, 0.0),
        (3, 8): TransferFigures(0.589, 0.183, 0.0),
        (3, 16): TransferFigures(0.566, 0.149, 0.0),
    },
    "rossler": {
        "ekf": TransferFigures(2.894, 2.146, 2.25),
        "ndr": TransferFigures(0.493, 0.548, 2.23),
        (0, 0): TransferFigures(0.678, 0.672, 2.24),
        (1, 4): TransferFigures(0.864, 0.963, 2.23),
        (2, 8): TransferFigures(0.605, 0.612, 2.23),
        (3, 12): TransferFigures(0.849, 0.831, 2.25),
        (4, 16): TransferFigures(0.756, 0.713, 2.24),
        (3, 0): TransferFigures(0.515, 0.351, 2.23),
        (3, 8): TransferFigures(0.581, 0.409, 2.23),
        (3, 16): TransferFigures(0.799, 0.812, 2.23),
    },
}
REFERENCE, COUPLED_SHIFT, ATTITUDE, OTHER = (
    "trained on chaos, or not at all",
    "coupled linear shift, x_off = 4 z_off",
    "attitude-isolated decoupling, z_off = 3",
    "other offsets",
)
GROUPS = (REFERENCE, COUPLED_SHIFT, ATTITUDE, OTHER)
FLIGHT_LABELS = {**LABELS, FROM_CHAOS: "NDR-SHKF, from chaos"}


class TransferLine(NamedTuple):
    """A line of the table: its group, its name, and for each system our figures and the paper's."""

    group: str
    name: str
    ours: list[TransferFigures]
    paper: list[TransferFigures]


def lines_of(rows: list[dict[str, Any]]) -> list[TransferLine]:
    """The table's lines, in the paper's order."""
    by_key: dict[Key, dict[str, TransferFigures]] = {}
    for row in rows:
        is_transferred = row["filter"] == FROM_FLIGHT
        key = (row["z_off"], row["x_off"]) if is_transferred else row["filter"]
        figures = TransferFigures(row["armse_mean"], row["armse_std"], row["divergence_pct"])
        by_key.setdefault(key, {})[row["system"]] = figures
    lines = []
    for key, found in by_key.items():
        paper = [PAPER.get(system, {}).get(key, TransferFigures()) for system in found]
        if isinstance(key, str):
            group, name = REFERENCE, LABELS[key]
        else:
            group = COUPLED_SHIFT if key in COUPLED else ATTITUDE if key in DECOUPLED else OTHER
            name = f"z_off {key[0]}, x_off {key[1]}"
        lines.append(TransferLine(group, name, list(found.values()), paper))
    return sorted(lines, key=lambda line: GROUPS.index(line.group))


def chaos_table(rows: list[dict[str, Any]]) -> ReportTable:
    """A flight policy on chaos; the terminal shows only the means of the paper."""
    columns = [
        TableColumn(
            "", lambda line: line.name, left=True, wrap="between words", forms=("terminal",)
        ),
        TableColumn("embedding", lambda line: line.name, left=True, forms=DOCUMENTS),
    ]
    for place, system in enumerate(dict.fromkeys(row["system"] for row in rows)):
        columns += _columns(place, SYSTEMS[system])
    return ReportTable(
        columns,
        [
            Section(list(lines), dict.fromkeys(DOCUMENTS, group))
            for group, lines in groupby(lines_of(rows), lambda line: line.group)
        ],
        title="A flight policy on chaos: ARMSE, mean ± std over runs, and the paper's mean",
        bold_titles=True,
    )


def _columns(place: int, name: str) -> list[TableColumn]:
    """The columns of the system at this place of a line."""

    def error(line: TransferLine) -> str:
        return _mean_std(line.ours[place])

    def paper(line: TransferLine) -> str:
        return _mean_std(line.paper[place])

    def paper_mean(line: TransferLine) -> str:
        return fixed(line.paper[place].mean)

    def lost(line: TransferLine) -> str:
        return f"{fixed(line.ours[place].lost, 2)}%"

    def paper_lost(line: TransferLine) -> str:
        return fixed(line.paper[place].lost, 2)

    return [
        TableColumn("", error, group=name, wrap="between words", forms=("terminal",)),
        TableColumn("mean ± std", error, group=name, math=True, forms=DOCUMENTS),
        TableColumn("paper", paper_mean, group=name, wrap="between words", forms=("terminal",)),
        TableColumn("paper", paper, group=name, math=True, forms=DOCUMENTS),
        TableColumn("lost", lost, group=name, wrap="between words", percent=True),
        TableColumn("paper", lambda line: f"{paper_lost(line)}%", group=name, forms=("markdown",)),
        TableColumn("paper", paper_lost, group=name, forms=("latex",)),
    ]


def flight_table(rows: list[dict[str, Any]]) -> ReportTable:
    """A chaos policy in flight: a row for each filter, errors averaged over flights."""
    columns = [TableColumn("", lambda name: FLIGHT_LABELS[name], left=True)]
    for scenario in SCENARIOS:
        if any(row["scenario"] == scenario for row in rows):
            columns += [
                TableColumn("", _average(rows, scenario, error), unit, group=scenario)
                for error, unit in (("pos_rmse_m", "m"), ("att_rmse_rad", "rad"))
            ]
    return ReportTable(
        columns,
        [Section(list(dict.fromkeys(row["filter"] for row in rows)))],
        title="A chaos policy in flight: RMSE of position and attitude, mean over flights",
    )


def _average(rows: list[dict[str, Any]], scenario: str, error: str) -> Callable[[str], str]:
    """Writes the mean of an error over the flights of a scenario."""

    def write(name: str) -> str:
        found = [r[error] for r in rows if (r["filter"], r["scenario"]) == (name, scenario)]
        return fixed(float(np.mean(found)))

    return write


def _mean_std(figures: TransferFigures) -> str:
    return f"{fixed(figures.mean)} ± {fixed(figures.std)}"
