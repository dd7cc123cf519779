"""A table is described once; the terminal, Markdown, LaTeX and HTML say the same."""

import io

from rich.console import Console

from sagewing.report.style import light
from sagewing.report.table import (
    DOCUMENTS,
    Cell,
    ReportTable,
    Section,
    TableColumn,
    html,
    latex,
    markdown,
    terminal,
)

TABLE = ReportTable(
    columns=[
        TableColumn("filter", lambda row: Cell(row[0], filter="ekf"), left=True),
        TableColumn("mean ± std", lambda row: row[1], group="Lorenz", math=True),
        TableColumn("lost", lambda row: row[2], group="Lorenz", percent=True),
        TableColumn("drift", lambda row: row[3], unit="[m]", math=True),
        TableColumn("paper", lambda row: "0.5", forms=DOCUMENTS),
    ],
    sections=[
        Section([("a_b", "1.0 ± 0.1", "2.00%", "–")], dict.fromkeys(("latex", "html"), "first")),
        Section([("<i>", Cell("0.5", best=True), "0.00%", "[1]")], {"html": "second"}),
    ],
    title="Errors",
    caption=["What it means."],
)


def shown(table):
    console = Console(width=80, file=io.StringIO())
    console.print(terminal(table))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_terminal_has_the_group_above_and_the_unit_below_its_headings():
    lines = shown(TABLE)
    assert [line.split() for line in lines[3:5]] == [
        ["Lorenz", "drift"],
        ["filter", "mean", "±", "std", "lost", "[m]"],
    ]
    assert any(line.split() == ["<i>", "0.5", "0.00%", "[1]"] for line in lines)
    assert "paper" not in "".join(lines)
    assert lines[-1].strip() == "What it means."


def test_markdown_names_the_group_once_and_marks_the_best():
    assert markdown(TABLE).splitlines() == [
        "| filter | Lorenz, mean ± std | lost | drift [m] | paper |",
        "|---|---|---|---|---|",
        "| a_b | 1.0 ± 0.1 | 2.00% | – | 0.5 |",
        "| <i> | **0.5** | 0.00% | [1] | 0.5 |",
        "",
        "What it means.",
    ]


def test_latex_writes_formulas_and_says_percent_in_the_heading():
    assert latex(TABLE).splitlines() == [
        r"\begin{tabular}{lcccc}",
        r"\hline",
        r" & \multicolumn{2}{c}{Lorenz} &  & \\",
        r"Filter & mean $\pm$ std & lost (\%) & drift [m] & paper \\ \hline",
        r"\multicolumn{5}{c}{first} \\ \hline",
        r"a\_b & $1.0 \pm 0.1$ & 2.00 & -- & 0.5 \\",
        r"<i> & $\mathbf{0.5}$ & 0.00 & $[1]$ & 0.5 \\",
        r"\hline",
        r"\end{tabular}",
    ]


def test_html_shows_a_filters_colour_and_escapes_what_it_is_given():
    page = html(TABLE)
    assert "<th>Lorenz, mean ± std</th>" in page
    assert f"--light-colour:{light('ekf')}" in page
    assert "&lt;i&gt;</td><td><b>0.5</b></td>" in page
    assert page.count("<tbody>") == 2
    assert '<th colspan="4">second</th>' in page
