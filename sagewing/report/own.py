"""A user's own log in tables for the terminal: what is in it, and what filters made of it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from sagewing.flights.survey import Column, Sighting
from sagewing.report.style import LABELS

MISSING = "–"
CONSISTENCY = (
    "NIS: the mean of the normalised innovation squared over its expectation; 1 is consistent, "
    "more is overconfident, less is too cautious. White: the correlation of an innovation with "
    "the one before it; 0 is best."
)


class Head(NamedTuple):
    """A column: what stands above it, of which number of the rows."""

    text: str
    key: str
    digits: int = 3


HEADS = (
    Head("position\nm", "pos_rmse_m"),
    Head("attitude\nrad", "att_rmse_rad"),
    Head("hidden\nm", "window_pos_rmse_m"),
    Head("hidden\nrad", "window_att_rmse_rad"),
    Head("drift\nm", "drift_m"),
    Head("NIS", "nis_ratio", 2),
    Head("white", "whiteness", 2),
)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """What every filter made of the log."""
    rows = [{**row, "nis_ratio": _ratio(row)} for row in rows]
    heads = [head for head in HEADS if any(row.get(head.key) is not None for row in rows)]
    out = _table(CONSISTENCY, "", *(head.text for head in heads))
    for row in rows:
        cells = [_number(row.get(head.key), head.digits) for head in heads]
        out.add_row(LABELS.get(row["filter"], row["filter"]), *cells)
    return out


def _ratio(row: dict[str, Any]) -> float | None:
    mean, expected = row.get("nis_mean"), row.get("nis_expected")
    return None if mean is None or not expected else mean / expected


def contents(signals: Sequence[Sighting]) -> Table:
    """What a log has."""
    caption = "Seconds from the log's first sample; gap: the longest time between two samples."
    out = _table(caption, "", "rows", "Hz", "from\ns", "to\ns", "gap\ns", "range", "unit")
    for seen in signals:
        out.add_row(
            f"{seen.role}\n[dim]{escape(seen.signal)}[/]",
            str(seen.rows),
            _number(seen.rate_hz, 1),
            _number(seen.start_s, 2),
            _number(seen.stop_s, 2),
            _number(seen.longest_gap_s, 3),
            f"{seen.low:.3g}..{seen.high:.3g}",
            seen.unit,
        )
    return out


def columns(found: Sequence[Column]) -> Table:
    """The columns of a table of which not enough is known."""
    out = _table("By the first rows; step: the median between rows.", "column", "range", "step")
    for column in found:
        said = f"{column.low:.6g}..{column.high:.6g}"
        out.add_row(escape(f"{column.file}: {column.name}"), said, f"{column.step:.3g}")
    return out


def _table(caption: str, first: str, *heads: str) -> Table:
    out = Table(caption=caption, box=SIMPLE, padding=(0, 1, 0, 0), caption_justify="left")
    out.add_column(first, overflow="fold")
    for head in heads:
        out.add_column(head, justify="right", no_wrap=True)
    return out


def _number(value: float | None, digits: int) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"
