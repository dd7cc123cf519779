"""The ablation study in tables and sentences: our figures and the paper's."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sagewing.metrics.errors import ErrorSummary
from sagewing.report import table as tables
from sagewing.report.numbers import MISSING, fixed
from sagewing.report.table import Cell, ReportTable, Section, TableColumn
from sagewing.studies.ablation import AXES, DEFAULT
from sagewing.studies.ablation_lines import AblationLine
from sagewing.studies.differences import STATISTICS, Interval


class PaperErrors(NamedTuple):
    """The paper's figures of a variant, over 100 seeds; it counts no lost runs of Lorenz."""

    mean: float
    std: float
    median: float
    lost_pct: float | None = None


def _paper(lorenz: tuple[float, ...], rossler: tuple[float, ...]) -> dict[str, PaperErrors]:
    return {"lorenz": PaperErrors(*lorenz), "rossler": PaperErrors(*rossler)}


# Paper, tables of the ablation study: Lorenz and Rössler.
PAPER = {
    DEFAULT: _paper((0.661, 0.648, 0.528), (0.872, 1.299, 0.527, 3.57)),
    "depth-1": _paper((0.698, 0.692, 0.521), (1.028, 1.495, 0.555, 4.09)),
    "depth-5": _paper((0.666, 0.691, 0.522), (0.843, 1.337, 0.521, 3.95)),
    "aux-1": _paper((0.600, 0.456, 0.531), (0.774, 0.972, 0.570, 3.08)),
    "aux-0.01": _paper((0.663, 0.708, 0.530), (0.887, 1.397, 0.530, 3.91)),
    "aux-0": _paper((0.719, 0.753, 0.534), (1.045, 1.700, 0.538, 4.81)),
    "input-raw": _paper((0.783, 0.799, 0.551), (1.364, 1.760, 0.857, 4.97)),
    "input-no-log": _paper((0.775, 0.843, 0.530), (1.060, 1.843, 0.476, 5.20)),
    "input-nis": _paper((0.598, 0.501, 0.521), (0.766, 0.959, 0.551, 3.07)),
}
# How a significant difference is named: the statistic, if more, if less, its unit.
STATISTIC_WORDS = {
    "armse_median": ("median", "higher", "lower", ""),
    "armse_mean": ("mean", "higher", "lower", ""),
    "divergence_pct": ("share of lost runs", "higher", "lower", " points"),
}
# The differences that a finding names.
COMPARED = (*(("rossler", name) for name in STATISTICS), ("lorenz", "armse_median"))


def table(lines: Sequence[AblationLine], title: str = "variant") -> ReportTable:
    """The errors; documents have the paper's, too, and LaTeX the title over the labels."""
    columns = [
        TableColumn("", _label, left=True, forms=("terminal",)),
        TableColumn("variant", _label, left=True, forms=("markdown",)),
        TableColumn(title, _label, left=True, forms=("latex",)),
        TableColumn("mean ± std", _mean_std("lorenz"), group="Lorenz"),
        TableColumn("median", _median("lorenz"), group="Lorenz"),
        TableColumn("paper's", _of_paper("lorenz", _paper_median), forms=("markdown",)),
        TableColumn("paper", _of_paper("lorenz", _paper_median), group="Lorenz", forms=("latex",)),
        *_rossler_columns("Rössler", "paper's mean ± std", ("terminal", "markdown")),
        *_rossler_columns(r"R{\"o}ssler", "paper", ("latex",)),
        TableColumn("seeds", lambda line: str(len(line.seeds)), wrap="between words"),
    ]
    title = "ARMSE over the runs of all seeds; lost: an error over 100 at some step"
    return ReportTable(columns, [Section(lines)], title=title)


def _rossler_columns(group: str, paper: str, forms: Sequence[tables.Form]) -> list[TableColumn]:
    """Our errors, and the paper's, which the terminal leaves out."""
    documents: list[tables.Form] = [form for form in forms if form in tables.DOCUMENTS]
    ours = (
        TableColumn("mean ± std", _mean_std("rossler"), group=group, forms=forms),
        TableColumn("median", _median("rossler"), group=group, forms=forms),
        TableColumn("lost", _lost, group=group, percent=True, forms=forms),
    )
    theirs = (
        TableColumn(paper, _of_paper("rossler", _paper_mean_std), group=group, forms=documents),
        TableColumn("median", _of_paper("rossler", _paper_median), group=group, forms=documents),
        TableColumn(
            "lost", _of_paper("rossler", _paper_lost), group=group, percent=True, forms=documents
        ),
    )
    return [*ours, *theirs]


