"""The ablation study in tables and sentences: our figures beside the paper's."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from sagewing.metrics.errors import ErrorSummary
from sagewing.studies.ablation import AXES, DEFAULT, DOMAINS
from sagewing.studies.ablation_lines import AblationLine
from sagewing.studies.differences import STATISTICS, Interval

# Paper, tables of the ablation study, 100 seeds: Lorenz and Rössler. It gives no lost runs of
# Lorenz.
PAPER = {
    DEFAULT: ((0.661, 0.648, 0.528), (0.872, 1.299, 0.527, 3.57)),
    "depth-1": ((0.698, 0.692, 0.521), (1.028, 1.495, 0.555, 4.09)),
    "depth-5": ((0.666, 0.691, 0.522), (0.843, 1.337, 0.521, 3.95)),
    "aux-1": ((0.600, 0.456, 0.531), (0.774, 0.972, 0.570, 3.08)),
    "aux-0.01": ((0.663, 0.708, 0.530), (0.887, 1.397, 0.530, 3.91)),
    "aux-0": ((0.719, 0.753, 0.534), (1.045, 1.700, 0.538, 4.81)),
    "input-raw": ((0.783, 0.799, 0.551), (1.364, 1.760, 0.857, 4.97)),
    "input-no-log": ((0.775, 0.843, 0.530), (1.060, 1.843, 0.476, 5.20)),
    "input-nis": ((0.598, 0.501, 0.521), (0.766, 0.959, 0.551, 3.07)),
}
# What a difference is called where it can be told from none: if more, if less, its unit.
WORDS = {
    "armse_median": ("median", "higher", "lower", ""),
    "armse_mean": ("mean", "higher", "lower", ""),
    "divergence_pct": ("share of lost runs", "higher", "lower", " points"),
}


def table(lines: Sequence[AblationLine]) -> Table:
    """The errors, for the terminal."""
    out = _table("ARMSE over the runs of all seeds; lost: an error over 100 at some step")
    for name in ("Lorenz\nmean ± std", "\nmedian", "Rössler\nmean ± std", "\nmedian", "\nlost"):
        out.add_column(name, justify="right", no_wrap=True)
    out.add_column("\nseeds", justify="right")
    for line in lines:
        lorenz, rossler = (line.pooled[d] for d in DOMAINS)
        cells = [_both(lorenz), _number(lorenz.armse_median), _both(rossler)]
        cells += [_number(rossler.armse_median), f"{rossler.divergence_pct:.2f}%"]
        out.add_row(line.label, *cells, str(len(line.seeds)))
    return out


def differences_table(lines: Sequence[AblationLine]) -> Table:
    """What sets the variants apart from the default, for the terminal."""
    out = _table("Less the default, 95% intervals over seeds; bold: leaves out zero")
    heads = ("Rössler\nmedian", "\nmean", "\nlost, points")
    for name in heads:
        out.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        if line.differences:
            apart = line.differences["rossler"]
            out.add_row(line.label, *(_emphatic(apart[name]) for name in STATISTICS))
    return out


def _table(title: str) -> Table:
    out = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0))
    out.add_column("", no_wrap=True)
    return out


def finding(axis: str, lines: Sequence[AblationLine]) -> str:
    """What the intervals of an axis say, and no more."""
    parts = []
    for line in lines:
        if not line.differences:
            continue
        told, untold = [], []
        for domain, name in _asked():
            interval = line.differences[domain][name]
            word, more, less, unit = WORDS[name]
            what = f"{'Lorenz' if domain == 'lorenz' else 'Rössler'} {word}"
            if interval.tells:
                how = more if interval.value > 0 else less
                size = f"{abs(interval.value):.3f}{unit}, {_interval(interval)}"
                told.append(f"{what} {how} by {size}")
            else:
                untold.append(what)
        rest = f"cannot tell for {_and(untold)}" if told else "cannot tell"
        parts.append(f"{line.label}: {'; '.join([*told, *([rest] if untold else [])])}")
    if not parts:
        return f"{AXES[axis].title}: nothing to compare yet."
    seeds = min(len(line.seeds) for line in lines)
    about = AXES[axis]
    return f"{about.title} against {about.default} ({seeds} seeds). {'. '.join(parts)}."


def _asked() -> Iterator[tuple[str, str]]:
    """The differences that a finding speaks of."""
    yield from (("rossler", name) for name in STATISTICS)
    yield "lorenz", "armse_median"


def markdown(lines: dict[str, list[AblationLine]]) -> str:
    """All axes for a page: the tables, the paper's figures beside ours, and what they say."""
    out = []
    for axis, of in lines.items():
        if axis:
            out += [f"### {AXES[axis].title.capitalize()}", ""]
        head = ["variant", "Lorenz, mean ± std", "median", "paper's", "Rössler, mean ± std"]
        head += ["median", "lost", "paper's mean ± std", "median", "lost", "seeds"]
        out += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        out += [f"| {' | '.join(_cells(line, ' ± ', '%'))} |" for line in of]
        head = ["less the default", "Rössler median", "Rössler mean", "Rössler lost, points"]
        compared = [line for line in of if line.differences]
        if compared:
            head.append("Lorenz median")
            out += ["", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        for line in compared:
            apart = [line.differences[domain][name] for domain, name in _asked()]
            cells = [f"{interval.value:+.3f} {_interval(interval)}" for interval in apart]
            out.append(f"| {' | '.join([line.label, *cells])} |")
        out += ["", finding(axis, of), ""] if axis else [""]
    return "\n".join(out)


def latex(lines: dict[str, list[AblationLine]]) -> str:
    """All axes in the form of the paper's tables."""
    out = []
    for axis, of in lines.items():
        title = AXES[axis].title.capitalize() if axis else "Variant"
        out += [r"\begin{tabular}{lcccccccccc}", r"\hline"]
        out.append(
            r" & \multicolumn{3}{c}{Lorenz} & \multicolumn{6}{c}{R{\"o}ssler} & \\ "
            "\n" + title + r" & mean $\pm$ std & median & paper & mean $\pm$ std & median & "
            r"lost (\%) & paper & median & lost (\%) & seeds \\ \hline"
        )
        for line in of:
            cells = [c.replace("λ", r"$\lambda$") for c in _cells(line, r" $\pm$ ", "")]
            out.append(" & ".join(cells) + r" \\")
        out += [r"\hline", r"\end{tabular}", ""]
    return "\n".join(out)


def _cells(line: AblationLine, sign: str, percent: str) -> list[str]:
    """A line of a page's table, in either language."""
    lorenz, rossler = (line.pooled[d] for d in DOMAINS)
    cells = [line.label, _both(lorenz, sign), _number(lorenz.armse_median)]
    theirs = ["–"] * 4
    if line.variant in PAPER:
        (_, _, first), (mean, std, median, lost) = PAPER[line.variant]
        theirs = [_number(first), f"{mean:.3f}{sign}{std:.3f}", _number(median)]
        theirs.append(f"{lost:.2f}{percent}")
    cells += [theirs[0], _both(rossler, sign), _number(rossler.armse_median)]
    cells += [f"{rossler.divergence_pct:.2f}{percent}", *theirs[1:]]
    return [*cells, str(len(line.seeds))]


def _both(pooled: ErrorSummary, sign: str = " ± ") -> str:
    return f"{_number(pooled.armse_mean)}{sign}{_number(pooled.armse_std)}"


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f}" if value < 10.0 else f"{value:.2f}"


def _interval(interval: Interval) -> str:
    if not np.isfinite(interval.low + interval.high):
        return "(too few seeds)"
    return f"({interval.low:+.3f} to {interval.high:+.3f})"


def _emphatic(interval: Interval) -> str:
    said = _interval(interval).strip("()")
    return f"[bold]{said}[/]" if interval.tells else said


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
