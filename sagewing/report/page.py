"""One self-contained HTML page: text, a table, and pictures inside it."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0.2rem; }}
h2 {{ font-size: 1.15rem; margin: 2.2rem 0 0.4rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.95rem; }}
td, th {{ padding: 0.2rem 0.9rem 0.2rem 0; text-align: right; white-space: nowrap; }}
td:first-child, th:first-child {{ text-align: left; }}
thead th {{ border-bottom: 2px solid #222; }}
tbody th {{ font-weight: 600; font-style: italic; padding-top: 0.7rem; }}
tbody tr:last-child td {{ border-bottom: 1px solid #bbb; padding-bottom: 0.6rem; }}
.scroll {{ overflow-x: auto; }}
.small {{ color: #555; font-size: 0.88rem; max-width: 46rem; }}
img {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


class Picture(NamedTuple):
    """A PNG file, with a heading and what it shows."""

    heading: str
    text: str
    path: Path


def page(
    title: str,
    lead: Sequence[str],
    table: str,
    caption: Sequence[str],
    pictures: Sequence[Picture],
    footer: str,
) -> str:
    """The page; the table is HTML already, all else is plain text."""
    body = [_paragraph(text) for text in lead]
    body += [f'<div class="scroll">{table}</div>', *(_paragraph(text, "small") for text in caption)]
    for picture in pictures:
        data = base64.b64encode(picture.path.read_bytes()).decode()
        body += [
            f"<h2>{html.escape(picture.heading)}</h2>",
            _paragraph(picture.text, "small"),
            f'<img alt="{html.escape(picture.heading)}" src="data:image/png;base64,{data}">',
        ]
    body.append(_paragraph(footer, "small"))
    return TEMPLATE.format(title=html.escape(title), body="\n".join(body))


def _paragraph(text: str, style: str | None = None) -> str:
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{html.escape(text)}</p>"
