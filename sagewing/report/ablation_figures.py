"""The ablation study in figures."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from sagewing.report.figures import new_figure
from sagewing.report.style import COLOURS, SYSTEMS
from sagewing.studies.ablation import AXES, DEFAULT
from sagewing.studies.ablation_lines import AblationLine

WHISKERS = (5.0, 95.0)
# A violin is drawn from so many quantiles; it looks the same as one of a million runs.
POINTS = 4000


def violins(lines: dict[str, list[AblationLine]], domain: str, path: Path) -> None:
    """How the runs of all seeds are distributed, a violin a variant, an axis a panel."""
    widths = [len(of) for of in lines.values()]
    every = np.concatenate([line.errors[domain].ravel() for of in lines.values() for line in of])
    every = every[~np.isnan(every)]
    with new_figure(path, max(6.0, 1.25 * sum(widths) + 1.0), 4.8) as figure:
        panels = figure.subplots(1, len(lines), sharey=True, squeeze=False, width_ratios=widths)[0]
        for axes, (axis, of) in zip(panels, lines.items(), strict=True):
            for place, line in enumerate(of):
                _violin(axes, place, line, domain)
            axes.set_xticks(range(len(of)), [_folded(line.label) for line in of], fontsize=8)
            axes.set_title(AXES[axis].title if axis else "", fontsize=9)
            axes.grid(False, axis="x")
        panels[0].set(yscale="log", ylabel=f"ARMSE of a run, {SYSTEMS[domain]}")
        panels[0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panels[0].yaxis.set_major_formatter("{x:g}")
        panels[0].yaxis.set_minor_formatter(NullFormatter())
        if every.size:
            panels[0].set_ylim(0.9 * every.min(), 1.1 * every.max())
        handles, labels = panels[0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        place = {"loc": "outside lower center", "ncols": 3, "fontsize": 8}
        figure.legend(unique.values(), unique.keys(), **place)


def _violin(axes: Any, place: int, line: AblationLine, domain: str) -> None:
    errors = line.errors[domain]
    kept = errors[~np.isnan(errors)]
    if kept.size < 2 or np.ptp(kept) == 0.0:
        return
    colour = COLOURS["ndr"] if line.variant == DEFAULT else COLOURS["ndr-paper"]
    # The density of the logarithm, since the axis is logarithmic.
    logs = np.quantile(np.log(kept), np.linspace(0.0, 1.0, POINTS))
    parts = axes.violinplot(logs, positions=[place], widths=0.85, showextrema=False)
    for body in parts["bodies"]:
        outline = body.get_paths()[0].vertices
        outline[:, 1] = np.exp(outline[:, 1])
        body.set(facecolor=colour, alpha=0.6)
    low, high = np.percentile(kept, WHISKERS)
    axes.vlines(place, low, high, color="black", lw=1.0, label="5th to 95th percentile")
    # The spread between seeds, which more runs would not reduce.
    medians = [np.median(e[~np.isnan(e)]) for e in errors if not np.all(np.isnan(e))]
    x = np.full(len(medians), place + 0.12)
    axes.plot(x, medians, ".", color="black", ms=3, alpha=0.6, label="median of a seed")
    axes.plot(place, np.median(kept), "s", color="white", mec="black", ms=6, label="median")


def _folded(label: str) -> str:
    """The label, broken into lines as narrow as its violin."""
    return label.replace(", ", ",\n").replace(" x ", "\nx ").replace(" of the ", "\nof the ")
