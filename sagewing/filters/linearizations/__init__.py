"""How f and h are linearised: a choice of every filter that has one recursion."""

from sagewing.errors import InputError
from sagewing.filters.linearizations.iterated import Iterated
from sagewing.filters.linearizations.linearizer import Linearizer, Measured
from sagewing.filters.linearizations.taylor import Taylor
from sagewing.filters.linearizations.unscented import Unscented

BY_NAME = {"taylor": Taylor, "iterated": Iterated, "unscented": Unscented}

__all__ = ["BY_NAME", "Iterated", "Linearizer", "Measured", "Taylor", "Unscented", "linearizer"]


def linearizer(choice: "str | Linearizer") -> Linearizer:
    """The linearisation of this name with its default settings, or the given one."""
    if isinstance(choice, str) and choice in BY_NAME:
        return BY_NAME[choice]()
    if isinstance(choice, str) or not isinstance(choice, Linearizer):
        names = ", ".join(f'"{name}"' for name in BY_NAME)
        raise InputError(
            f"linearization must be one of {names}, or a sw.Iterated or sw.Unscented with settings "
            f"of its own; got {choice!r}."
        )
    return choice
