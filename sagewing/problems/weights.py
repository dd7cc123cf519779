"""Which learned parts ship for which problem, and how any of them is loaded."""

from collections.abc import Sequence
from typing import Any

from sagewing import catalogue
from sagewing.catalogue import UNIVERSAL, CatalogueEntry
from sagewing.errors import InputError
from sagewing.policy import storage
from sagewing.policy.storage import Stored, folder_of, read_card

FOR_EVERY_PROBLEM = {UNIVERSAL: "universal"}


def chaos_weights(name: str, protocol: str) -> Any:
    """What a filter has learned on Lorenz, under this protocol, as it ships; None: nothing."""
    return _shipped(catalogue.entry(name), f"chaos-{name}-{protocol}")


def flight_weights(
    filters: Sequence[str], kind: str, noise: str, own: dict[str, Any]
) -> dict[str, Any]:
    """What filters have learned on flights, real or sim: the user's own, else what ships."""
    learned = dict(own)
    for name in filters:
        found = catalogue.find(name)
        if found is not None and found.needs is not None and name not in learned:
            learned[name] = _shipped(found, f"flight-{kind}-{noise}-{name}")
    return learned


def runnable(kind: str, noise: str) -> tuple[str, ...]:
    """The filters of flights that can be built from what ships."""

    def ships(found: CatalogueEntry) -> bool:
        return found.needs is None or _there(found, f"flight-{kind}-{noise}-{found.name}")

    return tuple(name for name in catalogue.buildable() if ships(catalogue.entry(name)))


def _there(found: CatalogueEntry, folder: str) -> bool:
    return (storage.SHIPPED / FOR_EVERY_PROBLEM.get(found.name, folder)).is_dir()


def _shipped(found: CatalogueEntry, folder: str) -> Any:
    if found.needs is None:
        return None
    folder, there = FOR_EVERY_PROBLEM.get(found.name, folder), _there(found, folder)
    if not there:
        raise InputError(
            f"{found.name} needs what it has learned, and none ships as {folder}: train it, and "
            "name its folder."
        )
    return found.needs.pretrained(folder)


def learned_part(name: str) -> tuple[Stored, dict[str, Any]]:
    """A learned part of any kind, of a folder or shipped under this name, and its provenance."""
    folder = folder_of(name)
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    kinds = {one.needs.kind: one.needs for one in catalogue.entries() if one.needs is not None}
    if not isinstance(card.get("kind"), str) or card["kind"] not in kinds:
        raise InputError(
            f"{name} is of the kind {str(card.get('kind'))[:50]!r}; needed: {', '.join(kinds)}."
        )
    return kinds[card["kind"]].load(folder), card.get("provenance", {})
