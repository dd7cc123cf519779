"""Draws the pictures of docs/idea.md: `python docs/pictures.py`.

One Lorenz record, seen by two sensors (x and z). In the middle third the first sensor has five
times its noise. Every filter gets the same measurements, start, Q0 and R0, and those that adapt
use the r of a step in its own gain.
"""

from pathlib import Path

import jax
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import sagewing as sw
from sagewing.problems.chaos import ALIGNED, DT, LORENZ, Q_BASE, R_BASE, episodes
from sagewing.report.style import COLOURS, LABELS

FOLDER = Path(__file__).parent / "pictures"
STEPS, NOISY = 1800, slice(600, 1200)
SMOOTHED = 50  # steps
WIDTH = 5.6  # inches: so narrow that letters can be read on a phone
STD, FACTOR = 1.0, 5.0  # of the first sensor; the data sheet's R0 is STD^2
T = DT * np.arange(1, STEPS + 1)
TRUTH = COLOURS["truth"]
SETTINGS = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "sagewing",
    "path.simplify_threshold": 0.5,
}


def record():
    """The truth [T, 3], the measurements [T, 2] and the start."""
    made = episodes(jax.random.key(7), LORENZ, ALIGNED, 1, STEPS)
    truth = np.asarray(made.truth[0])
    noise = np.random.default_rng(0).standard_normal((STEPS, 2)) * np.sqrt(R_BASE)
    noise[NOISY, 0] *= FACTOR
    return truth, truth[:, [0, 2]] + noise, np.asarray(made.x0[0]), np.asarray(made.P0)


def filtered():
    """The results of all filters on the record, the truth and the measurements."""
    truth, z, x0, P0 = record()
    model = sw.models.Lorenz(jacobian="euler")
    policy = sw.Policy.pretrained("chaos-ndr-posterior-aligned")
    filters = {
        "ekf": sw.EKF(model, Q_BASE, R_BASE),
        "shkf95": sw.SageHusa(model, Q_BASE, R_BASE, b=0.95, gain_noise="posterior"),
        "shkf999": sw.SageHusa(model, Q_BASE, R_BASE, b=0.999, gain_noise="posterior"),
        "ndr": sw.NDRSageHusa(model, Q_BASE, R_BASE, policy),
    }
    return {name: sw.run(filt, x0, P0, z, dt=DT) for name, filt in filters.items()}, truth, z


def recursion(path):
    """One loop, and the one place where the three filters differ."""
    figure, axes = _figure(7.2, 3.2)
    axes.set(xlim=(0, 7.2), ylim=(0, 3.2))
    axes.axis("off")
    for x, text in (
        (0.2, "predict\nf, F, Q"),
        (2.0, "innovation\nν = z − h(x)"),
        (3.8, "gain\nK from P, R"),
        (5.6, "correct\nx + K ν"),
    ):
        _box(axes, x, 1.95, 1.4, 0.75, text, "#E8EEF4")
    for x in (1.6, 3.4, 5.2):
        _arrow(axes, (x, 2.32), (x + 0.4, 2.32))
    axes.plot([6.3, 6.3, 0.9], [2.7, 3.0, 3.0], color="0.3", lw=1.0)
    _arrow(axes, (0.9, 3.0), (0.9, 2.7))
    axes.text(3.6, 3.05, "x, P of the next step", ha="center", fontsize=10)
    _box(axes, 2.0, 0.2, 4.0, 1.0, "", "#FFFFFF")
    axes.text(2.15, 1.0, "who chooses d, the weight of r̂ and q̂?", fontsize=10)
    for y, name, text in (
        (0.78, "ekf", "EKF: d = 0"),
        (0.57, "shkf95", "Sage-Husa: d from a forgetting factor b"),
        (0.36, "ndr", "NDR-SHKF: d from a network"),
    ):
        axes.text(2.15, y, text, color=COLOURS[name], fontsize=10.5, weight="bold")
    _arrow(axes, (2.7, 1.95), (2.7, 1.2))
    axes.text(2.62, 1.55, "ν, S, K", ha="right", fontsize=10)
    _arrow(axes, (4.5, 1.2), (4.5, 1.95))
    axes.text(4.6, 1.55, "r", fontsize=10)
    _arrow(axes, (2.0, 0.72), (0.9, 1.95), bend=-0.25)
    axes.text(0.95, 1.0, "q", fontsize=10)
    _write(figure, path)


def constant(results, truth, path):
    """The EKF weighs a sensor the same when it is bad as when it is good."""
    figure, (error, noise) = _pair()
    _errors(error, results, truth, ["ekf"])
    _noises(noise, results, ["ekf"])
    _write(figure, path)


