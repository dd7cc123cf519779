"""Missions in closed loop: a table and a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.report.figures import new_figure
from sagewing.report.numbers import MISSING
from sagewing.report.style import COLOURS, LABELS
from sagewing.report.table import ReportTable, Section, TableColumn
from sagewing.studies.closed_loop import CORRIDOR, FlownMission

SHADE = {"color": "#D81B8C", "alpha": 0.12, "lw": 0}
TITLE = "Flying on estimates: error at the end of the blackout, farthest from the path"
COLUMNS = (
    TableColumn("estimates of", lambda row: LABELS[row["filter"]], left=True),
    TableColumn("circle", lambda row: str(row["circle"] + 1)),
    TableColumn("drift", lambda row: _metres(row["drift_m"])),
    TableColumn("off path", lambda row: _metres(row["off_path_max_m"])),
    TableColumn(f"within {CORRIDOR:g} m", lambda row: "yes" if row["stayed"] else "no"),
    TableColumn("landed", lambda row: _landing(row["touchdown_m_s"], row["landed"])),
)


def table(rows: Sequence[dict[str, Any]]) -> ReportTable:
    """A row for each mission."""
    return ReportTable(COLUMNS, [Section(rows)], title=TITLE)


def _metres(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f} m"


def _landing(speed: float | None, landed: bool) -> str:
    return "no" if speed is None else f"{'yes' if landed else 'crash'}, {speed:.2f} m/s"


def picture(missions: Sequence[FlownMission], path: Path) -> None:
    """One circle from above, the height, and how far off path and estimate are."""
    first = missions[0]
    with new_figure(path, 11.0, 5.6) as figure:
        grid = figure.add_gridspec(3, 2, width_ratios=(1.0, 1.35))
        above = figure.add_subplot(grid[:, 0])
        height, off, apart = (figure.add_subplot(grid[i, 1]) for i in range(3))
        path_style = {"color": "#000000", "lw": 3.0, "alpha": 0.25, "label": "path"}
        above.plot(first.path[:, 0], first.path[:, 1], **path_style)
        longest = max(missions, key=lambda flown: len(flown.t))
        height.plot(longest.t, longest.path[:, 2], **path_style)
        for flown in missions:
            style = {"color": COLOURS[flown.name], "lw": 1.2}
            above.plot(
                flown.position[:, 0], flown.position[:, 1], label=LABELS[flown.name], **style
            )
            above.plot(*flown.position[-1, :2], "o", ms=5, color=COLOURS[flown.name])
            height.plot(flown.t, flown.position[:, 2], **style)
            off.semilogy(flown.t, flown.off, **style)
            if np.any(error := np.linalg.norm(flown.position - flown.estimate, axis=1)):
                apart.semilogy(flown.t, error, **style)
        for axis, label in ((height, "height [m]"), (off, "off path [m]"), (apart, "error [m]")):
            axis.axvspan(*first.blackout, **SHADE)
            axis.set_ylabel(label)
        off.set_ylim(bottom=0.01)
        apart.set_ylim(bottom=0.003)
        off.axhline(CORRIDOR, color="#777777", lw=0.8, ls="--")
        apart.set_xlabel("time [s]; shaded: no pose")
        above.set_aspect("equal", adjustable="datalim")
        above.set_xlabel("x [m]")
        above.set_ylabel("y [m]")
        above.legend(loc="center", fontsize=8)
