"""The page of a result, made from `result.json` and `scene.npz` alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sagewing.files import utf8, write_atomically
from sagewing.report.page.drawing import Drawing
from sagewing.report.page.flight_page import page_of
from sagewing.report.page.html import Picture
from sagewing.report.page.scene_file import SCENE, write_scene
from sagewing.results import BenchResult

PAGE = "report.html"
OVERVIEW = "overview.png"
PNG = b"\x89PNG\r\n"
LARGEST_PICTURE = 1 << 26  # bytes; it becomes a part of the page
TITLES = {
    "demo": "Sagewing: a quadrotor's state when its position system fails",
    "bench flight": "Sagewing: flights in noise and in blackout",
}


def result_page(result: dict[str, Any], drawing: Drawing, pictures: Sequence[Picture] = ()) -> str:
    """The page; the same files give the same page."""
    command, settings = result["command"], result["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    if command in TITLES:
        lead, origin = _lead(result), f"sagewing {command}, seed {result['seed']}"
    else:
        notes = settings.get("notes")
        notes = notes if isinstance(notes, list) else []
        lead = [f"Note: {note}." for note in notes if isinstance(note, str)]
        origin = f"sagewing {command} {_text(settings, 'log')}"
    return page_of(
        drawing,
        result["rows"],
        TITLES.get(command, f"Sagewing: {drawing.about['name']}"),
        f"{origin}; {versions}",
        lead=lead,
        pictures=pictures,
    )


def write_page(
    folder: Path, result: BenchResult, drawing: Drawing, pictures: Sequence[Picture] = ()
) -> None:
    """Write report.html, and the scene from which `sagewing report` makes the same page."""
    write_scene(folder / SCENE, drawing)
    page = result_page(result.content(), drawing, pictures)
    write_atomically(folder / PAGE, utf8(page))


def overview_in(folder: Path) -> list[Picture]:
    """The picture of all scenarios, if a benchmark wrote one."""
    path = folder / OVERVIEW
    if not path.is_file() or path.stat().st_size > LARGEST_PICTURE:
        return []
    with path.open("rb") as file:
        if file.read(len(PNG)) != PNG:
            return []
    text = (
        "Above: one flight from above, with the part in which the pose is worse or missing. Below: "
        "the error at every time, mean over all flights and noise draws and over 0.1 s."
    )
    return [Picture("All scenarios at a glance", text, path)]


def _text(settings: dict[str, Any], key: str) -> str:
    """A setting if it is text: anyone may have written the file."""
    return value if isinstance(value := settings.get(key), str) else ""


def _lead(result: dict[str, Any]) -> list[str]:
    """Which flights and noise the rows are about."""
    settings = result["settings"]
    flights = len({row.get("flight") for row in result["rows"]})
    kind = "simulated QDrone flights along circles" if settings.get("data") == "sim" else "flights"
    noise = {
        "paper": "up to 1 m of noise and outliers of 5 m",
        "good": "up to 0.05 m of noise and outliers of 0.25 m",
    }.get(_text(settings, "noise"), "noise")
    seeds = settings.get("seeds", 1)
    draws = f"{seeds} draws" if isinstance(seeds, int) and seeds != 1 else "one draw"
    return [
        f"{flights} {kind}, {draws} of noise each. The pose comes with "
        f"{noise}. Every filter sees the same measurements from the same start."
    ]
