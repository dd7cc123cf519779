"""The C of any filter."""

from typing import Any

from sagewing.codegen.bank import bank_source
from sagewing.codegen.c99 import CSource, filter_source
from sagewing.filters.bank import Bank
from sagewing.filters.protocols import Filter


def c_source(
    filt: Filter, n_u: int = 0, provenance: dict[str, Any] | None = None, dtype: Any = None
) -> CSource:
    """The C of a filter with inputs of this size: of one precision, or of both by -DSW_DOUBLE.

    The same filter gives the same bytes. `provenance` says where its learned part comes from.
    """
    if isinstance(filt, Bank):
        return bank_source(filt, n_u, provenance, dtype)
    return filter_source(filt, n_u, provenance, dtype)
