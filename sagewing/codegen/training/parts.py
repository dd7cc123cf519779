"""Arrays that lie one after the other in C."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Part(NamedTuple):
    """An array that begins at the place `first`; of a `symmetric` one there is the lower half."""

    first: int
    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def size(self) -> int:
        """The number of entries."""
        if self.symmetric:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return int(np.prod(self.shape))

    @property
    def last(self) -> int:
        """The place after its last entry."""
        return self.first + self.size

    def packed(self, array: Any) -> Any:
        """The entries of an array one after the other; a batch in the last axis stays."""
        if self.symmetric:
            return array[np.tril_indices(self.shape[0])]
        return array.reshape((self.size, *array.shape[len(self.shape) :]))

    def unpacked(self, flat: Any) -> Any:
        """The array of these entries."""
        if not self.symmetric:
            return flat.reshape((*self.shape, *flat.shape[1:]))
        i, j = np.indices(self.shape)
        row, column = np.maximum(i, j), np.minimum(i, j)
        return flat[row * (row + 1) // 2 + column]


def parts(shapes: Sequence[tuple[int, ...]], symmetric: Sequence[bool] | None = None) -> list[Part]:
    """Arrays of these shapes."""
    made: list[Part] = []
    for i, shape in enumerate(shapes):
        first = made[-1].last if made else 0
        made.append(Part(first, shape, symmetric is not None and symmetric[i]))
    return made


def size(made: Sequence[Part]) -> int:
    """The number of entries of all arrays."""
    return made[-1].last if made else 0
