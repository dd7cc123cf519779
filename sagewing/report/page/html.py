"""Parts of an HTML page: paragraphs and embedded pictures."""

import base64
import html
from pathlib import Path
from typing import NamedTuple


class Picture(NamedTuple):
    """A PNG file, with a heading and what it shows."""

    heading: str
    text: str
    path: Path


def image(picture: Picture) -> str:
    """The picture under its heading, embedded in the page."""
    data = base64.b64encode(picture.path.read_bytes()).decode()
    heading = html.escape(picture.heading)
    return "\n".join(
        [
            f"<h2>{heading}</h2>",
            paragraph(picture.text, "small"),
            f'<img alt="{heading}" src="data:image/png;base64,{data}">',
        ]
    )


def paragraph(text: str, style: str | None = None) -> str:
    """A paragraph of plain text."""
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{html.escape(text)}</p>"
