"""Which weights a learned filter runs with: the shipped ones, or the user's."""

from collections.abc import Mapping, Sequence
from typing import Any

from sagewing.errors import InputError
from sagewing.policy.storage import Stored
from sagewing.train import flight


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
    learned = own_weights(given, kinds)
    for name in filters:
        if name in kinds and name not in learned:
            learned[name] = kinds[name].pretrained(f"flight-{kind}-{noise}-{name}")
    return learned
