"""The flight benchmark in figures: tracking, errors over time, adaptation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.catalogue import SHARED
from sagewing.metrics.errors import attitude_error
from sagewing.models.quadrotor import N_X, Q, R
from sagewing.problems.flight.records import POSE
from sagewing.report.figures import new_figure
from sagewing.report.page.angles import angle_near, euler
from sagewing.report.style import COLOURS, LABELS, SCENARIOS
from sagewing.studies.flight import FlightComparison

LEARNED = ("ndr-shared", "ndr", "ndr-paper")  # the first of these that was run is shown in full
# A figure of only a few filters shows the first of these that were run.
PREFERRED = (
    "ekf",
    "ndr-shared",
    "ndr",
    "ndr-paper",
    "ekf-gated",
    "shkf999",
    "ekf-tuned",
    "shkf995",
)
SHADE = {"color": "#D81B8C", "alpha": 0.12, "lw": 0}
SMOOTHED_S = 0.1  # errors over time are means over so many seconds
AXES = ("x", "y", "z")
ANGLES = ("roll", "pitch", "yaw")
# The channels of q_k and of r_k, and what the six measurements are in either mode.
STATES = {
    "position": ("x", "y", "z"),
    "velocity": ("x", "y", "z"),
    "attitude": ("w", "x", "y", "z"),
    "rate": ("x", "y", "z"),
    "accelerometer bias": ("x", "y", "z"),
    "gyroscope bias": ("x", "y", "z"),
}
POSES = {"position": ("x", "y", "z"), "angles": ("roll", "pitch", "yaw")}
IMU = ("acc.", "gyro")
CHANNELS = {
    "w": "#777777",
    **dict.fromkeys(("x", "roll"), "#D55E00"),
    **dict.fromkeys(("y", "pitch"), "#009E73"),
    **dict.fromkeys(("z", "yaw"), "#0072B2"),
}


def tracking(comparison: FlightComparison, path: Path, record: int = 0) -> None:
    """Position and attitude of one record: truth, what was measured, and a few filters."""
    steps, time = _steps(comparison, record), _time(comparison, record)
    position = np.asarray(comparison.records.position)[record, :steps]
    angles = np.unwrap(euler(np.asarray(comparison.records.quaternion)[record, :steps]), axis=0)
    measured = np.asarray(comparison.records.z)[record, :steps]
    is_pose = np.asarray(comparison.records.u)[record, :steps, :1] == POSE
    measured = np.where(is_pose, measured, np.nan)
    truth = np.concatenate([position, angles], axis=1)
    panels = {"measured": measured}
    for name in _preferred(comparison, 4):
        x = comparison.estimates[name].x[record, :steps]
        panels[name] = np.concatenate([x[:, R], euler(x[:, Q])], axis=1)
    with new_figure(path, 11.0, 7.2) as figure:
        axes = figure.subplots(3, 2, sharex=True)
        for i, axis in enumerate(axes.T.ravel()):
            turns = i >= 3
            scale = np.degrees(1.0) if turns else 1.0
            for name, values in panels.items():
                column = values[:, i]
                if turns:
                    column = angle_near(column, truth[:, i])
                style: dict[str, Any] = {"color": COLOURS.get(name), "lw": 1.1}
                if name == "measured":
                    style = {"color": "#B5B5B5", "ls": "", "marker": ".", "ms": 1.6, "zorder": 0}
                axis.plot(time, scale * column, label=LABELS.get(name, name), **style)
            true_values = scale * (angle_near(truth[:, i], truth[:, i]) if turns else truth[:, i])
            axis.plot(time, true_values, color=COLOURS["truth"], lw=3.0, alpha=0.3, label="truth")
            low, high = np.nanmin(true_values), np.nanmax(true_values)
            margin = np.clip(0.4 * (high - low), *((10.0, 30.0) if turns else (0.5, 5.0)))
            axis.set_ylim(low - margin, high + margin)
            axis.set_ylabel(f"{ANGLES[i - 3]} [deg]" if turns else f"{AXES[i]} [m]")
            _shade(axis, comparison, record)
        axes[-1, 0].set_xlabel("time [s]")
        axes[-1, 1].set_xlabel("time [s]")
        axes[0, 0].set_xlim(time[0], time[-1])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        flight = comparison.flights[record // comparison.seeds].name
        figure.suptitle(f"{SCENARIOS[comparison.scenario]} ({flight}, one draw of noise)")


def errors(comparisons: Sequence[FlightComparison], path: Path) -> None:
    """Position and attitude error over time, mean over all records, a column a scenario."""
    with new_figure(path, 4.2 * len(comparisons) + 0.6, 6.2) as figure:
        axes = figure.subplots(2, len(comparisons), squeeze=False, sharex=True, sharey="row")
        for column, comparison in zip(axes.T, comparisons, strict=True):
            _errors(column[0], column[1], comparison)
            column[0].set_title(SCENARIOS[comparison.scenario])
            column[1].set_xlabel("time from the window's start [s]")
        axes[0, 0].set_ylabel("position error [m]")
        axes[1, 0].set_ylabel("attitude error [deg]")
        _legend_below(figure, axes[0, 0])


def adaptation(comparison: FlightComparison, path: Path, record: int = 0) -> None:
    """q_k, r_k and d_k of the learned filter in one record; no figure where none was run."""
    name = _learned(comparison)
    if name is None:
        return
    estimates = comparison.estimates[name]
    if estimates.q is None or estimates.r is None or estimates.d is None:
        return
    time, steps = _time(comparison, record), _steps(comparison, record)
    names = STATES if estimates.q.shape[-1] == N_X else STATES | {"attitude": ("x", "y", "z")}
    groups = [(f"q: {name}", channels) for name, channels in names.items()]
    poses = POSES if names is STATES else POSES | {"angles": ("x", "y", "z")}
    for (pose, channels), imu in zip(poses.items(), IMU, strict=True):
        label = f"r: {pose}\n(window: {imu})" if comparison.scenario == "denial" else f"r: {pose}"
        groups.append((label, channels))
    noise = np.concatenate([estimates.q, estimates.r], axis=-1)[record, :steps]
    d = estimates.d[record, :steps]
    with new_figure(path, 11.0, 1.5 * len(groups) + 0.8) as figure:
        axes = figure.subplots(len(groups), 2, sharex=True)
        first = 0
        for (left, right), (label, channels) in zip(axes, groups, strict=True):
            for i, channel in enumerate(channels, first):
                style = {"color": CHANNELS[channel], "lw": 0.9, "label": channel}
                left.semilogy(time, noise[:, i], **style)
                right.plot(time, d[:, i], **style)
            left.set_ylabel(label, fontsize=8)
            largest = float(d[:, first : first + len(channels)].max())
            right.set_ylim(0.0, min(1.05, max(0.05, 1.3 * largest)))
            for axis in (left, right):
                _shade(axis, comparison, record)
            right.legend(loc="upper right", ncols=len(channels), fontsize=7)
            first += len(channels)
        axes[0, 0].set_title("variances $q_k$ and $r_k$ (SI units)")
        meaning = "$d_k$ (0: keeps its variance, 1: takes the newest)"
        axes[0, 1].set_title(
            f"{meaning}, in addition to its factors" if name == SHARED else meaning
        )
        axes[0, 0].set_xlim(time[0], time[-1])
        for axis in axes[-1]:
            axis.set_xlabel("time [s]")
        figure.suptitle(f"How {LABELS[name]} adapts. {SCENARIOS[comparison.scenario]}")


def overview(comparisons: Sequence[FlightComparison], path: Path, record: int = 0) -> None:
    """A column a scenario: the path of one record from above, and the errors of all."""
    with new_figure(path, 4.2 * len(comparisons) + 0.6, 9.6) as figure:
        axes = figure.subplots(
            3, len(comparisons), squeeze=False, sharey="row", height_ratios=(1.5, 1.0, 1.0)
        )
        for column, comparison in zip(axes.T, comparisons, strict=True):
            _from_above(column[0], comparison, record)
            column[0].set_title(SCENARIOS[comparison.scenario])
            _errors(column[1], column[2], comparison)
            column[2].set_xlabel("time from the window's start [s]")
        axes[0, 0].set_ylabel("y [m]")
        axes[1, 0].set_ylabel("position error [m]")
        axes[2, 0].set_ylabel("attitude error [deg]")
        _legend_below(figure, axes[1, 0])


def _from_above(axis: Any, comparison: FlightComparison, record: int) -> None:
    steps = _steps(comparison, record)
    truth = np.asarray(comparison.records.position)[record, :steps]
    inside = comparison.window[record // comparison.seeds]
    if comparison.scenario != "baseline":
        axis.plot(*truth[inside, :2].T, color=SHADE["color"], lw=9.0, alpha=0.3, label="window")
    for name in _preferred(comparison, 3):
        x = comparison.estimates[name].x[record, :steps]
        faint = {"lw": 0.7, "alpha": 0.35} if name == "ekf" else {"lw": 1.3}
        axis.plot(x[:, 0], x[:, 1], color=COLOURS[name], **faint)
    axis.plot(truth[:, 0], truth[:, 1], color=COLOURS["truth"], lw=3.0, alpha=0.4, label="truth")
    middle = 0.5 * (truth.min(axis=0) + truth.max(axis=0))
    half = 0.5 * np.ptp(truth[:, :2], axis=0).max() + 1.2
    axis.set(xlim=middle[0] + half * np.array([-1, 1]), ylim=middle[1] + half * np.array([-1, 1]))
    axis.set(aspect="equal", xlabel="x [m]")
    axis.legend(loc="upper right", fontsize=7)


def _errors(above: Any, below: Any, comparison: FlightComparison) -> None:
    """Means over records, from the start of each window; only steps that all records have."""
    starts = [window.start for window in comparison.window]
    first, last = -min(starts), min(n - k for n, k in zip(comparison.length, starts, strict=True))
    time = comparison.dt * (np.arange(first, last) + 1)
    position, quaternion = map(
        np.asarray, (comparison.records.position, comparison.records.quaternion)
    )
    for name, estimates in comparison.estimates.items():
        distances, angles = [], []
        for i in range(len(estimates.x)):
            start = starts[i // comparison.seeds]
            rows = slice(start + first, start + last)
            distances.append(np.linalg.norm(estimates.x[i, rows, R] - position[i, rows], axis=1))
            angles.append(attitude_error(estimates.x[i, rows, Q], quaternion[i, rows]))
        style = {"color": COLOURS[name], "lw": 1.2, "label": LABELS[name]}
        rows = round(SMOOTHED_S / comparison.dt)
        above.semilogy(time, _smooth(np.mean(distances, axis=0), rows), **style)
        below.semilogy(time, _smooth(np.degrees(np.mean(angles, axis=0)), rows), **style)
    for axis in (above, below):
        axis.grid(True, which="both", alpha=0.2)
        axis.set_xlim(time[0], time[-1])
        if comparison.scenario != "baseline":
            window = comparison.window[0]
            axis.axvspan(0.0, comparison.dt * (window.stop - window.start), **SHADE)


def _legend_below(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _preferred(comparison: FlightComparison, count: int) -> list[str]:
    names = list(comparison.estimates)
    chosen = [name for name in PREFERRED if name in names] + [
        n for n in names if n not in PREFERRED
    ]
    return sorted(chosen[:count], key=names.index)


def _learned(comparison: FlightComparison) -> str | None:
    return next((name for name in LEARNED if name in comparison.estimates), None)


def _shade(axis: Any, comparison: FlightComparison, record: int) -> None:
    if comparison.scenario != "baseline":
        window = comparison.window[record // comparison.seeds]
        time = comparison.dt * np.array([window.start + 1, window.stop])
        axis.axvspan(time[0], time[1], **SHADE)


def _steps(comparison: FlightComparison, record: int) -> int:
    return comparison.length[record // comparison.seeds]


def _time(comparison: FlightComparison, record: int) -> np.ndarray:
    return comparison.dt * np.arange(1, _steps(comparison, record) + 1)


def _smooth(error: np.ndarray, rows: int) -> np.ndarray:
    """The mean over some rows around each, fewer at the ends."""
    ones = np.ones(rows)
    return np.convolve(error, ones, "same") / np.convolve(np.ones_like(error), ones, "same")
