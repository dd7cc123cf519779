"""How the operations of the graph are written in C, where a variable is one number.

`lanes_notation.py` writes them where a variable is a vector of numbers.
"""

import numpy as np

from sagewing.codegen.expressions import BINDING, CALL, Template, integer
from sagewing.codegen.graph import Node
from sagewing.codegen.operations import BITS, OPERATIONS, Kind

C_TYPE: dict[Kind, str] = {"real": "sw_real", "int": "int", "long": "int64_t", "bool": "int"}
UNSIGNED = {"int": "unsigned", "long": "uint64_t"}
# Operations on integers that wrap around, and those that only change the type of one.
WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
CASTS = ("to_int", "to_long")


class Notation:
    """The C of operations on single numbers."""

    types = C_TYPE

    def template(self, node: Node) -> Template:
        """An operation, but for the maximum and the minimum."""
        op = node.op
        if node.kind in BITS and op in WRAPPING:
            return self.wrapping(node.kind, WRAPPING[op])
        if node.kind in BITS and op == "neg":
            return self.negated(node.kind)
        if op in CASTS and node.args[0].kind != "real":
            return Template(f"({self.types[node.kind]}){{0}}", *BINDING["neg"])
        if op in ("quotient", "remainder") and node.kind == "long":
            op = f"{op}_of_longs"
        text, helper = self.operation(op)
        binding, operands = BINDING.get(node.op, (CALL, (0,) * len(node.args)))
        return Template(text, binding, operands, helper)

    def operation(self, op: str) -> tuple[str, str | None]:
        """The text of an operation, and the function that it calls."""
        return OPERATIONS[op].text, OPERATIONS[op].helper

    def in_loop(self, op: str) -> tuple[str, str | None]:
        """The same in a loop over an array; compilers vectorise these functions."""
        if op in ("exp", "log"):
            return f"sw_{op}_each({{0}})", f"sw_{op}_each"
        return self.operation(op)

    def wrapping(self, kind: Kind, sign: str) -> Template:
        """An operation on integers, without signs, because those with signs may not overflow."""
        unsigned = UNSIGNED[kind]
        return Template(
            f"({self.types[kind]})(({unsigned}){{0}} {sign} ({unsigned}){{1}})", 8, (9, 9)
        )

    def negated(self, kind: Kind) -> Template:
        """An integer with the other sign."""
        unsigned, own = UNSIGNED[kind], self.types[kind]
        return Template(f"({own})(({unsigned})0 - ({unsigned}){{0}})", 8, (9,))

    def larger(self, node: Node, sign: str) -> Template:
        """The one of two numbers that wins a comparison."""
        return Template(f"{{0}} {sign} {{1}} ? {{0}} : {{1}}", 1, (0, 0))

    def constant(self, node: Node) -> str:
        """A constant; a real one stands between « and » until both precisions are known."""
        if node.kind == "real":
            return f"«{float(node.attr)!r}»"
        return integer(int(node.attr))

    def of_table(self, entry: str) -> str:
        """An entry of an array of constants."""
        return entry

    def product(self, rows: int, columns: int) -> tuple[str, str]:
        """The function that multiplies a matrix and a vector, and the sizes that it is given."""
        return ("sw_matvec8", f"{columns}") if rows == 8 else ("sw_matvec", f"{rows}, {columns}")

    def all_finite(self, array: str, size: int) -> tuple[str, str | None]:
        """Whether all entries of an array are finite, and the function that this calls."""
        return f"sw_all_finite({array}, {size})", "sw_all_finite"


def comparison(node: Node, constant: Node) -> str | None:
    """The sign by which the larger or smaller of two numbers wins; None if one may be NaN."""
    if node.kind != "real":
        return {"max": ">", "min": "<"}[node.op]
    if constant.op != "const" or np.isnan(constant.attr):
        return None
    # Of two zeros, 0 is above -0
    wins = constant.attr == 0 and np.signbit(constant.attr) == (node.op == "min")
    return {"max": ">", "min": "<"}[node.op] + ("=" if wins else "")
