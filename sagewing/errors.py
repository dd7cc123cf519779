"""The error for a user's mistakes."""

import reprlib
from collections.abc import Collection, Sequence
from typing import Any

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlong = 40


class InputError(ValueError):
    """An input is wrong; the message says what, where, and what to do.

    The command line prints the message alone and exits with code 2.
    """


def shown(value: Any) -> str:
    """A value from a file, shortened for a message however large or deep it is."""
    return _short.repr(value)


def check_known(what: str, names: Sequence[str], known: Collection[str]) -> None:
    """Refuse an empty list of names and an unknown name, and list the known ones."""
    if not names:
        raise InputError(f"Give at least one {what}; known: {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise InputError(f"There is no {what} {name!r}; known: {', '.join(known)}.")
