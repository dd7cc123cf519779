"""Missions in closed loop: a table and a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from sagewing.report.figures import new_figure
from sagewing.report.style import COLOURS, LABELS
from sagewing.studies.closed_loop import CORRIDOR, FlownMission

SHADE = {"color": "#D81B8C", "alpha": 0.12, "lw": 0}
HEAD = ("estimates of", "circle", "drift", "off path", f"within {CORRIDOR:g} m", "landed")


def cells_of(row: dict[str, Any]) -> list[str]:
    """A mission's line in the table."""
    speed = row["touchdown_m_s"]
    return [
        LABELS[row["filter"]],
        str(row["circle"] + 1),
        "–" if row["drift_m"] is None else f"{row['drift_m']:.2f} m",
        f"{row['off_path_max_m']:.2f} m",
        "yes" if row["stayed"] else "no",
        "no" if speed is None else f"{'yes' if row['landed'] else 'crash'}, {speed:.2f} m/s",
    ]


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """For the terminal."""
    out = Table(
        title="Flying on estimates: error at the end of the blackout, farthest from the path",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for i, name in enumerate(HEAD):
        out.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        out.add_row(*cells_of(row))
    return out


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """For a page."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    return "\n".join(lines + [f"| {' | '.join(cells_of(row))} |" for row in rows]) + "\n"


def picture(missions: Sequence[FlownMission], path: Path) -> None:
    """One circle from above, the height, and how far off path and estimate are."""
    first = missions[0]
    with new_figure(path, 11.0, 5.6) as figure:
        grid = figure.add_gridspec(3, 2, width_ratios=(1.0, 1.35))
        above = figure.add_subplot(grid[:, 0])
        height, off, apart = (figure.add_subplot(grid[i, 1]) for i in range(3))
        told = {"color": "#000000", "lw": 3.0, "alpha": 0.25, "label": "path"}
        above.plot(first.path[:, 0], first.path[:, 1], **told)
        longest = max(missions, key=lambda flown: len(flown.t))
        height.plot(longest.t, longest.path[:, 2], **told)
        for flown in missions:
            style = {"color": COLOURS[flown.name], "lw": 1.2}
            above.plot(
                flown.position[:, 0], flown.position[:, 1], label=LABELS[flown.name], **style
            )
            above.plot(*flown.position[-1, :2], "o", ms=5, color=COLOURS[flown.name])
            height.plot(flown.t, flown.position[:, 2], **style)
            off.semilogy(flown.t, flown.off, **style)
            if np.any(error := np.linalg.norm(flown.position - flown.believed, axis=1)):
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
