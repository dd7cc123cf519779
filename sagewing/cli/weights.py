"""Which weights a learned filter runs with: the shipped ones, or the user's."""

from collections.abc import Mapping, Sequence
from typing import Any

from sagewing.errors import InputError
from sagewing.policy import Noise, Policy, Universal
from sagewing.policy.storage import Stored, folder_of, read_card
from sagewing.studies.flight import UNIVERSAL
from sagewing.train import flight


def learned_part(name: str) -> tuple[Policy | Universal | Noise, dict[str, Any]]:
    """A policy or tuned noise, of a folder or shipped under this name, and where it comes from."""
    folder = folder_of(name)
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    kinds = {kind.kind: kind for kind in (Policy, Universal, Noise)}
    if not isinstance(card.get("kind"), str) or card["kind"] not in kinds:
        raise InputError(
            f"{name} is of the kind {str(card.get('kind'))[:50]!r}; needed: {', '.join(kinds)}."
        )
    return kinds[card["kind"]].load(folder), card.get("provenance", {})


def own_weights(given: Sequence[str], kinds: Mapping[str, type[Stored]]) -> dict[str, Any]:
    """What the folders of `--weights FILTER=DIR` hold, by filter."""
    learned = {}
    for item in given:
        name, _, folder = item.partition("=")
        if name not in kinds or not folder:
            raise InputError(
                f"--weights takes FILTER=DIR with a filter of {', '.join(kinds)}; got {item!r}."
            )
        learned[name] = kinds[name].load(folder)
    return learned


def flight_weights(
    filters: Sequence[str], kind: str, noise: str, given: Sequence[str]
) -> dict[str, Any]:
    """The weights of the flight benchmark: the user's, else those shipped for data and noise."""
    kinds = {name: learner.kind for name, learner in flight.LEARNERS.items()}
    learned = own_weights(given, {**kinds, UNIVERSAL: Universal})
    for name in filters:
        if name in kinds and name not in learned:
            learned[name] = kinds[name].pretrained(f"flight-{kind}-{noise}-{name}")
        elif name == UNIVERSAL and name not in learned:
            learned[name] = Universal.pretrained("universal")
    return learned
