"""How the operations of the graph are written in C, where a variable is a vector of GNU C.

Each lane of the vector is a number of another record.
"""

from sagewing.codegen.expressions import BINDING, CALL, COMPARED, Template, integer
from sagewing.codegen.graph import Node
from sagewing.codegen.notation import CASTS, Notation
from sagewing.codegen.operations import BITS, OPERATIONS, Kind

TYPES: dict[Kind, str] = {
    "real": "sw_lanes",
    **dict.fromkeys(("int", "long", "bool"), "sw_ints"),
}


class LanesNotation(Notation):
    """The C of operations in all lanes."""

    types = TYPES

    def template(self, node: Node) -> Template:
        """Comparisons and choices are those of bits; the rest is as with numbers."""
        op, free = node.op, (0,) * len(node.args)
        if op in ("and", "or"):
            return Template(f"({{0}} {'&' if op == 'and' else '|'} {{1}})", CALL, (9, 9))
        if op == "not":
            return Template("~{0}", *BINDING["not"])
        if op == "select":
            return Template(self.choice(node.kind).format("{0}", "{1}", "{2}"), CALL, free)
        if op == "to_real":
            name = "of_flags" if node.args[0].kind == "bool" else "of_ints"
            return Template(f"sw_lanes_{name}({{0}})", CALL, free)
        if op in CASTS and node.args[0].kind != "real":
            texts = {"bool": "(-{0})", "int": "({0})", "long": "SW_WHOLE((sw_uints){0})"}
            return Template(texts[node.args[0].kind], CALL, (9,))
        template = super().template(node)
        if "real" in (OPERATIONS[op].kind, *(a.kind for a in node.args)):
            # C converts integers among real numbers by itself, but not vectors of integers
            made = {"real": "{}", "bool": "sw_lanes_of_flags({})"}
            made |= dict.fromkeys(BITS, "sw_lanes_of_ints({})")
            places = [made[a.kind].format(f"{{{i}}}") for i, a in enumerate(node.args)]
            template = template._replace(text=template.text.format(*places))
        if BINDING.get(op) is COMPARED:
            return Template(f"SW_FLAGS({template.text})", CALL, template.operands, template.helper)
        return template

    def choice(self, kind: Kind) -> str:
        """A choice of one of two numbers in every lane, by a flag."""
        return f"sw_lanes_{'select' if kind == 'real' else 'choose'}({{0}}, {{1}}, {{2}})"

    def operation(self, op: str) -> tuple[str, str | None]:
        """The text of an operation, and the function of numbers that it is made of."""
        if op == "is_finite":
            return "sw_lanes_finite({0})", None
        if op == "select":
            return self.choice("real"), None
        text, helper = super().operation(op)
        return text.replace("sw_", "sw_lanes_"), helper

    def in_loop(self, op: str) -> tuple[str, str | None]:
        """The same in a loop over an array."""
        return self.operation(op)

    def wrapping(self, kind: Kind, sign: str) -> Template:
        """An operation on integers without signs."""
        return self._in_bits(kind, f"(sw_uints){{0}} {sign} (sw_uints){{1}}", (9, 9))

    def negated(self, kind: Kind) -> Template:
        """Integers with the other sign."""
        return self._in_bits(kind, "(sw_uints){{0}} - (sw_uints){0}", (9,))

    def _in_bits(self, kind: Kind, text: str, operands: tuple[int, ...]) -> Template:
        wrap = "SW_WHOLE" if kind == "int" else "(sw_ints)"  # a lane of double has 64 bits
        return Template(f"({wrap}({text}))", CALL, operands)

    def larger(self, node: Node, sign: str) -> Template:
        """The one of two numbers that wins a comparison."""
        text = self.choice(node.kind).format(f"SW_FLAGS({{0}} {sign} {{1}})", "{0}", "{1}")
        return Template(text, CALL, (0, 0))

    def constant(self, node: Node) -> str:
        """The same constant in every lane; a flag that is set has all of its bits set."""
        if node.kind == "real":
            return f"SW_ALL({super().constant(node)})"
        return f"SW_ALL_INTS({integer(-int(node.attr) if node.kind == 'bool' else node.attr)})"

    def of_table(self, entry: str) -> str:
        """An entry of an array of constants, in every lane."""
        return f"SW_ALL({entry})"

    def product(self, rows: int, columns: int) -> tuple[str, str]:
        """The function that multiplies a matrix and a vector, and the sizes that it is given."""
        return "sw_lanes_matvec", f"{rows}, {columns}"

    def all_finite(self, array: str, size: int) -> tuple[str, str | None]:
        """In which lanes all entries of an array are finite."""
        return f"sw_lanes_all_finite({array}, {size})", None
