"""Which learned parts ship for which problem, and how they are loaded."""

from collections.abc import Sequence
from typing import Any

from sagewing import catalogue
from sagewing.catalogue import UNIVERSAL, CatalogueEntry
from sagewing.errors import InputError
from sagewing.policy import storage
from sagewing.policy.storage import Stored, folder_of, read_card

FOR_EVERY_PROBLEM = {UNIVERSAL: "universal"}


def chaos_weights(name: str, protocol: str) -> Any:
    """The shipped weights of a filter for Lorenz under this protocol; None if it needs none."""
    return _load_shipped(catalogue.entry(name), f"chaos-{name}-{protocol}")


def flight_weights(
    filters: Sequence[str], kind: str, noise: str, own: dict[str, Any]
) -> dict[str, Any]:
    """The filters' weights for flights, real or sim: the user's own, else the shipped ones."""
    learned = dict(own)
    for name in filters:
        entry = catalogue.find(name)
        if entry is not None and entry.needs is not None and name not in learned:
            learned[name] = _load_shipped(entry, f"flight-{kind}-{noise}-{name}")
    return learned


def runnable(kind: str, noise: str) -> tuple[str, ...]:
    """The flight filters that need no weights, or whose weights ship."""

    def has_weights(entry: CatalogueEntry) -> bool:
        return entry.needs is None or _ships(entry, f"flight-{kind}-{noise}-{entry.name}")

    return tuple(name for name in catalogue.buildable() if has_weights(catalogue.entry(name)))


def _ships(entry: CatalogueEntry, folder: str) -> bool:
    return (storage.SHIPPED / FOR_EVERY_PROBLEM.get(entry.name, folder)).is_dir()


def _load_shipped(entry: CatalogueEntry, folder: str) -> Any:
    if entry.needs is None:
        return None
    folder, shipped = FOR_EVERY_PROBLEM.get(entry.name, folder), _ships(entry, folder)
    if not shipped:
        raise InputError(
            f"{entry.name} needs learned weights, and none ships as {folder}: train it, and name "
            "its folder."
        )
    return entry.needs.pretrained(folder)


def learned_part(name: str) -> tuple[Stored, dict[str, Any]]:
    """The learned part in this folder or shipped under this name, and its provenance."""
    folder = folder_of(name)
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    kinds = {e.needs.kind: e.needs for e in catalogue.entries() if e.needs is not None}
    if not isinstance(card.get("kind"), str) or card["kind"] not in kinds:
        raise InputError(
            f"{name} has the kind {str(card.get('kind'))[:50]!r}; known: {', '.join(kinds)}."
        )
    return kinds[card["kind"]].load(folder), card.get("provenance", {})
