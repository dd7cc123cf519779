"""Writes docs/commands.md from the command line's own help: `python docs/commands.py`."""

import contextlib
import io
import os
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).parent / "commands.md"
COLUMNS = 80
HEAD = """# Every command

The help of the command line, as `sagewing COMMAND --help` prints it. `python docs/commands.py`
writes this page, and a test compares it.

A command prints its result on stdout and all else on stderr. It ends with 0, with 2 where it was
given something wrong (a sentence says what), and with 1 where it was interrupted.
"""


def help_of(command: list[str]) -> str:
    """What `sagewing COMMAND --help` prints, no wider than `COLUMNS`."""
    from sagewing.cli.main import main

    printed = io.StringIO()
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    return "\n".join(_wrapped(line) for line in plain.strip().splitlines())


def _wrapped(line: str) -> str:
    """The lists have their width; usage and description do not."""
    indent = " " * 8 if line.startswith("usage:") else ""
    lines = textwrap.wrap(
        line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) if len(line) > COLUMNS else line.rstrip()


def sections(command: list[str]) -> list[str]:
    """A section for the command, and one for each command below it."""
    text = help_of(command)
    title = " ".join(["sagewing", *command])
    made = [f"{'#' * (2 + max(0, len(command) - 1))} {title}\n\n```text\n{text}\n```\n"]
    for name in re.findall(r"^    • ([a-z-]+)", text, re.MULTILINE):
        made += sections([*command, name])
    return made


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *sections([])])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
