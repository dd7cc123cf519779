"""Writes docs/commands.md from the command line's own help: `python docs/commands.py`."""

import contextlib
import io
import os
from pathlib import Path

from sagewing.cli.commands import COMMANDS
from sagewing.cli.main import main

PAGE = Path(__file__).parent / "commands.md"
COLUMNS = 80
HEAD = """# Every command

The help of the command line, as `sagewing COMMAND --help` prints it. `python docs/commands.py`
writes this page, and a test compares it.

A command prints its result on stdout and all else on stderr. It ends with 0, with 2 where it was
given something wrong (a sentence says what), and with 1 where it was interrupted or could not
write.
"""


def help_of(command: list[str]) -> str:
    """What `sagewing COMMAND --help` prints, no wider than `COLUMNS`."""
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
    return printed.getvalue().strip()


def page() -> str:
    """The first screen, and a section for each command."""
    sections = [
        f"## {' '.join(['sagewing', *command])}\n\n```text\n{help_of(command)}\n```\n"
        for command in ([], *(name.split() for name in COMMANDS))
    ]
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
