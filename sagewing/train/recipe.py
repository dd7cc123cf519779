"""How the learned part of a filter is trained."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import PRNGKeyArray


class Recipe(NamedTuple):
    """The initial learned part of a filter, and the options of its loss.

    `begin` makes that part from the settings of a training and a key. Squared errors over `largest`
    are left out of the loss. With `compares_noise` the auxiliary loss is the distance of the
    filter's q and r from the true ones.
    """

    begin: Callable[[Any, PRNGKeyArray], Any]
    largest: float | None = None
    compares_noise: bool = False
