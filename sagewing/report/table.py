"""A table, described once and written for the terminal, Markdown, LaTeX and HTML."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape as html_escape
from itertools import groupby
from typing import Any, Literal, NamedTuple

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table as RichTable

from sagewing.report.numbers import MISSING
from sagewing.report.style import dark, light

Form = Literal["terminal", "markdown", "latex", "html"]
Wrap = Literal["never", "between words", "anywhere"]
ALL: tuple[Form, ...] = ("terminal", "markdown", "latex", "html")
SCREEN: tuple[Form, ...] = ("terminal", "html")
DOCUMENTS: tuple[Form, ...] = ("markdown", "latex")
# Characters of a cell or a heading that LaTeX writes in another way.
IN_LATEX = {"_": r"\_", "%": r"\%", "&": r"\&", "±": r"$\pm$", "λ": r"$\lambda$"}


class Cell(NamedTuple):
    """A text; the best of its column is bold."""

    text: str
    best: bool = False
    note: str = ""  # after the text, and never bold
    filter: str = ""  # whose colour HTML shows before the text


@dataclass(frozen=True)
class TableColumn:
    """The heading of a column, and how a row's cell in it is written."""

    head: str
    write: Callable[[Any], Cell | str]
    unit: str = ""  # written after the heading as it is, such as "[m]"
    group: str = ""  # neighbours of one group share a heading; without a head, it is theirs
    left: bool = False
    wrap: Wrap = "never"  # where a narrow terminal may break its lines
    math: bool = False  # LaTeX: whether its cells are formulas
    percent: bool = False  # its cells end with %, which LaTeX writes in the heading
    forms: Collection[Form] = ALL  # where the column is shown


@dataclass(frozen=True)
class Section:
    """Rows that belong together, and their title in the forms that show one."""

    rows: Sequence[Any]
    titles: Mapping[Form, str] = field(default_factory=dict)
    forms: Collection[Form] = ALL


@dataclass(frozen=True)
class ReportTable:
    """Columns and sections; the title is shown in the terminal, the caption there and in Markdown.

    LaTeX tells sections apart by lines, or by bold titles.
    """

    columns: Sequence[TableColumn]
    sections: Sequence[Section]
    title: str = ""
    caption: Sequence[str] = ()
    bold_titles: bool = False
    align_markdown: bool = False

    def of(self, form: Form) -> tuple[list[TableColumn], list[Section]]:
        """The columns and sections that a form shows."""
        columns = [column for column in self.columns if form in column.forms]
        return columns, [section for section in self.sections if form in section.forms]


def terminal(table: ReportTable) -> RichTable:
    """The table for the terminal."""
    columns, sections = table.of("terminal")
    out = RichTable(
        title=table.title or None,
        caption="\n".join(table.caption) or None,
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        caption_justify="left",
    )
    for column, head in zip(columns, _stacked(columns), strict=True):
        out.add_column(
            escape(head),
            justify="left" if column.left else "right",
            no_wrap=column.wrap == "never",
            overflow="fold" if column.wrap == "anywhere" else "ellipsis",
        )
    for section in sections:
        out.add_section()
        if title := section.titles.get("terminal"):
            out.add_row(f"[italic]{escape(title)}[/]")
        for row in section.rows:
            cells = [_cell(column, row) for column in columns]
            out.add_row(*map(_terminal_cell, cells))
    return out


def markdown(table: ReportTable) -> str:
    """The table for a document, with its caption."""
    columns, sections = table.of("markdown")
    heads = [_head(column, first) for column, first in _firsts(columns)]
    rule = ["---:" if table.align_markdown and not c.left else "---" for c in columns]
    lines = [_markdown_row(heads), f"|{'|'.join(rule)}|"]
    for section in sections:
        if title := section.titles.get("markdown"):
            lines.append(f"| **{title}** |" + " |" * (len(columns) - 1))
        for row in section.rows:
            cells = [_cell(column, row) for column in columns]
            lines.append(_markdown_row([_marked(c, "**", "**") + c.note for c in cells]))
    if table.caption:
        lines += ["", *table.caption]
    return "\n".join(lines) + "\n"


