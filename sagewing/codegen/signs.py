"""What is known of a number before it is computed: whether it is finite, and not negative."""

from typing import Any

import numpy as np


def is_finite(node: Any) -> bool:
    """Whether a number is known to be finite."""
    if node.op == "const":
        return bool(np.isfinite(node.attr))
    if node.op == "elem" and node.args[0].op == "input":
        return node.args[0].attr.finite
    return node.op == "to_real"


def is_finite_and_positive(node: Any) -> bool:
    """Whether a number is known to be finite, and zero or more: then 0 times it is 0."""
    if node.op == "const":
        return bool(np.isfinite(node.attr) and node.attr >= 0)
    if node.op == "elem" and node.args[0].op == "input":
        return node.args[0].attr.finite and node.args[0].attr.not_negative
    if node.op in ("mul", "div") and is_part(node):
        return all(is_finite_and_positive(arg) for arg in node.args)
    return node.op == "to_real" and node.args[0].kind == "bool"


def is_part(node: Any) -> bool:
    """Whether a product or quotient with a constant is no larger than its other factor: dt / 2."""
    a, b = node.args
    if node.op == "div":
        return b.op == "const" and b.attr >= 1
    return any(one.op == "const" and abs(one.attr) <= 1 for one in (a, b))
