"""The option `--weights FILTER=DIR`."""

from collections.abc import Sequence
from typing import Any

from sagewing import catalogue
from sagewing.errors import InputError


def own_weights(given: Sequence[str]) -> dict[str, Any]:
    """The learned parts in the folders of `--weights FILTER=DIR`, by filter."""
    kinds = {entry.name: entry.needs for entry in catalogue.entries() if entry.needs is not None}
    learned = {}
    for item in given:
        name, _, folder = item.partition("=")
        if name not in kinds or not folder:
            raise InputError(
                f"--weights takes FILTER=DIR with a filter of {', '.join(kinds)}; got {item!r}."
            )
        learned[name] = kinds[name].load(folder)
    return learned
