"""One C text for float and double: constants are written once where the two agree."""

import re

import numpy as np

CONSTANT = re.compile("«([^»]*)»")
# Two constants that are this close are one, rounded twice.
CLOSE = 1e-6


def joined(single: str, double: str) -> str:
    """The text for both precisions, which differ in constants at most, or else one after the other.

    A constant such as the smallest difference from 1 depends on the precision.
    """
    a, b = CONSTANT.split(single), CONSTANT.split(double)
    if a[::2] != b[::2]:
        return f"#ifdef SW_DOUBLE\n{alone(double)}#else\n{alone(single)}#endif\n"
    parts = list(b)
    for i in range(1, len(b), 2):
        parts[i] = _either(float(a[i]), float(b[i]))
    return "".join(parts)


def alone(text: str) -> str:
    """The text for one precision."""
    return CONSTANT.sub(lambda found: written(float(found[1])), text)


def written(value: float) -> str:
    """A constant in C."""
    if np.isnan(value):
        return "SW_NAN"
    if np.isinf(value):
        return "-SW_INF" if value < 0 else "SW_INF"
    return f"C({value!r})"


def _either(single: float, double: float) -> str:
    if single == double or abs(single - double) <= CLOSE * abs(double):
        return written(double)
    if np.isnan(single) and np.isnan(double):
        return written(double)
    return f"SW_PICK({written(single)}, {written(double)})"