def fading(results, truth, path):
    """Sage-Husa adapts: fast and noisy, or smooth and late."""
    figure, (attenuation, noise) = _pair()
    for name in ("shkf95", "shkf999"):
        attenuation.plot(
            T, np.asarray(results[name].d)[:, 3], color=COLOURS[name], label=LABELS[name]
        )
    attenuation.set(ylabel="attenuation d", yscale="log", ylim=(5e-4, 1.0))
    attenuation.legend(loc="upper right", ncols=2)
    _noises(noise, results, ["shkf95", "shkf999"])
    _write(figure, path)


def learned(results, truth, path):
    """The network has a d for every channel at every step."""
    figure, (error, noise) = _pair()
    _errors(error, results, truth, ["ekf", "shkf95", "ndr"])
    _noises(noise, results, ["shkf95", "ndr"])
    _write(figure, path)


def policy(results, truth, path):
    """What the network learned: its d against the NIS."""
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    axes = figure.subplots()
    nis, d = np.asarray(results["ndr"].nis), np.asarray(results["ndr"].d)
    edges = np.geomspace(1e-2, 50.0, 19)
    middle, bins = np.sqrt(edges[1:] * edges[:-1]), np.digitize(nis, edges) - 1
    shown = [i for i in range(len(middle)) if np.sum(bins == i) >= 10]
    for channel, colour, label in ((3, COLOURS["ndr"], "sensor 1"), (4, "#F2A07B", "sensor 2")):
        low, half, high = (
            [np.quantile(d[bins == i, channel], share) for i in shown] for share in (0.1, 0.5, 0.9)
        )
        axes.plot(middle[shown], half, color=colour, marker="o", ms=3, label=f"{label}, median")
        axes.fill_between(middle[shown], low, high, color=colour, alpha=0.2, lw=0)
    axes.axvline(2.0, color="0.4", ls=":", label="number of channels: expected")
    axes.set(xlabel="NIS of the step", xscale="log", ylabel="attenuation d", ylim=(0, None))
    axes.legend(loc="upper left")
    _write(figure, path)


def _errors(axes, results, truth, names):
    for name in names:
        squared = np.sum((np.asarray(results[name].x) - truth) ** 2, axis=1)
        mean = np.convolve(squared, np.full(SMOOTHED, 1 / SMOOTHED), mode="same")
        axes.plot(T[::5], np.sqrt(mean)[::5], color=COLOURS[name], lw=1.3, label=LABELS[name])
    axes.set(ylabel="RMS error over 0.5 s", ylim=(0, 5.5))
    axes.legend(loc="upper right", ncols=3)


def _noises(axes, results, names):
    for name in names:
        believed = np.sqrt(np.asarray(results[name].r)[:, 0])
        axes.plot(T[::3], believed[::3], color=COLOURS[name], lw=1.3, label=LABELS[name])
    true = np.full(STEPS, STD)
    true[NOISY] *= FACTOR
    axes.plot(T, true, color=TRUTH, ls="--", lw=1.2, label="truth")
    axes.set(ylabel="noise std of sensor 1", yscale="log", ylim=(0.5, 20.0))
    axes.legend(loc="upper right", ncols=3)


def _pair():
    return _rows(2, 3.8)


def _rows(count, height):
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    all_axes = figure.subplots(count, sharex=True)
    for axes in all_axes:
        axes.axvspan(T[NOISY.start], T[NOISY.stop], color="0.93")
    all_axes[-1].set(xlabel="time, s", xlim=(0, T[-1]))
    return figure, all_axes


def _figure(width, height):
    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes((0, 0, 1, 1))


def _box(axes, x, y, width, height, text, colour):
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=colour, ec="0.4"))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=12)


def _arrow(axes, start, stop, bend=0.0):
    shape = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            start, stop, connectionstyle=shape, arrowstyle="-|>", mutation_scale=11, color="0.3"
        )
    )


def _write(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


def main(folder=FOLDER):
    """Write them all; print the RMS errors that the page quotes."""
    with matplotlib.rc_context(SETTINGS):
        results, truth, _ = filtered()
        recursion(folder / "recursion.svg")
        constant(results, truth, folder / "constant.svg")
        fading(results, truth, folder / "fading.svg")
        learned(results, truth, folder / "learned.svg")
        policy(results, truth, folder / "policy.svg")
    thirds = (slice(0, 600), NOISY, slice(1200, STEPS))
    for name, result in results.items():
        off = np.linalg.norm(np.asarray(result.x) - truth, axis=1)
        means = "  ".join(f"{np.sqrt(np.mean(off[part] ** 2)):.2f}" for part in thirds)
        print(f"{name:8} {means}")


if __name__ == "__main__":
    main()
