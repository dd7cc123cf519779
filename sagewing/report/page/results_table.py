"""The table of a page: the columns that its rows have, of benchmarks and of a user's log."""

from typing import Any

import numpy as np

from sagewing.errors import InputError, shown
from sagewing.report import flight
from sagewing.report import table as tables
from sagewing.report.flight import (
    MEASURES,
    WORST,
    FlightLine,
    Measure,
    any_smoothed,
    lines_of,
    measure_columns,
    measures_of,
)
from sagewing.report.style import SCENARIOS, label
from sagewing.report.table import Cell, ReportTable, Section, TableColumn
from sagewing.studies.flight import ONBOARD

LARGEST = 1e100  # of a table's numbers: their squares are finite, too
RATIO = "nis_over_expected"
# Measures of a record without the benchmark's scenarios, and their words in the caption.
MEASURES_OF_LOG = {
    Measure("NEES", "", "nees_mean", np.mean, digits=2, target=None): (
        "NEES: mean over the record; a consistent filter has 6 (three of position, three of "
        "attitude)"
    ),
    Measure("NIS / expected", "", RATIO, np.mean, digits=2, target=1.0): (
        "NIS / expected: how large the innovations are against what the filter expects; 1 is "
        "consistent, more is overconfident"
    ),
    Measure("whiteness", "", "whiteness", np.mean, digits=3, target=None): (
        "whiteness: correlation of an innovation with the one before; 0 is white"
    ),
}
MEANING = {
    "pos_rmse_m": "position, attitude: RMSE over the record",
    "window_pos_rmse_m": "window: position RMSE in the outage",
    "drift_m": "drift: position error at the end of the outage",
    "worst_m": "worst: the largest position error in the outage",
}


def check_rows(rows: list[dict[str, Any]], where: str) -> None:
    """Refuse rows that give no table: anyone may have written the file."""
    numbers = {m.key for m in (*MEASURES, WORST, *MEASURES_OF_LOG)} | {"nis_mean", "nis_expected"}
    for row in rows:
        wrong = [key for key in numbers & row.keys() if not _is_number(row[key])]
        wrong += [key for key in ("scenario", "flight") if not isinstance(row.get(key, ""), str)]
        if wrong:
            value = shown(row[wrong[0]])
            raise InputError(f"{where}: {wrong[0]!r} of {shown(row['filter'])} is {value}.")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, float | int) and abs(value) <= LARGEST)


def html(rows: list[dict[str, Any]]) -> str:
    """The table; an empty text where the rows have nothing to show."""
    rows = [_with_ratio(row) for row in rows]
    measures = _measures_of(rows)
    if not measures:
        return ""
    sections = [
        Section(lines, {"html": SCENARIOS.get(scenario, scenario)})
        for scenario, lines in lines_of(rows, measures)
    ]
    return tables.html(ReportTable([TableColumn("", _name), *measure_columns(measures)], sections))


def _name(line: FlightLine) -> Cell:
    return Cell(label(line.filter), filter=line.filter)


def _measures_of(rows: list[dict[str, Any]]) -> list[Measure]:
    """The measures that some row has."""
    present = {key for row in rows for key, value in row.items() if value is not None}
    found = [measure for measure in measures_of(rows) if measure.key in present]
    heads = {measure.head for measure in found}
    return found + [m for m in MEASURES_OF_LOG if m.key in present and m.head not in heads]


def caption(rows: list[dict[str, Any]]) -> list[str]:
    """What the columns mean."""
    if any("scenario" in row for row in rows):
        return flight.caption(rows)
    measures = _measures_of([_with_ratio(row) for row in rows])
    meanings = [MEANING.get(m.key) or MEASURES_OF_LOG.get(m, "") for m in measures]
    if any_smoothed(rows):
        meanings.append("smoothed: the estimate by the whole record")
    if any(row["filter"] == ONBOARD for row in rows):
        meanings.append(f"{label(ONBOARD)}: {onboard(rows)}")
    meanings = [text for text in meanings if text]
    return ["; ".join(meanings) + ". Bold: the best filter."] if meanings else []


def onboard(rows: list[dict[str, Any]]) -> str:
    """What the row of the vehicle's own estimate is: no pose was hidden from it."""
    hidden = any(row.get("window_pos_rmse_m") is not None for row in rows)
    return "the estimate in the log" + (", from which no pose was hidden" if hidden else "")


def _with_ratio(row: dict[str, Any]) -> dict[str, Any]:
    mean, expected = row.get("nis_mean"), row.get("nis_expected")
    return {**row, RATIO: mean / expected} if mean is not None and expected else row