def differences_table(lines: Sequence[AblationLine]) -> ReportTable:
    """The differences between the variants and the default."""
    heads = dict(zip(STATISTICS, ("median", "mean", "lost, points"), strict=True))
    columns = [
        TableColumn("", _label, left=True, forms=("terminal",)),
        TableColumn("less the default", _label, left=True, forms=("markdown",)),
        *(
            TableColumn(head, _interval_of(name), group="Rössler", forms=("terminal",))
            for name, head in heads.items()
        ),
        *(
            TableColumn(f"Rössler {head}", _difference("rossler", name), forms=("markdown",))
            for name, head in heads.items()
        ),
        TableColumn("Lorenz median", _difference("lorenz", "armse_median"), forms=("markdown",)),
    ]
    title = "Less the default, 95% intervals over seeds; bold: leaves out zero"
    return ReportTable(
        columns, [Section([line for line in lines if line.differences])], title=title
    )


def markdown(lines: dict[str, list[AblationLine]]) -> str:
    """All axes for a document: the tables and the findings."""
    out = []
    for axis, variants in lines.items():
        if axis:
            out += [f"### {AXES[axis].title.capitalize()}", ""]
        out.append(tables.markdown(table(variants)))
        if any(line.differences for line in variants):
            out.append(tables.markdown(differences_table(variants)))
        if axis:
            out += [finding(axis, variants), ""]
    return "\n".join(out)


def latex(lines: dict[str, list[AblationLine]]) -> str:
    """All axes as tabulars, in the form of the paper's."""
    titles = {axis: AXES[axis].title.capitalize() if axis else "variant" for axis in lines}
    return "\n".join(tables.latex(table(of, titles[axis])) for axis, of in lines.items())


def differences_content(lines: dict[str, list[AblationLine]]) -> dict[str, Any]:
    """The content of differences.json: value, low and high; null where there are too few seeds."""
    compared = {line.variant: line.differences for of in lines.values() for line in of}
    return {
        variant: {
            domain: {
                name: {k: v if math.isfinite(v) else None for k, v in interval._asdict().items()}
                for name, interval in of.items()
            }
            for domain, of in domains.items()
        }
        for variant, domains in compared.items()
        if domains
    }


def finding(axis: str, lines: Sequence[AblationLine]) -> str:
    """What the intervals of an axis show."""
    parts = []
    for line in lines:
        if not line.differences:
            continue
        clear, unclear = [], []
        for domain, name in COMPARED:
            interval = line.differences[domain][name]
            word, more, less, unit = STATISTIC_WORDS[name]
            what = f"{'Lorenz' if domain == 'lorenz' else 'Rössler'} {word}"
            if interval.significant:
                how = more if interval.value > 0 else less
                size = f"{abs(interval.value):.3f}{unit}, {_interval(interval)}"
                clear.append(f"{what} {how} by {size}")
            else:
                unclear.append(what)
        undecided = f"cannot tell for {_and(unclear)}" if clear else "cannot tell"
        parts.append(f"{line.label}: {'; '.join([*clear, *([undecided] if unclear else [])])}")
    if not parts:
        return f"{AXES[axis].title}: nothing to compare yet."
    seeds = min(len(line.seeds) for line in lines)
    of_axis = AXES[axis]
    return f"{of_axis.title} against {of_axis.default} ({seeds} seeds). {'. '.join(parts)}."


def _label(line: AblationLine) -> str:
    return line.label


def _mean_std(domain: str) -> Callable[[AblationLine], str]:
    def write(line: AblationLine) -> str:
        pooled: ErrorSummary = line.pooled[domain]
        return f"{_number(pooled.armse_mean)} ± {_number(pooled.armse_std)}"

    return write


def _median(domain: str) -> Callable[[AblationLine], str]:
    return lambda line: _number(line.pooled[domain].armse_median)


def _lost(line: AblationLine) -> str:
    return f"{line.pooled['rossler'].divergence_pct:.2f}%"


def _of_paper(domain: str, write: Callable[[PaperErrors], str]) -> Callable[[AblationLine], str]:
    """Writes the paper's figures of a variant, if it has them."""
    return lambda line: write(PAPER[line.variant][domain]) if line.variant in PAPER else MISSING


def _paper_mean_std(errors: PaperErrors) -> str:
    return f"{errors.mean:.3f} ± {errors.std:.3f}"


def _paper_median(errors: PaperErrors) -> str:
    return fixed(errors.median)


def _paper_lost(errors: PaperErrors) -> str:
    return f"{fixed(errors.lost_pct, 2)}%"


def _interval_of(name: str) -> Callable[[AblationLine], Cell]:
    """Writes the interval of a difference on Rössler, bold where it leaves out zero."""

    def write(line: AblationLine) -> Cell:
        interval = line.differences["rossler"][name]
        return Cell(_interval(interval).strip("()"), interval.significant)

    return write


def _difference(domain: str, name: str) -> Callable[[AblationLine], str]:
    def write(line: AblationLine) -> str:
        interval = line.differences[domain][name]
        return f"{interval.value:+.3f} {_interval(interval)}"

    return write


def _number(value: float) -> str:
    return fixed(value, 3 if value < 10.0 else 2)


def _interval(interval: Interval) -> str:
    if not np.isfinite(interval.low + interval.high):
        return "(too few seeds)"
    return f"({interval.low:+.3f} to {interval.high:+.3f})"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
