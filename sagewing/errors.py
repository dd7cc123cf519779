"""The one error that a user can cause."""

import reprlib
from collections.abc import Collection, Sequence
from typing import Any

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlong = 40


class InputError(ValueError):
    """Something the caller gave is wrong; the message says what, where and what to do about it.

    The command line prints the message alone and exits with code 2.
    """


def shown(value: Any) -> str:
    """A value from a file as it stands in a message: however large or deep it is, a few words."""
    return _short.repr(value)


def check_known(what: str, names: Sequence[str], known: Collection[str]) -> None:
    """Refuse an empty list of names and a name that is not known, and say which are."""
    if not names:
        raise InputError(f"Give at least one {what}; known: {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise InputError(f"There is no {what} {name!r}; known: {', '.join(known)}.")
