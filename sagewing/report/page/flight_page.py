"""One interactive HTML file about one record: nothing is fetched, nothing else is needed."""

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from sagewing.logs.track import Scene
from sagewing.report.page import channels
from sagewing.report.page.drawing import Drawing, drawing_of
from sagewing.report.page.html import Picture, image, paragraph
from sagewing.report.page.results_table import caption, html
from sagewing.report.style import COLOURS, dark, label, light

ASSETS = files("sagewing.report.page") / "assets"
# In this order: while loading, a script uses only what those before it define.
SCRIPTS = ("data", "view", "scale", "theme", "panel", "lines", "heat", "space", "gestures", "page")
CONSISTENCY = (
    "This record has no truth: in place of errors, the page shows consistency, that is, whether "
    "the innovations are as large as the filter expects (NIS)."
)


def flight_page(scene: Scene, rows: Sequence[dict[str, Any]], title: str, footer: str) -> str:
    """The page of a scene, with a table of rows like those of `bench flight`."""
    return page_of(drawing_of(scene), rows, title, footer)


def page_of(
    drawing: Drawing,
    rows: Sequence[dict[str, Any]],
    title: str,
    footer: str,
    lead: Sequence[str] = (),
    pictures: Sequence[Picture] = (),
) -> str:
    """The page of a drawing, with pictures after the plots."""
    has_truth = "truth/position" in drawing.arrays
    paragraphs = [*lead, *([] if has_truth else [CONSISTENCY])]
    row_list = list(rows)
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        style=_asset("page.css"),
        lead="\n".join(paragraph(text) for text in paragraphs),
        table=html(row_list),
        caption="\n".join(paragraph(text, "small") for text in caption(row_list)),
        pictures="\n".join(image(picture) for picture in pictures),
        scene=escape(_heading(title, drawing.about["name"])),
        facts=escape(_facts(drawing)),
        footer=escape(footer),
        data=embedded(_packed(drawing)),
        script="\n".join(_asset(f"{name}.js") for name in SCRIPTS),
    )


def embedded(value: dict[str, Any]) -> str:
    """JSON for a script element; no string in it can end the element or begin another."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _packed(drawing: Drawing) -> dict[str, Any]:
    """The data of the scripts: names, colours, units, and every array in base64."""
    return {
        **drawing.about,
        "tracks": [
            {"label": label(name), "colour": [light(name), dark(name)], **_channels(drawing, i)}
            for i, name in enumerate(drawing.about["tracks"])
        ],
        "truth": {"colour": [COLOURS["truth"], dark("truth")]},
        "arrays": {name: _base64(array) for name, array in drawing.arrays.items()},
    }


def _channels(drawing: Drawing, i: int) -> dict[str, Any]:
    """The names and units of a filter's noise, if it adapts some and they are known."""
    q = drawing.arrays.get(f"{i}/q")
    if q is None or len(q) not in channels.KNOWN:
        return {"channels": {}}
    named = channels.of_track(len(q), drawing.about["imu_measured"])
    return {"channels": {key: [each._asdict() for each in row] for key, row in named.items()}}


def _base64(array: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()
    return {"shape": list(array.shape), "data": data}


def _heading(title: str, name: str) -> str:
    """The heading of the plots; the record's name is left out if the title has it."""
    return "The record" if title.endswith(name) else f"One record: {name}"


def _facts(drawing: Drawing) -> str:
    t, outages = drawing.arrays["t"], drawing.about["outages"]
    text = f"{t[-1] - t[0]:.1f} s"
    if outages:
        windows = ", ".join(f"{start:.2f}–{end:.2f} s" for start, end in outages)
        text += f"; shaded: the pose is missing or worse than usual ({windows})"
    return text + "."
