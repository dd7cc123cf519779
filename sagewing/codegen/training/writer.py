"""The statements of a training's functions: numbers of records in lanes, which share parameters."""

from collections.abc import Sequence

from sagewing.codegen.expressions import NAME, Expression
from sagewing.codegen.graph import Node
from sagewing.codegen.lanes import LanesWriter
from sagewing.codegen.memory import NO_ARRAYS, Array, Statement
from sagewing.codegen.packing import in_order
from sagewing.codegen.tables import Tables
from sagewing.codegen.training.program import Pass


class TrainingWriter(LanesWriter):
    """Statements about vectors of records.

    `places` are the arguments that stand in another array than the graph says, `into` the products
    whose results are written where they are kept.
    """

    def __init__(
        self,
        made: Pass,
        tables: Tables,
        places: dict[str, str] | None = None,
        into: dict[Node, str] | None = None,
    ):
        self._places, self._into = places or {}, into or {}
        super().__init__(made.graph, made.outputs(), tables)

    def expression(self, node: Node) -> Expression:
        """A number that has been computed or given."""
        if node.op == "elem" and node.args[0].op == "input" and node.args[0].attr.shared:
            return self._entry(node.args[0], node.attr)
        return super().expression(node)

    def put(self, target: str, nodes: Sequence[Node]) -> list[Statement]:
        """Statements that put numbers one after the other into an array, unless they are there."""
        made: list[Statement] = []
        start = 0
        while start < len(nodes):
            end = start + 1
            while end < len(nodes) and in_order(nodes[start : end + 1]) is not None:
                end += 1
            part = list(nodes[start:end])
            if len(part) == 1 or in_order(part) not in self._into:
                made += self.stores(f"({target} + {start})", True, part)
            start = end
        return made

    def added(self, target: str, nodes: Sequence[Node]) -> list[Statement]:
        """Statements that add numbers to the entries of an array."""
        values = map(self.expression, nodes)
        return [
            Statement(1, f"{target}[{i}] += {value.text};", value.arrays)
            for i, value in enumerate(values)
        ]

    def chosen(self, target: str, nodes: Sequence[Node], flag: str) -> list[Statement]:
        """Statements that put numbers into an array, in the lanes where a flag is set."""
        made = []
        for i, node in enumerate(nodes):
            value, entry = self.lasting(node), f"{target}[{i}]"
            text = self.notation.choice("real").format(flag, value.text, entry)
            made.append(Statement(1, f"{entry} = {text};", value.arrays))
        return made

    def _entry(self, vector: Node, offset: int, index: str = "") -> Expression:
        made = super()._entry(vector, offset, index)
        if vector.op == "input" and vector.attr.shared:
            return Expression(f"SW_ALL({made.text})", NAME)
        return made

    def _array(self, node: Node) -> tuple[str, int, frozenset[Array]]:
        if node.op == "input":
            name: str = node.attr.name
            return self._places.get(name, name), 0, NO_ARRAYS
        if node in self._into:
            return self._into[node], 0, NO_ARRAYS
        return super()._array(node)

    def _write_shared_product(self, node: Node, depth: int) -> None:
        rows, columns, first, (across, along), offset = node.attr
        weights, vector = node.args
        self.operations += 2 * rows * columns
        start = self.vector(vector, offset)
        if node not in self._into:
            self._declare(node, depth)
        result = self.vector(node)
        text = (
            f"sw_product({weights.attr.name} + {first}, {across}, {along}, {start.text}, "
            f"{result.text}, {rows}, {columns});"
        )
        self._line(depth, text, start.arrays | result.arrays)
