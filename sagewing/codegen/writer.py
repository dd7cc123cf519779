"""From the graph to the statements of a C function.

Constants stand between « and » until the texts of the two precisions are joined (`precision.py`).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagewing.codegen.expressions import BINDING, CASTS, COMPARED, TIGHT, WRAPPING, integer
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.indices import index_of, length, loops, side_by_side
from sagewing.codegen.operations import BITS, OPERATIONS, Kind
from sagewing.codegen.packing import blocks, homes, in_order, plan
from sagewing.codegen.regions import Placement, Region
from sagewing.codegen.tables import Tables

C_TYPE: dict[Kind, str] = {"real": "sw_real", "int": "int", "long": "int64_t", "bool": "int"}
# A number that is used once is written where it is used, up to this length of text.
LONGEST = 400


class Cost(NamedTuple):
    """What a function takes: operations with both sides of a branch counted, and numbers held."""

    operations: int
    numbers: int


class Writer:
    """The statements of one function; `used` collects the helpers that they call.

    What depends on the kind of numbers that they are about stands in small methods of its own:
    see `lanes.py`, where a number is a vector of records.
    """

    types = C_TYPE

    def __init__(self, graph: Graph, outputs: Sequence[Node], tables: Tables):
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.operations, self.numbers = 0, 0
        self._tables = tables
        self._place = Placement(graph, outputs)
        self._text: dict[Node, tuple[str, int]] = {}
        self._done: set[Node] = set()
        self._names: dict[Node, str] = {}
        self._pending: dict[Node, str] = {}
        self._depth = 1
        self._homes = homes(graph, self._place)
        self._declared = {pack for pack, _ in self._homes.values()}
        for pack in sorted(self._declared, key=lambda pack: pack.id):
            self._line(1, f"{self.types['real']} {self._name(pack)}[{pack.attr}];")
        self._schedule(list(outputs), self._place.body, 1)

    @property
    def cost(self) -> Cost:
        """What the statements take."""
        return Cost(self.operations, self.numbers)

    def text(self, node: Node) -> str:
        """A number that has been computed."""
        return self._operand(node, 0)

    def _schedule(self, wanted: list[Node], region: Region, depth: int) -> None:
        """Write what `wanted` needs and this region computes, each before its use, depth first."""
        self._depth = depth
        stack = [(node, False) for node in reversed(wanted)]
        while stack:
            node, ready = stack.pop()
            if node in self._done or self._place.region[node] is not region:
                continue
            if ready:
                self._done.add(node)
                self._write(node, depth)
                continue
            stack.append((node, True))
            stack += [(arg, False) for arg in list(self._place.needed(node))[::-1]]

    def _write(self, node: Node, depth: int) -> None:
        if node.op == "elem" and node.args[0] in self._pending:
            self._array(node.args[0])  # here, where all who read the number can see it
        if node.op in ("const", "input", "table", "elem"):
            return
        if node.op == "branch":
            self._write_branch(node, depth)
        elif node.op in ("pack", "map", "matvec"):
            self._write_vector(node, depth)
        else:
            self._write_number(node, depth)

    def _write_number(self, node: Node, depth: int) -> None:
        text, binding = self._expression(node)
        once = self._place.uses[node] == 1 and len(text) < LONGEST
        if once:
            self._text[node] = text, binding
            return
        name = self._name(node)
        self._line(depth, f"const {self.types[node.kind]} {name} = {text};")
        self._text[node] = name, TIGHT

    def _expression(self, node: Node) -> tuple[str, int]:
        op = node.op
        if node.kind == "real" or BINDING.get(op) is COMPARED:
            self.operations += op not in ("to_real", "neg")
        if op in ("max", "min"):
            return self._extreme(node)
        if node.kind in BITS and op in WRAPPING:
            a, b = (self._operand(arg, 9) for arg in node.args)
            return self._whole(node.kind, WRAPPING[op], a, b)
        if node.kind in BITS and op == "neg":
            return self._whole(node.kind, "-", "0", self._operand(node.args[0], 9))
        text, own, needed = self._written(node)
        operands = [self._operand(a, n) for a, n in zip(node.args, needed, strict=True)]
        return text.format(*operands), own

    def _whole(self, kind: Kind, sign: str, a: str, b: str) -> tuple[str, int]:
        """An operation on whole numbers; those without a sign may overflow."""
        unsigned = {"int": "unsigned", "long": "uint64_t"}[kind]
        return f"({self.types[kind]})(({unsigned}){a} {sign} ({unsigned}){b})", 8

    def _written(self, node: Node) -> tuple[str, int, tuple[int, ...]]:
        """An operation's text, how tightly it binds, and how tightly its operands must."""
        given = node.args[0].kind if node.args else node.kind
        if node.op in CASTS and given != "real":
            return f"({self.types[node.kind]}){{0}}", *BINDING["neg"]
        text = self._operation(node.op)
        if node.op in ("quotient", "remainder") and node.kind == "long":
            text = self._operation(f"{node.op}_of_longs")
        return text, *BINDING.get(node.op, (TIGHT, (0,) * len(node.args)))

    def _operation(self, op: str) -> str:
        """The text of an operation on numbers."""
        text = OPERATIONS[op].text
        self.used.update(re.findall(r"sw_\w+", text))
        return text

    def _extreme(self, node: Node) -> tuple[str, int]:
        """The larger or smaller one; a NaN is passed on, as JAX does."""
        a, b = node.args if node.args[0].op == "const" else node.args[::-1]
        if node.kind == "real" and (a.op != "const" or np.isnan(a.attr)):
            text = self._operation(node.op)
            return text.format(self._operand(a, 0), self._operand(b, 0)), TIGHT
        # Of two zeros, 0 is above -0
        wins = a.op == "const" and a.attr == 0 and np.signbit(a.attr) == (node.op == "min")
        sign = {"max": ">", "min": "<"}[node.op] + ("=" if wins and node.kind == "real" else "")
        return self._chosen(node, sign, self._named(a), self._named(b))

    def _chosen(self, node: Node, sign: str, a: str, b: str) -> tuple[str, int]:
        """The larger or smaller one of two that are numbers."""
        return f"{a} {sign} {b} ? {a} : {b}", 1

    def named(self, node: Node) -> str:
        """A number that is computed already, under a name that later statements do not touch."""
        if node.op == "elem" and node.args[0].op == "input":
            name = self._names.get(node)
            if name is None:
                name = self._name(node)
                text = self._operand(node, 0)
                self._line(1, f"const {self.types[node.kind]} {name} = {text};")
            return name
        return self._named(node)

    def _named(self, node: Node) -> str:
        """A number under a name, as it is written more than once."""
        text, binding = self._text.get(node, ("", TIGHT))
        if binding == TIGHT and not text.endswith(")"):
            return self._operand(node, 0)
        name = self._name(node)
        self._line(self._depth, f"const {self.types[node.kind]} {name} = {text};")
        self._text[node] = name, TIGHT
        return name

    def _operand(self, node: Node, binding: int) -> str:
        if node.op == "const":
            return self._constant(node)
        if node.op == "elem":
            vector = node.args[0]
            if vector.op == "branch":
                return f"{self._name(vector)}_{node.attr}"
            if vector.op == "input" and vector.attr.is_number:
                return vector.attr.name
            return self._entry(vector, node.attr)
        text, own = self._text[node]
        return text if own >= binding else f"({text})"

    def _constant(self, node: Node) -> str:
        if node.kind == "real":
            return f"«{float(node.attr)!r}»"
        return integer(int(node.attr))

    def vector(self, node: Node, offset: int = 0) -> str:
        """A C array, from an entry on."""
        name, first = self._array(node)
        return f"{name} + {first + offset}" if first + offset else name

    def _array(self, node: Node) -> tuple[str, int]:
        """The C array of a vector, and where in it the vector begins."""
        if node in self._pending:
            self._write_loop(node, self._pending.pop(node))
        if node.op == "input":
            return node.attr.name, 0
        if node.op == "table":
            return self._tables.name(node), 0
        pack, first = self._homes.get(node, (node, 0))
        return self._name(pack), first

    def _entry(self, vector: Node, offset: int, index: str = "") -> str:
        """An entry of a vector; `index` is what a loop adds."""
        name, first = self._array(vector)
        at = first + offset
        return f"{name}[{f'{index} + {at}' if at and index else index or at}]"

    def _write_vector(self, node: Node, depth: int) -> None:
        if node.op == "pack":
            self._write_pack(node, depth)
        elif node.op == "matvec":
            name, (rows, offset) = self._name(node), node.attr
            table, vector = node.args
            n = table.attr[0][1]
            product, sizes = self._product(rows, n)
            self.used.add(product)
            self.operations += 2 * rows * n
            start = self.vector(vector, offset)
            self._line(depth, f"{self.types['real']} {name}[{rows}];")
            matrix = self._tables.name(table, columns=True)
            self._line(depth, f"{product}({matrix}, {start}, {name}, {sizes});")
        else:
            text = self._map(node)
            if self._place.uses[node] == 1 and len(text) < LONGEST:
                self._pending[node] = text
            else:
                self._write_loop(node, text)

    def _write_pack(self, node: Node, depth: int) -> None:
        """Numbers put side by side, but for those that were made there."""
        name, made = self._name(node), plan(node.args)
        if node not in self._declared:
            self._line(depth, f"{self.types['real']} {name}[{node.attr}];")
        rows = [r for r in made.rows if self._homes.get(r.source.args[0]) != (node, r.first)]
        for copy in (*([made.most] if made.most else ()), *blocks(rows)):
            axes = slice(0 if copy.shape[0] > 1 else 1, None)
            there = self._entry(copy.source.args[0], copy.source.attr, index_of(copy.of[axes]))
            here = self._entry(node, copy.first, index_of(copy.to[axes]))
            self._line(depth, f"{loops(copy.shape[axes])}{here} = {there};")
        for i in made.alone:
            self._line(depth, f"{name}[{i}] = {self._operand(node.args[i], 0)};")

    def _product(self, rows: int, columns: int) -> tuple[str, str]:
        """Who multiplies a matrix and a vector, and what it is told of their sizes."""
        return ("sw_matvec8", f"{columns}") if rows == 8 else ("sw_matvec", f"{rows}, {columns}")

    def _map(self, node: Node) -> str:
        """What a loop does at each place; one that nobody else needs is part of the next one."""
        op, shape, places = node.attr
        self.operations += length(node)
        entries = []
        for arg, (offset, strides) in zip(node.args, places, strict=True):
            if offset is None:
                entries.append(self._named(arg))
            elif arg in self._pending and arg.attr[1] == shape and _in_step(offset, strides, shape):
                entries.append(f"({self._pending.pop(arg)})")
            else:
                entries.append(self._entry(arg, offset, index_of(strides)))
        return self._in_loop(op).format(*entries)

    def _in_loop(self, op: str) -> str:
        """The text of an operation on numbers in a loop."""
        if op in ("exp", "log"):
            self.used.add(f"sw_{op}_each")
            return f"sw_{op}_each({{0}})"
        return self._operation(op)

    def _write_loop(self, node: Node, text: str) -> None:
        shape = node.attr[1]
        if node not in self._homes:
            self._line(self._depth, f"{self.types['real']} {self._name(node)}[{length(node)}];")
        entry = self._entry(node, 0, index_of(side_by_side(shape)))
        self._line(self._depth, f"{loops(shape)}{entry} = {text};")

    def _write_branch(self, node: Node, depth: int) -> None:
        index, sides = node.args[0], self._place.sides[node]
        by_kind: dict[Kind, list[int]] = {}
        for i, out in zip(self._place.outputs(node), self._place.side(node, 0), strict=True):
            by_kind.setdefault(out.kind, []).append(i)
        for kind, places in by_kind.items():
            names = ", ".join(f"{self._name(node)}_{i}" for i in places)
            self._line(depth, f"{self.types[kind]} {names};")
        order = range(len(sides))
        if index.kind == "bool":
            order = [1, 0]
            tests = [f"if ({self._operand(index, 0)}) {{", "} else {"]
        else:
            text = self._named_index(index, depth)
            tests = [f"if ({text} <= {i}) {{" for i in order]
            tests = [tests[0], *(f"}} else {t}" for t in tests[1:-1]), "} else {"]
        for test, side in zip(tests, order, strict=True):
            self._line(depth, test)
            outs = self._place.side(node, side)
            self._schedule(outs, sides[side], depth + 1)
            for i, out in zip(self._place.outputs(node), outs, strict=True):
                self._line(depth + 1, f"{self._name(node)}_{i} = {self._operand(out, 0)};")
        self._line(depth, "}")

    def _named_index(self, node: Node, depth: int) -> str:
        name = self._name(node)
        if self._text[node][0] != name:
            self._line(depth, f"const {self.types['int']} {name} = {self._operand(node, 0)};")
            self._text[node] = name, TIGHT
        return name

    def _name(self, node: Node) -> str:
        if node not in self._names:
            self._names[node] = f"v{len(self._names)}"
            self.numbers += _size(node)
        return self._names[node]

    def stores(self, target: str, values: Sequence[Node]) -> list[str]:
        """Statements that put numbers into an array, or a single one into a variable."""
        if not target.endswith("[]"):
            return [f"{target} = {self.text(values[0])};"]
        array = target[:-2]
        vector = in_order(values)
        if vector is not None:
            entry = self._entry(vector, values[0].attr, "i")
            return [f"{loops((len(values),))}{array}[i] = {entry};"]
        return [f"{array}[{i}] = {self.text(value)};" for i, value in enumerate(values)]

    def all_finite(self, array: str, size: int) -> str:
        """Whether all entries of an array are."""
        self.used.add("sw_all_finite")
        return f"sw_all_finite({array}, {size})"

    def _line(self, depth: int, text: str) -> None:
        self._depth = depth
        self.lines.append("    " * depth + text)


def _in_step(offset: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an operand is read where the result is written."""
    return offset == 0 and strides == side_by_side(shape)


def _size(node: Node) -> int:
    """How many numbers a name stands for."""
    sizes = {"pack": lambda: node.attr, "matvec": lambda: node.attr[0], "map": lambda: length(node)}
    return sizes[node.op]() if node.op in sizes else node.attr[1] if node.op == "branch" else 1
