"""How the linear algebra is computed, by its size: the one table, measured by `benchmarks/sizes.py`.

Written out, a product is an explicit sum over its inner index and a factorisation a loop over its
columns: fast for small matrices with the batch as the last axis, slow to compile for large ones.
Beyond so many rows library routines are called, and beyond so many states every record of a batch
is computed by itself (`jax.vmap`), with its matrices in one piece.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Up to so many rows matrices of one record, and of a batch in the last axis, are written out.
ROWS_OF_ONE = int(os.environ.get("ONE","8"))
ROWS_OF_BATCH = int(os.environ.get("BATCH","24"))
# Up to so many errors of a state the batch is the last axis.
STATES_OF_BATCH = int(os.environ.get("LAST","24"))

_everything: ContextVar[bool] = ContextVar("everything", default=False)


def written_out(rows: int, *, batched: bool) -> bool:
    """Whether the arithmetic of matrices with so many rows is written out."""
    return _everything.get() or rows <= (ROWS_OF_BATCH if batched else ROWS_OF_ONE)


@contextmanager
def all_written_out() -> Iterator[None]:
    """Programs that are traced here call no library: C has none."""
    token = _everything.set(True)
    try:
        yield
    finally:
        _everything.reset(token)
