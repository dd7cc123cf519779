"""One C text for float and double: constants are written once where the two agree."""

import re

import numpy as np

CONSTANT = re.compile("«([^»]*)»")
# Two constants that are this close are one, rounded twice.
CLOSE = 1e-6


def for_both(single: str, double: str) -> str:
    """The text for both precisions, which differ in constants at most, or else one after the other.

    A constant such as the smallest difference from 1 depends on the precision.
    """
    a, b = CONSTANT.split(single), CONSTANT.split(double)
    if a[::2] != b[::2]:
        return f"#ifdef SW_DOUBLE\n{for_one(double)}#else\n{for_one(single)}#endif\n"
    parts = list(b)
    for i in range(1, len(b), 2):
        parts[i] = _either(float(a[i]), float(b[i]))
    return "".join(parts)


def for_one(text: str) -> str:
    """The text for one precision."""
    return CONSTANT.sub(lambda found: constant(float(found[1])), text)


def constant(value: float) -> str:
    """A constant in C."""
    if np.isnan(value):
        return "SW_NAN"
    if np.isinf(value):
        return "-SW_INF" if value < 0 else "SW_INF"
    return f"C({value!r})"


def _either(single: float, double: float) -> str:
    if single == double or abs(single - double) <= CLOSE * abs(double):
        return constant(double)
    if np.isnan(single) and np.isnan(double):
        return constant(double)
    return f"SW_PICK({constant(single)}, {constant(double)})"
