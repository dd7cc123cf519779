"""The table of the universal policy, and its claims in sentences."""

from collections.abc import Callable, Sequence
from typing import Any

from sagewing.catalogue import ORACLE
from sagewing.report.style import label
from sagewing.report.table import Cell, ReportTable, Section, TableColumn
from sagewing.studies.universal import TUNED, Drift, geometric
from sagewing.studies.universal_claims import cells_of, checks, win_counts

CASES = {
    "right": "nominal right",
    "r-20": "R × 20",
    "bursts": "bursts of R, outliers",
    "q-10": "Q × 10",
    "mixture": "Q / 10, R × 4, outliers, gaps",
}
SYSTEMS = {"lorenz96": "Lorenz 96", "rossler": "Rössler"}  # those that have another name
TITLE = "Error over the oracle's, geometric mean over runs (1 is as good as knowing the noise)"


def table(rows: Sequence[dict[str, Any]]) -> ReportTable:
    """A row for each system and noise, a column for each filter, and their geometric means."""
    filters = list(dict.fromkeys(row["filter"] for row in rows))
    columns = [
        TableColumn("system", lambda line: line[0], left=True, wrap="between words"),
        TableColumn("noise", lambda line: line[1], left=True, wrap="between words"),
        *(
            TableColumn(label(name), _cell_at(i), wrap="between words")
            for i, name in enumerate(filters, 2)
        ),
    ]
    means = [geometric([row["ratio"] for row in rows if row["filter"] == n]) for n in filters]
    last = ["all", "geometric mean", *(f"{mean:.3f}" for mean in means)]
    return ReportTable(columns, [Section([*_lines(rows), last])], title=TITLE)


def _cell_at(place: int) -> Callable[[Sequence[Cell | str]], Cell | str]:
    return lambda line: line[place]


def _lines(rows: Sequence[dict[str, Any]]) -> list[list[Cell | str]]:
    """The system, the noise and a cell for each filter; the best of the untrained ones is bold."""
    lines = []
    for (system, case), found in cells_of(rows).items():
        untrained = {n: r for n, r in found.items() if n not in (TUNED, ORACLE)}
        compared = {name: round(row["ratio"], 3) for name, row in untrained.items()}
        lowest = min(compared.values())
        cells = [_cell(row, compared.get(name) == lowest) for name, row in found.items()]
        size = next(iter(found.values()))
        name = f"{SYSTEMS.get(system, system)} {size['n_x']}/{size['n_z']}"
        lines.append([name, CASES.get(case, case), *cells])
    return lines


def _cell(row: dict[str, Any], best: bool) -> Cell:
    note = ""
    if "ratio_by_seed" in row:
        note = f" ± {0.5 * (row['ratio_high'] - row['ratio_low']):.3f}"
    if row["lost_pct"] >= 0.05:
        note += f" ({row['lost_pct']:.1f}% lost)"
    return Cell(f"{row['ratio']:.3f}", best, note)


def verdict(rows: Sequence[dict[str, Any]], drift: Drift | None) -> list[str]:
    """Each claim, and whether it holds, in sentences."""
    lines = [f"{_outcome(c.holds)}: {c.claim} {c.bar:g}: {c.number:.3f}" for c in checks(rows)]
    counts = win_counts(rows)
    lines.append(
        f"Its figure is smaller than every untrained filter's in {counts.smallest} cells. Run by "
        f"run, with a confidence of 95%, it is ahead of all of them in {counts.ahead}, behind one "
        f"of them in {counts.behind}, and in {counts.level} neither can be told."
    )
    if drift is not None:
        apart = drift.late / drift.early
        lines += [
            f"{_outcome(drift.first_600 <= 1.3)}: Rössler (aligned), 600 steps, at most 1.3 times "
            f"the oracle: {drift.first_600:.3f}",
            f"{_outcome(max(apart, 1.0 / apart) <= 1.1)}: Rössler (aligned), {drift.runs} runs "
            f"whose truth stays, steps 5,000 to 10,000 against 500 to 1,000, within 10%: "
            f"{drift.late:.3f} against {drift.early:.3f}",
        ]
    return lines


def _outcome(holds: bool) -> str:
    return "holds" if holds else "MISSED"
