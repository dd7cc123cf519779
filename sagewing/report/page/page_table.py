"""The table of a page: the columns that its rows have, for benchmarks and for one's own logs."""

from html import escape
from typing import Any

import numpy as np

from sagewing.errors import InputError, shown
from sagewing.report import flight
from sagewing.report.flight import COLUMNS, Column, headed, summed_up
from sagewing.report.style import SCENARIOS, dark, label, light
from sagewing.studies.flight import ONBOARD

LARGEST = 1e100  # of a table's numbers: such that their squares are numbers, too
RATIO = "nis_over_expected"
# Of a record without the benchmark's scenarios: what it says, and what its heading means.
FURTHER = {
    Column("NEES", "", "nees_mean", np.mean, digits=2, goal=None): (
        "NEES: mean over the record; a consistent filter has 6 (three of position, three of "
        "attitude)"
    ),
    Column("NIS / expected", "", RATIO, np.mean, digits=2, goal=1.0): (
        "NIS / expected: how large the innovations are against what the filter expects; 1 is "
        "consistent, more is overconfident"
    ),
    Column("whiteness", "", "whiteness", np.mean, digits=3, goal=None): (
        "whiteness: correlation of an innovation with the one before; 0 is white"
    ),
}
MEANING = {
    "pos_rmse_m": "position, attitude: RMSE over the record",
    "window_pos_rmse_m": "window: position RMSE in the outage",
    "drift_m": "drift: position error at the end of the outage",
}


def check_rows(rows: list[dict[str, Any]], where: str) -> None:
    """Refuse rows, of a file that anyone may have written, of which no table can be made."""
    numbers = {column.key for column in (*COLUMNS, *FURTHER)} | {"nis_mean", "nis_expected"}
    for row in rows:
        wrong = [k for k in numbers & row.keys() if not _is_number(row[k])]
        wrong += [k for k in ("scenario", "flight") if not isinstance(row.get(k, ""), str)]
        if wrong:
            said = shown(row[wrong[0]])
            raise InputError(f"{where}: {wrong[0]!r} of {shown(row['filter'])} is {said}.")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, float | int) and abs(value) <= LARGEST)


def html(rows: list[dict[str, Any]]) -> str:
    """The table; nothing where there are no rows."""
    rows = [_with_ratio(row) for row in rows]
    columns = columns_of(rows)
    if not columns:
        return ""
    made = ["<table>", "<thead><tr><th></th>"]
    made += [f"<th>{headed(column)}</th>" for column in columns]
    made.append("</tr></thead>")
    for scenario, lines in summed_up(rows, columns):
        made.append("<tbody>")
        if scenario:
            heading = escape(SCENARIOS.get(scenario, scenario))
            made.append(f'<tr><th colspan="{len(columns) + 1}">{heading}</th></tr>')
        for line in lines:
            cells = "".join(
                f"<td>{f'<b>{escape(c.text)}</b>' if c.best else escape(c.text)}</td>"
                for c in line.cells
            )
            made.append(f"<tr><td>{named(line.filter)}</td>{cells}</tr>")
        made.append("</tbody>")
    return "\n".join([*made, "</table>"])


def named(name: str) -> str:
    """A filter's name with its colour before it."""
    style = f"--light-colour:{light(name)};--dark-colour:{dark(name)}"
    return f'<i class="swatch" style="{style}"></i>{escape(label(name))}'


def columns_of(rows: list[dict[str, Any]]) -> list[Column]:
    """Those of which some row says something."""
    there = {key for row in rows for key, value in row.items() if value is not None}
    found = [column for column in COLUMNS if column.key in there]
    said = {column.head for column in found}
    return found + [c for c in FURTHER if c.key in there and c.head not in said]


def caption(rows: list[dict[str, Any]]) -> list[str]:
    """What the columns mean."""
    if any("scenario" in row for row in rows):
        return flight.caption(rows)
    columns = columns_of([_with_ratio(row) for row in rows])
    said = [MEANING.get(column.key) or FURTHER.get(column, "") for column in columns]
    if any(row["filter"] == ONBOARD for row in rows):
        said.append(f"{label(ONBOARD)}: {onboard(rows)}")
    return ["; ".join(filter(None, said)) + ". Bold: the best filter."] if any(said) else []


def onboard(rows: list[dict[str, Any]]) -> str:
    """What a reader must know of the vehicle's own row: it was not flown in the dark."""
    hidden = any(row.get("window_pos_rmse_m") is not None for row in rows)
    return "the estimate in the log" + (", from which no pose was hidden" if hidden else "")


def _with_ratio(row: dict[str, Any]) -> dict[str, Any]:
    mean, expected = row.get("nis_mean"), row.get("nis_expected")
    return {**row, RATIO: mean / expected} if mean is not None and expected else row
