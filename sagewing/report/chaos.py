"""The table of the chaotic systems."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sagewing.report.numbers import MISSING, fixed
from sagewing.report.style import LABELS, SYSTEMS
from sagewing.report.table import DOCUMENTS, ReportTable, Section, TableColumn

TITLE = (
    "ARMSE, mean ± std over runs; lost: an error over 100 at some step; NEES of the median run "
    "(3 is consistent)"
)


def table(rows: list[dict[str, Any]], truth_lost: dict[str, float]) -> ReportTable:
    """A row for each filter; documents have the median, too, and how often the truth diverges."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    columns = [TableColumn("filter", lambda row: row[0], left=True, wrap="between words")]
    for system in systems:
        columns += _columns(system)
    truth = ("truth runs away", {s: {"divergence_pct": truth_lost[s]} for s in systems})
    return ReportTable(
        columns,
        [Section([truth], forms=DOCUMENTS), Section(list(_by_filter(rows)))],
        title=TITLE,
    )


def _columns(system: str) -> list[TableColumn]:
    """The columns of a system; a row is a label and a dictionary by system."""

    def error(row: Any) -> str:
        found = row[1][system]
        if "armse_mean" not in found:
            return ""
        return f"{fixed(found['armse_mean'])} ± {fixed(found['armse_std'])}"

    def median(row: Any) -> str:
        found = row[1][system]
        return fixed(found["armse_median"]) if "armse_median" in found else ""

    def lost(row: Any) -> str:
        return f"{row[1][system]['divergence_pct']:.2f}%"

    def nees(row: Any) -> str:
        found = row[1][system]
        return _short(found["nees_median"]) if "nees_median" in found else ""

    name = SYSTEMS[system]
    return [
        TableColumn("", error, group=name, wrap="between words", forms=("terminal",)),
        TableColumn("mean ± std", error, group=name, math=True, forms=DOCUMENTS),
        TableColumn("median", median, group=name, forms=DOCUMENTS),
        TableColumn("lost", lost, group=name, wrap="between words", percent=True),
        TableColumn("NEES", nees, group=name, wrap="between words", forms=("terminal", "markdown")),
    ]


def _by_filter(rows: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in dict.fromkeys(row["filter"] for row in rows):
        yield LABELS[name], {row["system"]: row for row in rows if row["filter"] == name}


def _short(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return MISSING
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
