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
INTERRUPTED = "Interrupted: no file is half-written; the same command starts again."


def main(args: list[str] | None = None) -> None:
    """Parse and run; a user's mistake prints one sentence and exits with code 2."""
    arguments = sys.argv[1:] if args is None else args
    entry, name, rest = _command_named(arguments)
    # Hides XLA's messages about slow compilation; its errors are exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _exit_on_interrupt():
        from sagewing.cli import console
        from sagewing.runtime.xla_cache import enable_compilation_cache

        command = _parsed(entry, name, [argument for argument in rest if argument != QUIET])
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
def _exit_on_interrupt() -> Iterator[None]:
    """Exit at once on Ctrl-C while modules are imported: an exception there could break them."""

    def end(*_: Any) -> NoReturn:
        print(INTERRUPTED, file=sys.stderr, flush=True)
        os._exit(1)

    previous = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _command_named(arguments: list[str]) -> tuple[Entry, str, list[str]]:
    """The command that the first arguments name, its name, and the other arguments."""
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help"):
        _end(screen(), 0 if arguments else 2)
    if first == "--version":
        from sagewing import __version__

        _end(f"sagewing {__version__}", 0)
    if first in COMMANDS:
        return COMMANDS[first], first, arguments[1:]
    if first not in GROUPS:
        known = ", ".join(dict.fromkeys(name.split()[0] for name in COMMANDS))
        _end(f"error: there is no command {first!r}; known: {known}.", 2)
    second = arguments[1] if len(arguments) > 1 else "--help"
    name = f"{first} {second}"
    if name in COMMANDS:
        return COMMANDS[name], name, arguments[2:]
    if second in ("-h", "--help"):
        _end(screen(first), 0 if len(arguments) > 1 else 2)
    known = ", ".join(name.split()[1] for name in COMMANDS if name.split()[0] == first)
    _end(f"error: there is no {name!r}; known: {known}.", 2)


def _end(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)


def _parsed(entry: Entry, name: str, rest: list[str]) -> Any:
    import tyro

    from sagewing.cli import console

    module, _, command_class = entry.target.partition(":")
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            return tyro.cli(
                getattr(import_module(f"sagewing.cli.{module}"), command_class),
                prog=f"sagewing {name}",
                args=rest,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
            )
    finally:
        if printed.getvalue():
            text = wrapped(printed.getvalue(), shutil.get_terminal_size().columns)
            console.out.print(text, soft_wrap=True)
