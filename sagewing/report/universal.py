"""The universal policy in tables."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from sagewing.report.style import label
from sagewing.studies.universal import (
    ORACLE,
    TUNED,
    Drift,
    cells_of,
    checks,
    geometric,
    win_counts,
)

CASES = {
    "right": "nominal right",
    "r-20": "R × 20",
    "bursts": "bursts of R, outliers",
    "q-10": "Q × 10",
    "mixture": "Q / 10, R × 4, outliers, gaps",
}
SYSTEMS = {"lorenz96": "Lorenz 96", "rossler": "Rössler"}  # those that have another name
TITLE = "Error over the oracle's, geometric mean over runs (1 is as good as knowing the noise)"


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """A line a cell, a column a filter, for the terminal."""
    filters = _filters(rows)
    out = Table(title=TITLE, box=SIMPLE, padding=(0, 1, 0, 0))
    out.add_column("system")
    out.add_column("noise")
    for name in filters:
        out.add_column(label(name), justify="right")
    for cells in _lines(rows, bold=("[bold]", "[/]")):
        out.add_row(*cells)
    return out


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The same for a page."""
    head = ["system", "noise", *(label(name) for name in _filters(rows))]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cells)} |" for cells in _lines(rows, bold=("**", "**"))]
    return "\n".join(lines) + "\n"


def verdict(rows: Sequence[dict[str, Any]], drift: Drift | None) -> list[str]:
    """What was to be shown, and whether it was, in sentences."""
    lines = [f"{_says(c.holds)}: {c.claim} {c.bar:g}: {c.number:.3f}" for c in checks(rows)]
    stands = win_counts(rows)
    lines.append(
        f"Its figure is smaller than every untrained filter's in {stands.smallest} cells. Run by "
        f"run, with a confidence of 95%, it is ahead of all of them in {stands.ahead}, behind one "
        f"of them in {stands.behind}, and in {stands.level} neither can be told."
    )
    if drift is not None:
        apart = drift.late / drift.early
        lines += [
            f"{_says(drift.first_600 <= 1.3)}: Rössler (aligned), 600 steps, at most 1.3 times "
            f"the oracle: {drift.first_600:.3f}",
            f"{_says(max(apart, 1.0 / apart) <= 1.1)}: Rössler (aligned), {drift.runs} runs whose "
            f"truth stays, steps 5,000 to 10,000 against 500 to 1,000, within 10%: "
            f"{drift.late:.3f} against {drift.early:.3f}",
        ]
    return lines


def _says(holds: bool) -> str:
    return "holds" if holds else "MISSED"


def _filters(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["filter"] for row in rows))


def _lines(rows: Sequence[dict[str, Any]], bold: tuple[str, str]) -> list[list[str]]:
    """The cells, then a line of geometric means; the best of the untrained filters is bold."""
    lines = []
    for (system, case), found in cells_of(rows).items():
        contest = {n: round(r["ratio"], 3) for n, r in found.items() if n not in (TUNED, ORACLE)}
        best = {n for n, ratio in contest.items() if ratio == min(contest.values())}
        cells = [_cell(row, *(bold if name in best else ("", ""))) for name, row in found.items()]
        size = next(iter(found.values()))
        about = f"{SYSTEMS.get(system, system)} {size['n_x']}/{size['n_z']}"
        lines.append([about, CASES.get(case, case), *cells])
    means = [geometric([r["ratio"] for r in rows if r["filter"] == n]) for n in _filters(rows)]
    return [*lines, ["all", "geometric mean", *(f"{m:.3f}" for m in means)]]


def _cell(row: dict[str, Any], before: str, after: str) -> str:
    text = f"{before}{row['ratio']:.3f}{after}"
    if "ratio_by_seed" in row:
        text += f" ± {0.5 * (row['ratio_high'] - row['ratio_low']):.3f}"
    return text if row["lost_pct"] < 0.05 else f"{text} ({row['lost_pct']:.1f}% lost)"
