"""Tables of a user's log: its signals, and the errors and consistency of the filters."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sagewing.logs.survey import ColumnSummary, SignalSummary, Survey
from sagewing.report.flight import WORST_KEY, any_smoothed
from sagewing.report.numbers import MISSING, fixed, rounded
from sagewing.report.page.results_table import onboard
from sagewing.report.style import LABELS, label
from sagewing.report.table import ReportTable, Section, TableColumn
from sagewing.studies.flight import ONBOARD

SHORTEST_DELAY_S = 0.002  # a smaller one is not written into a map
WINDOW = "Window: RMSE in the outages; drift: position error at the end of one, the largest. "
CONSISTENCY = (
    "NIS: the normalised innovation squared over its expectation, mean; 1 is consistent, more is "
    "overconfident, less is too cautious. White: the correlation of an innovation with the one "
    "before it; 0 is best."
)


class LogMeasure(NamedTuple):
    """A number of the rows, and its heading and unit."""

    head: str
    unit: str
    key: str
    digits: int = 3

    def write(self, row: dict[str, Any]) -> str:
        """The number of a row."""
        return rounded(row.get(self.key), self.digits)


MEASURES = (
    LogMeasure("position", "m", "pos_rmse_m"),
    LogMeasure("attitude", "rad", "att_rmse_rad"),
    LogMeasure("window", "m", "window_pos_rmse_m"),
    LogMeasure("window", "rad", "window_att_rmse_rad"),
    LogMeasure("drift", "m", "drift_m"),
    LogMeasure("worst", "m", WORST_KEY),
    LogMeasure("NIS", "", "nis_ratio", 2),
    LogMeasure("white", "", "whiteness", 2),
)


def table(rows: Sequence[dict[str, Any]]) -> ReportTable:
    """A row for each filter, with the measures that some row has."""
    rows = [{**row, "nis_ratio": _ratio(row)} for row in rows]
    measures = [m for m in MEASURES if any(row.get(m.key) is not None for row in rows)]
    if not any_smoothed(rows):
        measures = [m for m in measures if m.key != WORST_KEY]
    columns = [TableColumn(m.head, m.write, m.unit) for m in measures]
    name = TableColumn("", lambda row: label(row["filter"]), left=True, wrap="anywhere")
    return ReportTable([name, *columns], [Section(rows)])


def caption(rows: Sequence[dict[str, Any]]) -> str:
    """What the table's columns mean."""
    window = WINDOW if any(row.get("drift_m") is not None for row in rows) else ""
    if window and any_smoothed(rows):
        window += "Worst: the largest position error in the outages. "
    has_onboard = any(row["filter"] == ONBOARD for row in rows)
    onboard_note = f" {LABELS[ONBOARD].capitalize()}: {onboard(list(rows))}." if has_onboard else ""
    return window + CONSISTENCY + onboard_note


def refusals(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How many poses a filter refused, which its NIS does not count, in sentences."""
    return [
        f"{row['filter']} refused {row['refused']} of {row['poses']} poses as not plausible and "
        f"started anew {row['restarts']} times: see docs/trouble.md."
        for row in rows
        if row.get("refused") or row.get("restarts")
    ]


def _ratio(row: dict[str, Any]) -> float | None:
    mean, expected = row.get("nis_mean"), row.get("nis_expected")
    return None if mean is None or not expected else mean / expected


def contents(signals: Sequence[SignalSummary]) -> ReportTable:
    """The signals of a log."""
    columns = [
        TableColumn("", lambda signal: signal.role, left=True, wrap="anywhere"),
        TableColumn("rows", lambda signal: str(signal.rows)),
        TableColumn("Hz", lambda signal: fixed(signal.rate_hz, 1)),
        TableColumn("from", lambda signal: fixed(signal.start_s, 2), "s"),
        TableColumn("to", lambda signal: fixed(signal.stop_s, 2), "s"),
        TableColumn("gap", lambda signal: fixed(signal.longest_gap_s), "s"),
        TableColumn("range", lambda signal: f"{signal.low:.3g}..{signal.high:.3g}"),
        TableColumn("unit", lambda signal: signal.unit),
    ]
    return ReportTable(columns, [Section(signals)])


def sources(signals: Sequence[SignalSummary]) -> list[str]:
    """What the columns of `contents` mean, and from what each signal was read."""
    read = ", ".join(f"{signal.signal} ({signal.role})" for signal in signals)
    return [
        "Seconds from the log's first sample; gap: the longest time between two samples.",
        f"Read from: {read}.",
    ]


def clocks_and_noise(survey: Survey) -> list[str]:
    """How late the pose's clock is, and how large the position's white noise is, in sentences."""
    lines = []
    if survey.offset is not None:
        late_ms = 1e3 * survey.offset.late_s
        correlation = f"correlation {survey.offset.correlation:.2f}"
        if not survey.offset.credible:
            lines.append(f"Whether the pose's clock is late cannot be told ({correlation}).")
        elif abs(late_ms) < 1e3 * SHORTEST_DELAY_S:
            lines.append(f"The pose's clock agrees with the IMU's ({correlation}).")
        else:
            way = "late" if late_ms > 0.0 else "early"
            lines.append(f"The pose's clock is {abs(late_ms):.0f} ms {way} ({correlation}).")
    if survey.position_noise_m is not None:
        lines.append(f"The position's white noise is about {survey.position_noise_m:.2g} m.")
    return lines


def columns(found: Sequence[ColumnSummary]) -> ReportTable:
    """The columns of a text table that needs a map, by its first rows."""
    name = TableColumn("column", lambda c: f"{c.file}: {c.name}", left=True, wrap="anywhere")
    return ReportTable(
        [name, TableColumn("range", range_of), TableColumn("step", step_of)], [Section(found)]
    )


def range_of(column: ColumnSummary) -> str:
    """The lowest and the highest value; a dash where the first rows are empty."""
    known = math.isfinite(column.low) and math.isfinite(column.high)
    return f"{column.low:.6g}..{column.high:.6g}" if known else MISSING


def step_of(column: ColumnSummary) -> str:
    """The median difference between rows; a dash where it is not known."""
    return f"{column.step:.3g}" if math.isfinite(column.step) else MISSING
