"""The chaotic systems in one table and one picture."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.box import SIMPLE
from rich.table import Table

from sagewing.bench.chaos import Comparison
from sagewing.bench.metrics import diverged, rmse_over_time
from sagewing.report.style import COLOURS, LABELS, SYSTEMS
from sagewing.sim.chaos import DT

SHOWN_SECONDS = 3.0


def table(rows: list[dict[str, Any]]) -> Table:
    """The errors, a row a filter."""
    out = Table(
        title="ARMSE, mean ± std over runs; lost: an error over 100 at some step",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    out.add_column("filter")
    systems = list(dict.fromkeys(row["system"] for row in rows))
    for system in systems:
        out.add_column(SYSTEMS[system], justify="right")
        out.add_column("median", justify="right")
        out.add_column("lost", justify="right")
    for name in dict.fromkeys(row["filter"] for row in rows):
        cells = []
        for system in systems:
            row = next(r for r in rows if r["filter"] == name and r["system"] == system)
            cells.append(f"{row['armse_mean']:.3f} ± {row['armse_std']:.3f}")
            cells.append(f"{row['armse_median']:.3f}")
            cells.append(f"{row['divergence_pct']:.1f}%")
        out.add_row(LABELS[name], *cells)
    return out


def picture(comparisons: list[Comparison], path: Path) -> None:
    """One run of each system, the noise that the learned filter believes in, and the mean error."""
    with matplotlib.rc_context({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(11, 8.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(3, len(comparisons), squeeze=False)
        for column, comparison in zip(axes.T, comparisons, strict=True):
            _draw(column, comparison)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)


def _draw(axes: Any, comparison: Comparison) -> None:
    track, noise, error = axes
    truth = np.asarray(comparison.records.truth, np.float64)
    rmse = {
        name: rmse_over_time(np.asarray(result.x), truth)
        for name, result in comparison.results.items()
    }
    kept = ~np.any([diverged(r) for r in rmse.values()], axis=0)
    run = int(np.flatnonzero(kept)[0])
    time = DT * np.arange(1, truth.shape[1] + 1)
    early = time <= SHOWN_SECONDS

    track.plot(time[early], truth[run, early, 1], color=COLOURS["truth"], lw=2.5, alpha=0.35)
    for name, result in comparison.results.items():
        x = np.asarray(result.x)[run, early, 1]
        track.plot(time[early], x, color=COLOURS[name], lw=1.0, label=LABELS[name])
    track.set(
        title=f"{SYSTEMS[comparison.system]}: the state y of one run (grey: truth)", ylabel="y"
    )
    track.legend(ncols=2, fontsize=8)

    if "ndr" in comparison.results:
        r = np.asarray(comparison.results["ndr"].r)[run]
        for channel, (line, values) in enumerate(zip(("-", "--"), r.T, strict=True), start=1):
            noise.semilogy(
                time, values, line, color=COLOURS["ndr"], lw=1.0, label=f"r, channel {channel}"
            )
        noise.set(title="the measurement variance that NDR-SHKF assumes, same run", ylabel="r")
        noise.legend(fontsize=8)

    for name, values in rmse.items():
        error.plot(time, np.mean(values[kept], axis=0), color=COLOURS[name], label=LABELS[name])
    error.set(
        title=f"mean error over {int(kept.sum())} runs that no filter lost",
        xlabel="time [s]",
        ylabel="RMSE",
        ylim=(0.0, None),
    )
    error.legend(ncols=2, fontsize=8)
