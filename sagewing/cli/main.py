"""The command line: `sagewing COMMAND`. Only the module of the command is imported."""

import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, NoReturn

from sagewing.cli.commands import COMMANDS, GROUPS, Entry, screen, wrapped
from sagewing.errors import InputError

QUIET = "--quiet"  # of every command
INTERRUPTED = "Interrupted: nothing is half-written, and the same command begins again."


def main(args: list[str] | None = None) -> None:
    """Parse and run; a user's mistake becomes a sentence and exit code 2."""
    words = sys.argv[1:] if args is None else args
    entry, name, rest = _chosen(words)
    # Hides XLA's messages about slow compilation; its errors are exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _ended_at_once():
        from sagewing.cli import console
        from sagewing.runtime.xla_cache import enable_compilation_cache

        command = _parsed(entry, name, [word for word in rest if word != QUIET])
        enable_compilation_cache()
    try:
        with console.silenced(QUIET in rest):
            command()
    except InputError as error:
        console.error(str(error))
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that went away
        console.error(f"{error.filename or name}: {error.strerror or error}.")
        sys.exit(1)
    except KeyboardInterrupt:
        console.interrupted(INTERRUPTED)


@contextmanager
def _ended_at_once() -> Iterator[None]:
    """Ctrl-C exits at once while modules are imported: an exception there would break them."""

    def end(*_: Any) -> NoReturn:
        print(INTERRUPTED, file=sys.stderr, flush=True)
        os._exit(1)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _chosen(words: list[str]) -> tuple[Entry, str, list[str]]:
    """The command that the first words name, and what follows; ends where none is named."""
    first = words[0] if words else "--help"
    if first in ("-h", "--help"):
        _end(screen(), 0 if words else 2)
    if first == "--version":
        from sagewing import __version__

        _end(f"sagewing {__version__}", 0)
    if first in COMMANDS:
        return COMMANDS[first], first, words[1:]
    if first not in GROUPS:
        known = ", ".join(dict.fromkeys(name.split()[0] for name in COMMANDS))
        _end(f"error: there is no command {first!r}; known: {known}.", 2)
    second = words[1] if len(words) > 1 else "--help"
    name = f"{first} {second}"
    if name in COMMANDS:
        return COMMANDS[name], name, words[2:]
    if second in ("-h", "--help"):
        _end(screen(first), 0 if len(words) > 1 else 2)
    known = ", ".join(name.split()[1] for name in COMMANDS if name.split()[0] == first)
    _end(f"error: there is no {name!r}; known: {known}.", 2)


def _end(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)


def _parsed(entry: Entry, name: str, rest: list[str]) -> Any:
    import tyro

    from sagewing.cli import console

    module, _, kind = entry.place.partition(":")
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            return tyro.cli(
                getattr(import_module(f"sagewing.cli.{module}"), kind),
                prog=f"sagewing {name}",
                args=rest,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
            )
    finally:
        if printed.getvalue():
            text = wrapped(printed.getvalue(), shutil.get_terminal_size().columns)
            console.out.print(text, soft_wrap=True)
