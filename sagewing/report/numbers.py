"""Numbers as text."""

import numpy as np

MISSING = "–"


def fixed(value: float | None, digits: int = 3) -> str:
    """So many digits after the point; a dash where there is no number."""
    return MISSING if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def rounded(value: float | None, digits: int) -> str:
    """So many digits after the point, fewer for large numbers; a small one is not shown as zero."""
    if value is None or not np.isfinite(value):
        return MISSING
    if 0.0 < abs(value) < 0.5 * 0.1**digits:
        return f"<{0.1**digits:.{digits}f}"
    if abs(value) >= 1e4:
        return f"{value:.0e}"
    fewer = sum(abs(value) >= limit for limit in (10.0, 100.0, 1e3))
    return f"{value:.{max(digits - fewer, 0)}f}"
