"""How C reads an expression, and how it writes integers."""

# How tightly an operation binds, as in C, and how tightly its operands must; a name binds tightest.
TIGHT = 10
COMPARED = (5, (6, 6))
BINDING = {
    **dict.fromkeys(("neg", "not", "to_real"), (8, (9,))),
    **dict.fromkeys(("mul", "div"), (7, (7, 8))),
    **dict.fromkeys(("add", "sub"), (6, (6, 7))),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), COMPARED),
    "and": (3, (4, 4)),
    "or": (2, (4, 4)),
    "select": (1, (4, 2, 2)),
}
# Operations on whole numbers that wrap around, and those that only change the type of one.
WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
CASTS = ("to_int", "to_long")


def integer(value: int) -> str:
    """An integer in C, which knows no negative constants: the smallest one is a difference."""
    if abs(value) < 2**31:
        return str(value)
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return f"INT64_C({value})" if value > 0 else f"(-INT64_C({-(value + 1)}) - 1)"