def latex(table: ReportTable) -> str:
    """The table as a tabular."""
    columns, sections = table.of("latex")
    lines = [rf"\begin{{tabular}}{{l{'c' * (len(columns) - 1)}}}", r"\hline"]
    if any(column.group for column in columns):
        groups = [
            cell
            for group, members in groupby(columns, lambda column: column.group)
            for cell in _latex_group(group, len(list(members)))
        ]
        lines.append(" & ".join(groups).rstrip() + r" \\")
    lines.append(" & ".join(map(_latex_head, columns)) + r" \\ \hline")
    for i, section in enumerate(sections):
        if title := _latex_text(section.titles.get("latex", "")):
            if i and not table.bold_titles:
                lines.append(r"\hline")
            title = rf"\textbf{{{title}}}" if table.bold_titles else title
            lines.append(rf"\multicolumn{{{len(columns)}}}{{c}}{{{title}}} \\ \hline")
        for row in section.rows:
            lines.append(" & ".join(_latex_cell(column, row) for column in columns) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def html(table: ReportTable) -> str:
    """The table for a page; a section is a body of its own."""
    columns, sections = table.of("html")
    first, *heads = (f"<th>{html_escape(_head(c, first))}</th>" for c, first in _firsts(columns))
    lines = ["<table>", f"<thead><tr>{first}", *heads, "</tr></thead>"]
    for section in sections:
        lines.append("<tbody>")
        if title := section.titles.get("html"):
            lines.append(f'<tr><th colspan="{len(columns)}">{html_escape(title)}</th></tr>')
        for row in section.rows:
            cells = "".join(f"<td>{_html_cell(_cell(column, row))}</td>" for column in columns)
            lines.append(f"<tr>{cells}</tr>")
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>"])


def swatch(name: str) -> str:
    """A small square in a filter's colour, as HTML."""
    style = f"--light-colour:{light(name)};--dark-colour:{dark(name)}"
    return f'<i class="swatch" style="{style}"></i>'


def _cell(column: TableColumn, row: Any) -> Cell:
    cell = column.write(row)
    return Cell(cell) if isinstance(cell, str) else cell


def _marked(cell: Cell, before: str, after: str) -> str:
    return f"{before}{cell.text}{after}" if cell.best else cell.text


def _terminal_cell(cell: Cell) -> str:
    text = cell._replace(text=escape(cell.text))
    return _marked(text, "[bold]", "[/]") + escape(cell.note)


def _firsts(columns: Sequence[TableColumn]) -> list[tuple[TableColumn, bool]]:
    """Each column, and whether it is the first of its group."""
    groups = ["", *(column.group for column in columns)]
    return [
        (column, bool(column.group) and column.group != before)
        for column, before in zip(columns, groups, strict=False)
    ]


def _head(column: TableColumn, first: bool) -> str:
    """A heading in one line: the group, if it is needed, the head and the unit."""
    group = column.group if first or not column.head else ""
    if not column.head:
        return ", ".join(filter(None, (group, column.unit)))
    return ", ".join(filter(None, (group, f"{column.head} {column.unit}".rstrip())))


def _stacked(columns: Sequence[TableColumn]) -> list[str]:
    """Headings for the terminal: the unit below, the group above unless it is the heading."""
    firsts = _firsts(columns)
    above = any(column.head for column, first in firsts if first)
    heads = []
    for column, first in firsts:
        group = column.group if first else ""
        lines = [group, column.head] if above else [column.head or group]
        heads.append("\n".join([*lines, *([column.unit] if column.unit else [])]))
    return heads


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_text(text: str) -> str:
    return "".join(IN_LATEX.get(character, character) for character in text)


def _latex_group(group: str, columns: int) -> list[str]:
    return [rf"\multicolumn{{{columns}}}{{c}}{{{group}}}"] if group else [""] * columns


def _latex_head(column: TableColumn) -> str:
    head = column.head[:1].upper() + column.head[1:] if column.left else column.head
    unit = "(%)" if column.percent else column.unit
    return _latex_text(f"{head} {unit}".rstrip())


def _latex_cell(column: TableColumn, row: Any) -> str:
    cell = _cell(column, row)
    text = cell.text + cell.note
    if column.percent:
        text = text.removesuffix("%")
    if not column.math or not text:
        return _latex_text(text)
    if text == MISSING:
        return "--"
    text = text.replace("±", r"\pm")
    return rf"$\mathbf{{{text}}}$" if cell.best else f"${text}$"


def _html_cell(cell: Cell) -> str:
    before = swatch(cell.filter) if cell.filter else ""
    text = cell._replace(text=html_escape(cell.text))
    return before + _marked(text, "<b>", "</b>") + html_escape(cell.note)
