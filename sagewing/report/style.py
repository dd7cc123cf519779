"""Labels and colours as the catalogue of filters has them, on a light and on a dark page."""

import colorsys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sagewing import catalogue
from sagewing.catalogue import CatalogueEntry
from sagewing.files import utf8

TRUTH = "truth"


class Page(NamedTuple):
    """The colours of a page that a picture stands on."""

    background: str
    text: str
    shade: str  # of an interval


class _ByName(Mapping[str, str]):
    """A field of the catalogue's entries by name; `truth` is one more name."""

    def __init__(self, of: Callable[[CatalogueEntry], str], truth: str):
        self._of, self._truth = of, truth

    def __getitem__(self, name: str) -> str:
        if name == TRUTH:
            return self._truth
        found = catalogue.find(name)
        if found is None:
            raise KeyError(name)
        return self._of(found)

    def __iter__(self) -> Iterator[str]:
        return iter((TRUTH, *(entry.name for entry in catalogue.entries())))

    def __len__(self) -> int:
        return 1 + len(catalogue.entries())


# Views of the catalogue, not copies: a filter that is added later is in them.
LABELS: Mapping[str, str] = _ByName(lambda entry: entry.label, "truth")
COLOURS: Mapping[str, str] = _ByName(lambda entry: entry.colour, "#000000")
SYSTEMS = {"lorenz": "Lorenz", "rossler": "Rössler", "thomas": "Thomas"}
SCENARIOS = {
    "baseline": "Baseline",
    "disturbance": "Disturbance: noisier pose for 2 s",
    "denial": "Denial: no pose for 2 s",
}
OTHERS = ("#4C78A8", "#B279A2", "#72B7B2", "#9D755D", "#BAB0AC")  # for names not in the list
PAGES = {
    "light": Page("#FFFFFF", "#24292F", "#ECEFF2"),
    "dark": Page("#0D1117", "#E6EDF3", "#21262D"),
}
GREY = "#8B929A"  # of axes and measurements, on both pages
# Lightness on a dark page: a colour below the first is inverted, and none is below the second.
DARKEST, LEAST_LIGHT = 0.3, 0.46


def label(name: str) -> str:
    """A filter's name for people; an unknown name is returned as it is."""
    return LABELS.get(name, name)


def light(name: str) -> str:
    """A filter's colour on a light page."""
    return COLOURS.get(name) or OTHERS[sum(utf8(name)) % len(OTHERS)]


def dark(name: str) -> str:
    """The same hue on a dark page."""
    red, green, blue = (int(light(name)[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = 0.95 - lightness if lightness < DARKEST else max(lightness, LEAST_LIGHT)
    bright = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in bright)


def svg_settings(page: str) -> dict[Any, Any]:
    """Matplotlib's settings for an SVG on a light or a dark page."""
    return {
        "font.size": 10,
        "text.color": PAGES[page].text,
        "axes.labelcolor": PAGES[page].text,
        "axes.edgecolor": GREY,
        "xtick.color": PAGES[page].text,
        "ytick.color": PAGES[page].text,
        "axes.facecolor": PAGES[page].background,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "path",
        "path.simplify_threshold": 0.5,
        "svg.hashsalt": "sagewing",
    }
