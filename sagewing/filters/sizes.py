"""How the arithmetic is done, by its size: the one table, measured by `benchmarks/sizes.py`.

Written out, a product is an explicit sum over its inner index and a factorisation a loop over its
columns: fast for small matrices with the batch as the last axis, slow to compile for large ones.
For larger matrices library routines are called (`routines.py`), and from some number of states on
every record of a batch is computed by itself (`batches.py`), with its matrices in one piece.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Use = Literal["run", "training"]

# Up to so many rows matrices are written out: of one record, and with the batch as the last axis.
ROWS_OF_ONE = 4
ROWS_OF_BATCH = 24
# Up to so many errors of a state the batch is the last axis: in a run, and where a run is
# differentiated, because derivatives written out are faster than the library's.
STATES_OF_BATCH: dict[Use, int] = {"run": 12, "training": 24}
# Records of a run that are computed together: so many entries of P stay in the cache of a core.
ENTRIES_TOGETHER = 2**14
LEAST_TOGETHER, MOST_TOGETHER = 128, 1024
# `backend="auto"` runs up to so many states in C, from so many steps on, and else in JAX: C is
# compiled for the numbers of one filter, which takes seconds, and minutes where it has many states.
STATES_IN_C, STEPS_IN_C = 20, 1_000_000

_everything: ContextVar[bool] = ContextVar("everything", default=False)


def written_out(rows: int, *, batched: bool) -> bool:
    """Whether the arithmetic of matrices with so many rows is written out."""
    return _everything.get() or rows <= (ROWS_OF_BATCH if batched else ROWS_OF_ONE)


@contextmanager
def all_written_out() -> Iterator[None]:
    """What is traced here is written out at every size: generated C calls no library."""
    token = _everything.set(True)
    try:
        yield
    finally:
        _everything.reset(token)


def records_together(n_dx: int) -> int:
    """How many records of a run are computed together."""
    return min(max(ENTRIES_TOGETHER // n_dx**2, LEAST_TOGETHER), MOST_TOGETHER)
