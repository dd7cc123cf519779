"""Indices of arrays that are stored row by row, and the C of loops over them."""

import math
from collections.abc import Sequence

from sagewing.codegen.graph import Node

NAMES = ("k", "i")  # of rows, and of the entries in one


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array that is stored row by row, in entries."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def length(vector: Node) -> int:
    """The number of entries of a loop's result."""
    return math.prod(vector.attr[1])


def loops(shape: Sequence[int]) -> str:
    """The loops over a vector, or over rows and their entries."""
    counts = zip(NAMES[-len(shape) :], shape, strict=True)
    return "".join(f"for (int {i} = 0; {i} < {n}; ++{i}) " for i, n in counts)


def index_of(strides: Sequence[int]) -> str:
    """The index of an entry in these loops."""
    names = zip(NAMES[-len(strides) :], strides, strict=True)
    return " + ".join(i if stride == 1 else f"{stride} * {i}" for i, stride in names if stride)
