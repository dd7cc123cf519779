"""Draws the picture of the README: `python docs/flight_picture.py DIR`.

DIR has recorded flights, as for `sagewing bench flight --data DIR`; the repository has none. The
shown flight is the one with the median error of the universal policy among the circles, which no
filter was tuned or trained on. The picture of the README is drawn from NanoBench's flights
(Crazyflie 2.1, arXiv 2603.09908, BSD-3-Clause).
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from sagewing.logs.track import Scene, Track
from sagewing.policy import Universal
from sagewing.problems.flight.dataset import load
from sagewing.report.style import GREY, PAGES, dark, label, light, svg_settings
from sagewing.studies.flight import compare
from sagewing.studies.scenes import scene_of

FOLDER = Path(__file__).parent / "pictures"
FILTERS = ("ekf", "ndr-universal")
BEFORE, AFTER = 3.0, 3.0  # seconds around the outage that are shown
SIGMAS = 2.0  # half the width of a band
EVERY = 4  # of the samples of the pose, so many are drawn as one dot
MARGIN, LIMIT = 0.4, 1.6  # m: around the truth from above, and of the errors over time


def scenes(folder: str) -> list[Scene]:
    """Every circle with the paper's pose noise, and without a pose for its middle two seconds."""
    data = load(folder, parts=("test",))
    learned = {"ndr-universal": Universal.pretrained("universal")}
    comparison = compare(
        "denial",
        data.test,
        filters=FILTERS,
        learned=learned,
        vehicle=data.vehicle,
        without_pose=data.without_pose,
        seeds=1,
    )
    return [scene_of(comparison, i) for i in range(len(data.test))]


def rmse(scene: Scene, track: Track) -> float:
    """Of the position over the whole flight, in m."""
    return float(np.sqrt(np.mean(np.sum(_errors(scene, track) ** 2, axis=1))))


def median(found: list[Scene]) -> Scene:
    """The scene with the median error of the last filter; of two in the middle the smaller."""
    return sorted(found, key=lambda scene: rmse(scene, scene.tracks[-1]))[(len(found) - 1) // 2]


def draw(scene: Scene, page: str, path: Path) -> None:
    """The tracks from above, and one coordinate over time with the bands of the filters."""
    with matplotlib.rc_context(svg_settings(page)):
        figure = Figure(figsize=(9.6, 4.4), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.0, 1.2))
        _from_above(figure.add_subplot(grid[:, 0]), scene, page)
        above = figure.add_subplot(grid[0, 1])
        below = figure.add_subplot(grid[1, 1], sharex=above, sharey=above)
        for axes, track in zip((above, below), scene.tracks, strict=True):
            _over_time(axes, scene, track, page)
        above.tick_params(labelbottom=False)
        below.set(xlabel="time, s")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None}, facecolor=PAGES[page].background)


def _shown(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Which steps are drawn, and which of them are in the outage."""
    begins, ends = scene.outages[0]
    inside = (scene.t >= begins) & (scene.t <= ends)
    return (scene.t >= begins - BEFORE) & (scene.t <= ends + AFTER), inside


def _errors(scene: Scene, track: Track) -> np.ndarray:
    assert scene.truth is not None
    return track.pose.position - scene.truth.position


def _colour(name: str, page: str) -> str:
    return light(name) if page == "light" else dark(name)


def _from_above(axes, scene, page):
    shown, inside = _shown(scene)
    truth, measured = scene.truth.position, scene.measured.position
    dots = measured[shown][::EVERY]
    axes.plot(dots[:, 0], dots[:, 1], ".", ms=4, color=GREY, alpha=0.7, label="measured position")
    for track in scene.tracks:
        at, colour = track.pose.position, _colour(track.name, page)
        axes.plot(*at[shown, :2].T, color=colour, lw=1.0, alpha=0.75, label=label(track.name))
        axes.plot(*at[inside, :2].T, color=colour, lw=4.0, solid_capstyle="round")
    axes.plot(*truth[shown, :2].T, color=PAGES[page].text, lw=1.3, ls="--", label="truth")
    low, high = truth[shown].min(axis=0) - MARGIN, truth[shown].max(axis=0) + MARGIN
    axes.set(xlabel="x, m", ylabel="y, m", aspect="equal")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_title("From above: thick lines where there is no pose", fontsize=10)
    middle = {"loc": "center", "bbox_to_anchor": (0.47, 0.47), "fontsize": 9}
    axes.legend(
        **middle,
        markerscale=2.0,
        facecolor=PAGES[page].background,
        edgecolor="none",
        framealpha=0.9,
    )


def _over_time(axes, scene, track, page):
    shown, _ = _shown(scene)
    t, truth = scene.t[shown], scene.truth.position[shown, 0]
    band = SIGMAS * track.position_std[shown, 0]
    error, noise = track.pose.position[shown, 0] - truth, scene.measured.position[shown, 0] - truth
    colour = _colour(track.name, page)
    axes.axvspan(*scene.outages[0], color=PAGES[page].shade, lw=0)
    axes.plot(t[::EVERY], noise[::EVERY], ".", ms=4, color=GREY, alpha=0.6)
    low, high = (np.clip(edge, -2 * LIMIT, 2 * LIMIT) for edge in (error - band, error + band))
    axes.fill_between(t[::2], low[::2], high[::2], color=colour, alpha=0.3, lw=0)
    axes.plot(t, error, color=colour, lw=1.5)
    axes.axhline(0.0, color=PAGES[page].text, lw=1.3, ls="--")
    axes.set(ylabel="error of x, m", xlim=(t[0], t[-1]), ylim=(-LIMIT, LIMIT))
    text = f"{label(track.name)}, ±{SIGMAS:g}σ (whole flight: RMSE {rmse(scene, track):.2f} m)"
    axes.set_title(text, color=colour, fontsize=10, weight="bold", loc="left")
    middle = sum(scene.outages[0]) / 2
    axes.text(middle, 0.93 * LIMIT, "no pose", ha="center", va="top", fontsize=9)


def main(folder: str) -> None:
    """Both pictures, for light and dark pages; prints the errors of every flight."""
    found = scenes(folder)
    for scene in found:
        errors = "  ".join(f"{label(t.name)} {rmse(scene, t):.3f} m" for t in scene.tracks)
        print(f"{scene.name}: {errors}")
    scene = median(found)
    print(f"Drawn: {scene.name}")
    for page in PAGES:
        draw(scene, page, FOLDER / f"flight-{page}.svg")


if __name__ == "__main__":
    main(sys.argv[1])
