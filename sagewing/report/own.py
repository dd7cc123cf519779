"""A user's own log in tables for the terminal: what is in it, and what filters made of it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from sagewing.logs.survey import ColumnSummary, SignalSummary
from sagewing.report.flight import MISSING, number
from sagewing.report.page.page_table import onboard
from sagewing.report.style import LABELS
from sagewing.studies.flight import ONBOARD

WINDOW = "Window: RMSE in the outages; drift: position error at the end of one, the largest. "
CONSISTENCY = (
    "NIS: the normalised innovation squared over its expectation, mean; 1 is consistent, more is "
    "overconfident, less is too cautious. White: the correlation of an innovation with the one "
    "before it; 0 is best."
)


class Head(NamedTuple):
    """A column: what stands above it, of which number of the rows."""

    text: str
    key: str
    digits: int = 3


HEADS = (
    Head("position\nm", "pos_rmse_m"),
    Head("attitude\nrad", "att_rmse_rad"),
    Head("window\nm", "window_pos_rmse_m"),
    Head("window\nrad", "window_att_rmse_rad"),
    Head("drift\nm", "drift_m"),
    Head("NIS", "nis_ratio", 2),
    Head("white", "whiteness", 2),
)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """What every filter made of the log."""
    rows = [{**row, "nis_ratio": _ratio(row)} for row in rows]
    heads = [head for head in HEADS if any(row.get(head.key) is not None for row in rows)]
    out = _table("", *(head.text for head in heads))
    for row in rows:
        cells = [number(row.get(head.key), head.digits) for head in heads]
        out.add_row(LABELS.get(row["filter"], row["filter"]), *cells)
    return out


def caption(rows: Sequence[dict[str, Any]]) -> str:
    """What its columns mean, as wide as the terminal."""
    window = WINDOW if any(row.get("drift_m") is not None for row in rows) else ""
    own = any(row["filter"] == ONBOARD for row in rows)
    named = f" {LABELS[ONBOARD].capitalize()}: {onboard(list(rows))}." if own else ""
    return window + CONSISTENCY + named


def _ratio(row: dict[str, Any]) -> float | None:
    mean, expected = row.get("nis_mean"), row.get("nis_expected")
    return None if mean is None or not expected else mean / expected


def contents(signals: Sequence[SignalSummary]) -> Table:
    """What a log has."""
    out = _table("", "rows", "Hz", "from\ns", "to\ns", "gap\ns", "range", "unit")
    for seen in signals:
        out.add_row(
            seen.role,
            str(seen.rows),
            _fixed(seen.rate_hz, 1),
            _fixed(seen.start_s, 2),
            _fixed(seen.stop_s, 2),
            _fixed(seen.longest_gap_s, 3),
            f"{seen.low:.3g}..{seen.high:.3g}",
            seen.unit,
        )
    return out


def sources(signals: Sequence[SignalSummary]) -> list[str]:
    """What the table's columns mean, and where its signals were read: names may be long."""
    read = ", ".join(f"{seen.signal} ({seen.role})" for seen in signals)
    return [
        "Seconds from the log's first sample; gap: the longest time between two samples.",
        f"Read from: {read}.",
    ]


def columns(found: Sequence[ColumnSummary]) -> Table:
    """The columns of a table of which not enough is known, by its first rows."""
    out = _table("column", "range", "step")
    for column in found:
        out.add_row(escape(f"{column.file}: {column.name}"), spanned(column), step_of(column))
    return out


def spanned(column: ColumnSummary) -> str:
    """The range of a column; a dash where its first rows are empty."""
    known = math.isfinite(column.low) and math.isfinite(column.high)
    return f"{column.low:.6g}..{column.high:.6g}" if known else MISSING


def step_of(column: ColumnSummary) -> str:
    """The median between rows."""
    return f"{column.step:.3g}" if math.isfinite(column.step) else MISSING


def _table(first: str, *heads: str) -> Table:
    out = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    out.add_column(first, overflow="fold")
    for head in heads:
        out.add_column(head, justify="right", no_wrap=True)
    return out


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else MISSING
