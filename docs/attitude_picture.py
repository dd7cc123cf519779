"""Draws the picture of attitudes in docs/flight.md: `python docs/attitude_picture.py`.

An EKF with Euler angles and one with an error state, in a flight through every attitude and after
starts that are off by 120 degrees (`sagewing/studies/attitude.py`). Prints how far they are off.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from sagewing.problems.flight.attitude import Attitude
from sagewing.report.style import PAGES, svg_settings
from sagewing.studies.attitude import DT, ON_TAIL, STEPS, TURNS, aerobatics, flight, flown, still

FOLDER = Path(__file__).parent / "pictures"
OFF, STARTS = 120.0, 20  # degrees about so many random axes
FOUND = 2.0  # degrees
# The colours of the two differ in lightness, too.
ATTITUDES: dict[Attitude, tuple[str, dict[str, str]]] = {
    "euler": ("Euler angles, 19 states", {"light": "#D1603D", "dark": "#F08A5D"}),
    "error-state": ("error state, 18 errors", {"light": "#0B6E99", "dark": "#4FC3F7"}),
}
T = DT * np.arange(1, STEPS + 1)
SHOWN = slice(None, 300, 2)  # after a bad start
TOP = 49.0  # degrees, where the attitudes are named

Errors = dict[Attitude, np.ndarray]


def axes_of_starts() -> np.ndarray:
    """Random unit vectors."""
    v = np.random.default_rng(0).normal(size=(STARTS, 3))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def seconds_to_find(errors: np.ndarray) -> np.ndarray:
    """The time of the measurement from which on the attitude is good; infinity if it never is."""
    bad = errors > FOUND
    last = np.where(bad.any(axis=1), STEPS - np.argmax(bad[:, ::-1], axis=1), 0)
    return np.where(last < STEPS, DT * (last + 1), np.inf)


def summary(errors: np.ndarray) -> str:
    """How many starts are found, and how fast."""
    found = seconds_to_find(errors)
    best = found[np.isfinite(found)]
    text = f"{len(best)} of {STARTS} within {FOUND:g} degrees"
    if len(best):
        text += f" after {np.median(best):.2f} s (median), {best.max():.2f} s (slowest)"
    return f"{text}; at the end {np.median(errors[:, -1]):.1f} (median)"


def draw(page: str, turning: Errors, found: Errors, path: Path) -> None:
    """The errors in the aerobatics, and those after the starts on the tail, over time."""
    with matplotlib.rc_context(svg_settings(page)):
        figure = Figure(figsize=(9.6, 3.7), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
        _aerobatics(left, page, turning)
        _starts(right, page, found)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None}, facecolor=PAGES[page].background)


def _aerobatics(axes, page, errors):
    for one in TURNS:
        axes.axvspan(one.begins, one.ends, color=PAGES[page].shade, lw=0)
        held = one.holds if one.holds > one.ends else one.begins
        axes.text((one.ends + held) / 2, TOP, one.name, ha="center", va="top", fontsize=8)
    for attitude, (label, colours) in ATTITUDES.items():
        axes.plot(T, errors[attitude], color=colours[page], lw=1.6, label=label)
    axes.set(
        xlabel="time, s", ylabel="attitude error, degrees", xlim=(0.0, 15.0), ylim=(-1.0, 50.0)
    )
    axes.set_title("Aerobatics: the vehicle turns where it is grey", fontsize=10, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.88), fontsize=9, frameon=False)


def _starts(axes, page, errors):
    t = np.append(0.0, T[SHOWN])
    for attitude, (_, colours) in ATTITUDES.items():
        width = 0.8 if attitude == "euler" else 2.2
        for each in errors[attitude]:
            off = np.append(OFF, each[SHOWN])
            axes.plot(t, off, color=colours[page], lw=width)
    axes.set(xlabel="time, s", xlim=(0.0, 3.0), ylim=(-4.0, 180.0), yticks=range(0, 181, 30))
    title = f"Standing nose up: {STARTS} starts, off by {OFF:g}°"
    axes.set_title(title, fontsize=10, loc="left")


def main() -> None:
    """The figures of the page, and the picture for light and dark pages."""
    starts = np.deg2rad(OFF) * axes_of_starts()
    turning: Errors = {}
    found: Errors = {}
    for attitude, (label, _) in ATTITUDES.items():
        turning[attitude] = flown(flight(aerobatics), attitude, np.zeros(3)).errors
        found[attitude] = flown(flight(still, ON_TAIL), attitude, starts).errors
        level = flown(flight(still), attitude, starts).errors
        print(f"{label}\n  aerobatics: at most {turning[attitude].max():.1f} degrees")
        print(f"  starts nose up: {summary(found[attitude])}")
        print(f"  starts level: {summary(level)}")
    for page in PAGES:
        draw(page, turning, found, FOLDER / f"attitude-{page}.svg")


if __name__ == "__main__":
    main()
