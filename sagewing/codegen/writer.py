"""From the graph to the statements of a C function."""

from collections.abc import Sequence
from typing import NamedTuple

from sagewing.codegen.expressions import (
    BINDING,
    CALL,
    COMPARED,
    NAME,
    Expression,
    Template,
    arrays_of,
)
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.indices import index_of, length, loops, row_major_strides
from sagewing.codegen.memory import NO_ARRAYS, Array, Statement, declaration
from sagewing.codegen.notation import Notation, comparison
from sagewing.codegen.operations import Kind
from sagewing.codegen.packing import blocks, in_order, loops_in_packs, pack_plan
from sagewing.codegen.regions import Placement, Region
from sagewing.codegen.tables import Tables

# A number that is used once is written where it is used, up to this length of text.
LONGEST = 400


class Cost(NamedTuple):
    """What a function takes: operations with both sides of a branch counted, and numbers held."""

    operations: int
    numbers: int


class Writer:
    """The statements of one function; `used` collects the helpers that they call."""

    notation = Notation()

    def __init__(self, graph: Graph, outputs: Sequence[Node], tables: Tables):
        self.statements: list[Statement] = []
        self.used: set[str] = set()
        self.operations, self.numbers = 0, 0
        self._tables = tables
        self._place = Placement(graph, outputs)
        self._written: dict[Node, Expression] = {}
        self._done: set[Node] = set()
        self._names: dict[Node, str] = {}
        self._pending: dict[Node, Expression] = {}  # loops that may become part of another one
        self._depth = 1
        self._in_packs = loops_in_packs(graph, self._place)
        self._declared = {pack for pack, _ in self._in_packs.values()}
        for pack in sorted(self._declared, key=lambda pack: pack.id):
            self._declare(pack, 1)
        self._schedule(list(outputs), self._place.body, 1)

    @property
    def cost(self) -> Cost:
        """What the statements take."""
        return Cost(self.operations, self.numbers)

    def expression(self, node: Node) -> Expression:
        """A number that has been computed."""
        if node.op == "const":
            return Expression(self.notation.constant(node), NAME)
        if node.op == "elem":
            vector = node.args[0]
            if vector.op == "branch":
                return Expression(f"{self._name(vector)}_{node.attr}", NAME)
            if vector.op == "input" and vector.attr.is_number:
                return Expression(vector.attr.name, NAME)
            return self._entry(vector, node.attr)
        return self._written[node]

    def lasting(self, node: Node) -> Expression:
        """A number that has been computed, under a name that no later statement changes."""
        if node.op == "elem" and node.args[0].op == "input":
            name = self._names.get(node)
            if name is None:
                expression = self.expression(node)
                name = self._define(node, expression, 1)
            return Expression(name, NAME)
        return self._named(node)

    def vector(self, node: Node, offset: int = 0) -> Expression:
        """A C array, from an entry on."""
        name, first, arrays = self._array(node)
        text = f"{name} + {first + offset}" if first + offset else name
        return Expression(text, BINDING["add"][0], arrays)

    def stores(self, target: str, is_array: bool, values: Sequence[Node]) -> list[Statement]:
        """Statements that put numbers into an array, or a single one into a variable."""
        if not is_array:
            return [self._assigned(target, self.expression(values[0]))]
        vector = in_order(values)
        if vector is not None:
            entry = self._entry(vector, values[0].attr, "i")
            return [self._assigned(f"{loops((len(values),))}{target}[i]", entry)]
        return [
            self._assigned(f"{target}[{i}]", self.expression(value))
            for i, value in enumerate(values)
        ]

    def all_finite(self, array: Expression, size: int) -> Expression:
        """Whether all entries of an array are finite."""
        text, helper = self.notation.all_finite(array.text, size)
        self._use(helper)
        return Expression(text, CALL, array.arrays)

    # Which number is written when

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
            self._array(node.args[0])  # in this region, which holds all that read the number
        if node.op in ("const", "input", "table", "elem"):
            return
        if node.op == "branch":
            self._write_branch(node, depth)
        elif node.op == "pack":
            self._write_pack(node, depth)
        elif node.op == "matvec":
            self._write_product(node, depth)
        elif node.op == "product":
            self._write_shared_product(node, depth)
        elif node.op == "map":
            self._write_map(node)
        else:
            self._write_number(node, depth)

    # Single numbers

    def _write_number(self, node: Node, depth: int) -> None:
        expression = self._operation(node)
        if self._place.uses[node] == 1 and expression.length < LONGEST:
            self._written[node] = expression
        else:
            name = self._define(node, expression, depth)
            self._written[node] = Expression(name, NAME)

    def _operation(self, node: Node) -> Expression:
        if node.kind == "real" or BINDING.get(node.op) is COMPARED:
            self.operations += node.op not in ("to_real", "neg")
        if node.op in ("max", "min"):
            return self._extreme(node)
        template = self.notation.template(node)
        self._use(template.helper)
        return template.of([self.expression(arg) for arg in node.args])

    def _extreme(self, node: Node) -> Expression:
        """The larger or smaller number; NaN if one is NaN, as in JAX."""
        a, b = node.args if node.args[0].op == "const" else node.args[::-1]
        sign = comparison(node, a)
        if sign is None:
            text, helper = self.notation.operation(node.op)
            self._use(helper)
            return Template(text, CALL, (0, 0)).of([self.expression(a), self.expression(b)])
        return self.notation.larger(node, sign).of([self._named(a), self._named(b)])

    def _named(self, node: Node) -> Expression:
        """A number under a name, because it is written more than once."""
        expression = self.expression(node)
        if expression.binding < NAME:
            name = self._define(node, expression, self._depth)
            expression = self._written[node] = Expression(name, NAME)
        return expression

    def _define(self, node: Node, expression: Expression, depth: int) -> str:
        """Give a number its name."""
        name = self._name(node)
        kind = self.notation.types[node.kind]
        self._line(depth, f"const {kind} {name} = {expression.text};", expression.arrays)
        return name

    # Arrays

    def _array(self, node: Node) -> tuple[str, int, frozenset[Array]]:
        """The C array of a vector, where in it the vector begins, and itself if it is ours."""
        if node in self._pending:
            self._write_loop(node, self._pending.pop(node))
        if node.op == "input":
            return node.attr.name, 0, NO_ARRAYS
        if node.op == "table":
            return self._tables.name(node), 0, NO_ARRAYS
        pack, first = self._in_packs.get(node, (node, 0))
        array = Array(self._name(pack), _size(pack))
        return array.text, first, frozenset([array])

    def _declare(self, node: Node, depth: int) -> None:
        array = Array(self._name(node), _size(node))
        self._depth = depth
        self.statements.append(declaration(depth, array, self.notation.types["real"]))

    def _entry(self, vector: Node, offset: int, index: str = "") -> Expression:
        """An entry of a vector; `index` is what a loop adds."""
        name, first, arrays = self._array(vector)
        at = first + offset
        text = f"{name}[{f'{index} + {at}' if at and index else index or at}]"
        if vector.op == "table":
            text = self.notation.of_table(text)
        return Expression(text, NAME, arrays)

    def _write_pack(self, node: Node, depth: int) -> None:
        """Put numbers side by side, except those that loops have written there."""
        made = pack_plan(node.args)
        if node not in self._declared:
            self._declare(node, depth)
        rows = [r for r in made.rows if self._in_packs.get(r.source.args[0]) != (node, r.first)]
        for copy in (*([made.most] if made.most else ()), *blocks(rows)):
            axes = slice(0 if copy.shape[0] > 1 else 1, None)
            there = self._entry(copy.source.args[0], copy.source.attr, index_of(copy.of[axes]))
            here = self._entry(node, copy.first, index_of(copy.to[axes]))
            self._assign(depth, here, there, loops(copy.shape[axes]))
        for i in made.alone:
            self._assign(depth, self._entry(node, i), self.expression(node.args[i]))

    def _write_product(self, node: Node, depth: int) -> None:
        """A matrix of constants times a vector."""
        (rows, offset), (table, vector) = node.attr, node.args
        columns = table.attr[0][1]
        # The product's name comes first
        self._name(node)
        function, sizes = self.notation.product(rows, columns)
        self._use(function)
        self.operations += 2 * rows * columns
        start = self.vector(vector, offset)
        self._declare(node, depth)
        matrix = self._tables.name(table, columns=True)
        result = self.vector(node)
        text = f"{function}({matrix}, {start.text}, {result.text}, {sizes});"
        self._line(depth, text, start.arrays | result.arrays)

    def _write_shared_product(self, node: Node, depth: int) -> None:
        """A matrix that all records share times a vector."""
        raise NotImplementedError

    def _write_map(self, node: Node) -> None:
        """A loop; one that only one other loop needs becomes part of that."""
        loop = self._loop(node)
        if self._place.uses[node] == 1 and loop.length < LONGEST:
            self._pending[node] = loop
        else:
            self._write_loop(node, loop)

    def _loop(self, node: Node) -> Expression:
        """What a loop computes at each place."""
        op, shape, places = node.attr
        self.operations += length(node)
        entries = []
        for arg, (offset, strides) in zip(node.args, places, strict=True):
            if offset is None:
                entries.append(self._named(arg))
            elif arg in self._pending and arg.attr[1] == shape and in_step(offset, strides, shape):
                entries.append(self._pending.pop(arg))
            else:
                entries.append(self._entry(arg, offset, index_of(strides)))
        text, helper = self.notation.in_loop(op)
        self._use(helper)
        return Template(text, 0, (CALL,) * len(entries)).of(entries)

    def _write_loop(self, node: Node, loop: Expression) -> None:
        shape = node.attr[1]
        if node not in self._in_packs:
            self._declare(node, self._depth)
        entry = self._entry(node, 0, index_of(row_major_strides(shape)))
        self._assign(self._depth, entry, loop, loops(shape))

    # Branches

    def _write_branch(self, node: Node, depth: int) -> None:
        index, sides = node.args[0], self._place.sides[node]
        by_kind: dict[Kind, list[int]] = {}
        for i, out in zip(self._place.outputs(node), self._place.side(node, 0), strict=True):
            by_kind.setdefault(out.kind, []).append(i)
        for kind, places in by_kind.items():
            names = ", ".join(f"{self._name(node)}_{i}" for i in places)
            self._line(depth, f"{self.notation.types[kind]} {names};")
        order = range(len(sides))
        if index.kind == "bool":
            order = [1, 0]
            flag = self.expression(index)
            tests = [Expression(f"if ({flag.text}) {{", 0, flag.arrays), Expression("} else {", 0)]
        else:
            text = self._named(index).text
            lines = [f"if ({text} <= {i}) {{" for i in order]
            lines = [lines[0], *(f"}} else {line}" for line in lines[1:-1]), "} else {"]
            tests = [Expression(line, 0) for line in lines]
        for test, side in zip(tests, order, strict=True):
            self._line(depth, test.text, test.arrays)
            outs = self._place.side(node, side)
            self._schedule(outs, sides[side], depth + 1)
            for i, out in zip(self._place.outputs(node), outs, strict=True):
                name = Expression(f"{self._name(node)}_{i}", NAME)
                self._assign(depth + 1, name, self.expression(out))
        self._line(depth, "}")

    # Names and lines

    def _name(self, node: Node) -> str:
        if node not in self._names:
            self._names[node] = f"v{len(self._names)}"
            self.numbers += _size(node)
        return self._names[node]

    def _use(self, helper: str | None) -> None:
        if helper is not None:
            self.used.add(helper)

    def _assign(self, depth: int, target: Expression, value: Expression, before: str = "") -> None:
        arrays = arrays_of([target, value])
        self._line(depth, f"{before}{target.text} = {value.text};", arrays)

    def _assigned(self, target: str, value: Expression) -> Statement:
        return Statement(1, f"{target} = {value.text};", value.arrays)

    def _line(self, depth: int, text: str, arrays: frozenset[Array] = NO_ARRAYS) -> None:
        self._depth = depth
        self.statements.append(Statement(depth, text, arrays))


def in_step(offset: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an operand is read where the result is written."""
    return offset == 0 and strides == row_major_strides(shape)


def _size(node: Node) -> int:
    """How many numbers are held under the name of a node."""
    first = dict.fromkeys(("matvec", "product"), lambda: node.attr[0])
    sizes = {"pack": lambda: node.attr, "map": lambda: length(node), **first}
    return sizes[node.op]() if node.op in sizes else node.attr[1] if node.op == "branch" else 1
