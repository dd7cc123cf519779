"""The chaotic systems in figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.metrics.errors import crmse, diverged
from sagewing.problems.chaos import DT
from sagewing.report.figures import new_figure
from sagewing.report.style import COLOURS, LABELS, SYSTEMS
from sagewing.studies.chaos import ChaosComparison

SHOWN_SECONDS = 3.0
# A figure of only a few filters shows the first of these that were run.
PREFERRED = ("ekf", "ndr-posterior", "vbakf", "l-ekf", "ndr", "shkf95", "shkf99", "enn-akf")
AXES = ("x", "y", "z")


def attractors(comparisons: Sequence[ChaosComparison], path: Path) -> None:
    """One run in space: the truth in grey and one filter a panel."""
    shown = _preferred(comparisons, 4)
    with new_figure(path, 3.2 * len(shown), 3.4 * len(comparisons)) as figure:
        for i, comparison in enumerate(comparisons):
            run = _shown(comparison)
            truth = comparison.truth[run]
            for j, name in enumerate(shown):
                axes: Any = figure.add_subplot(
                    len(comparisons), len(shown), i * len(shown) + j + 1, projection="3d"
                )
                axes.plot(*truth.T, color=COLOURS["truth"], lw=2.5, alpha=0.25)
                estimate = comparison.scores[name].kept.x[run]
                estimate = np.where(_near(estimate, truth), estimate, np.nan)
                axes.plot(*estimate.T, color=COLOURS[name], lw=0.8)
                axes.set_title(f"{SYSTEMS[comparison.system]}, {LABELS[name]}", fontsize=9)
                axes.set(xlabel="x", ylabel="y")
                axes.set_zlabel("z")
                axes.tick_params(labelsize=6)
        figure.suptitle("One run in space; grey: truth", fontsize=10)


def _near(x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which points lie in the range of the truth, widened by half of it on each side."""
    low, high = truth.min(axis=0), truth.max(axis=0)
    margin = 0.5 * (high - low)
    return np.all((x >= low - margin) & (x <= high + margin), axis=-1, keepdims=True)


def tracking(comparisons: Sequence[ChaosComparison], path: Path) -> None:
    """The coordinates of one run, and the adaptation vector d_k of the learned filter below."""
    shown = _preferred(comparisons, 4)
    with new_figure(path, 5.5 * len(comparisons), 9.5) as figure:
        axes = figure.subplots(4, len(comparisons), squeeze=False, sharex=True)
        for column, comparison in zip(axes.T, comparisons, strict=True):
            run, time = _shown(comparison), _time(comparison)
            for axis in range(3):
                _track(column[axis], comparison, run, time, axis, shown)
            column[0].set_title(f"{SYSTEMS[comparison.system]}, one run (grey: truth)")
            column[0].legend(ncols=2, fontsize=8)
            _adaptation(column[3], comparison, run, time)
            column[3].set_xlabel("time [s]")


def errors_over_time(comparisons: Sequence[ChaosComparison], path: Path) -> None:
    """CRMSE: the root mean square of all errors up to a time."""
    with new_figure(path, 5.0 * len(comparisons) + 2.2, 4.6) as figure:
        axes = figure.subplots(1, len(comparisons), squeeze=False)[0]
        for panel, comparison in zip(axes, comparisons, strict=True):
            for name, scores in comparison.scores.items():
                values = crmse(scores.rmse)
                panel.semilogy(_time(comparison), values, color=COLOURS[name], label=LABELS[name])
            panel.set(
                title=SYSTEMS[comparison.system], xlabel="time [s]", ylabel="CRMSE (runs not lost)"
            )
            panel.grid(True, which="both", alpha=0.2)
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)


def histograms(comparisons: Sequence[ChaosComparison], path: Path) -> None:
    """How the error of a run is distributed over the runs, a filter a row."""
    names = list(comparisons[0].scores)
    with new_figure(path, 5.5 * len(comparisons) + 1.5, 0.55 * len(names) + 1.4) as figure:
        axes = figure.subplots(len(names), len(comparisons), squeeze=False, sharex="col")
        for column, comparison in zip(axes.T, comparisons, strict=True):
            armse = {
                name: s.rmse[~diverged(s.rmse)].mean(axis=1)
                for name, s in comparison.scores.items()
            }
            every = np.concatenate(list(armse.values()))
            low, high = np.percentile(every, [0.05, 99.95])
            bins = np.geomspace(low, high, 120)
            for panel, name in zip(column, names, strict=True):
                if armse[name].size:
                    panel.hist(armse[name], bins=bins, color=COLOURS[name])
                    panel.axvline(float(np.median(armse[name])), color="black", lw=1.0)
                panel.set(xscale="log", yticks=[])
                panel.grid(False, axis="y")
                for side in ("left", "right", "top"):
                    panel.spines[side].set_visible(False)
            column[0].set_title(f"{SYSTEMS[comparison.system]}: runs by their ARMSE (line: median)")
            column[-1].set_xlabel("ARMSE of a run")
        for panel, name in zip(axes[:, 0], names, strict=True):
            panel.set_ylabel(LABELS[name], rotation=0, ha="right", va="center")


def _time(comparison: ChaosComparison) -> np.ndarray:
    return DT * np.arange(1, comparison.truth.shape[1] + 1)


def _shown(comparison: ChaosComparison) -> int:
    """The first run in which neither the truth nor a filter diverges, else the first."""
    kept = len(comparison.truth)
    lost = np.any([diverged(s.rmse[:kept]) for s in comparison.scores.values()], axis=0)
    return int(np.argmin(lost))


def _preferred(comparisons: Sequence[ChaosComparison], count: int) -> list[str]:
    names = list(comparisons[0].scores)
    chosen = [name for name in PREFERRED if name in names] + [
        n for n in names if n not in PREFERRED
    ]
    return sorted(chosen[:count], key=names.index)


def _track(
    axes: Any,
    comparison: ChaosComparison,
    run: int,
    time: np.ndarray,
    axis: int,
    filters: Sequence[str],
) -> None:
    early = time <= SHOWN_SECONDS
    truth = comparison.truth[run, early, axis]
    axes.plot(time[early], truth, color=COLOURS["truth"], lw=2.5, alpha=0.35)
    for name in filters:
        x = comparison.scores[name].kept.x[run, early, axis]
        axes.plot(time[early], x, color=COLOURS[name], lw=1.0, label=LABELS[name])
    spread = 0.5 * np.ptp(truth) + 1e-3
    axes.set(ylabel=AXES[axis], ylim=(truth.min() - spread, truth.max() + spread))


def _adaptation(axes: Any, comparison: ChaosComparison, run: int, time: np.ndarray) -> None:
    """The d_k of the learned filter, if one was run."""
    learned = [n for n in ("ndr-posterior", "ndr") if n in comparison.scores]
    if not learned:
        axes.set_axis_off()
        return
    kept = comparison.scores[learned[0]].kept
    if kept.d is None:
        return
    early = time <= SHOWN_SECONDS
    labels = [f"$d_{{q,{a}}}$" for a in AXES] + ["$d_{r,1}$", "$d_{r,2}$"]
    mesh = axes.pcolormesh(
        time[early], np.arange(len(labels)), kept.d[run, early].T, vmin=0.0, vmax=1.0, cmap="magma"
    )
    axes.set_yticks(np.arange(len(labels)), labels)
    axes.set_title(f"d of {LABELS[learned[0]]} (bright: adapts)")
    axes.invert_yaxis()
    axes.grid(False)
    axes.figure.colorbar(mesh, ax=axes, pad=0.01, fraction=0.03)
