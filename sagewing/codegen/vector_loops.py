"""Loops over arrays written in vectors of GNU C, so that they need no compiler's vectorisation.

A loop takes as many entries as a vector has lanes; the last ones are computed together with entries
before them, once more.
"""

from collections.abc import Sequence

from sagewing.codegen.expressions import CALL, Expression, Template
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.indices import index_of, length, row_major_strides
from sagewing.codegen.lanes_notation import LanesNotation
from sagewing.codegen.regions import Placement
from sagewing.codegen.tables import Tables
from sagewing.codegen.writer import Writer, in_step

# The reductions of arrays in lanes.h
REDUCTIONS = ("sum", "largest", "smallest")
# Functions of loops that are approximated in lanes.h
APPROXIMATED = ("exp", "log")


def _only_summed(graph: Graph, place: Placement) -> set[Node]:
    """The loops of which every row is summed, and that are read nowhere else."""
    read: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for arg in node.args if node in place.region else ():
            read.setdefault(arg, []).append(node)
    return {
        node
        for node, by in read.items()
        if node.op == "map" and all(_sums_row(one, node) for one in by)
    }


def _sums_row(node: Node, loop: Node) -> bool:
    offset, size = node.attr if node.op == "sum" else (0, 0)
    return size == loop.attr[1][-1] and offset % size == 0


class VectorLoopsWriter(Writer):
    """Statements about numbers, whose loops are vectors'; `lifted` are the helpers of these."""

    lanes = LanesNotation()

    def __init__(self, graph: Graph, outputs: Sequence[Node], tables: Tables):
        self.lifted: set[str] = set()
        self._in_sums: dict[Node, Expression] = {}
        self._summed = _only_summed(graph, Placement(graph, outputs))
        super().__init__(graph, outputs, tables)

    def _write_map(self, node: Node) -> None:
        """A loop; what is only summed is not stored."""
        if node in self._summed:
            self._in_sums[node] = self._loop(node)
        else:
            super()._write_map(node)

    def _operation(self, node: Node) -> Expression:
        if node.op not in REDUCTIONS:
            return super()._operation(node)
        vector, (offset, size) = node.args[0], node.attr
        self.operations += size
        if vector not in self._in_sums:
            array = self.vector(vector, offset)
            return Expression(f"sw_{node.op}({array.text}, {size})", CALL, array.arrays)
        loop, name = self._in_sums[vector], self._name(node)
        row = offset // size
        rows = f"for (int k = {row}; k < {row + 1}; ++k) " if len(vector.attr[1]) > 1 else ""
        self._line(self._depth, f"sw_lanes {name}_each = SW_ALL((sw_real)0);")
        text = f"{rows}SW_EACH(at, {size}) {name}_each += sw_new({loop.text}, at, {size});"
        self._line(self._depth, text, loop.arrays)
        return Expression(f"sw_total({name}_each)", CALL)

    def _loop(self, node: Node) -> Expression:
        op, shape, places = node.attr
        self.operations += length(node)
        entries = []
        for arg, (offset, strides) in zip(node.args, places, strict=True):
            if offset is None:
                flag = arg.kind == "bool"
                name = self._named(arg).text
                text = f"SW_ALL_INTS(-({name} != 0))" if flag else f"SW_ALL({name})"
                entries.append(Expression(text, CALL))
            elif arg in self._pending and arg.attr[1] == shape and in_step(offset, strides, shape):
                entries.append(self._pending.pop(arg))
            else:
                entries.append(self._vector_at(arg, offset, strides, shape[-1]))
        if op in APPROXIMATED:
            text, helper = f"sw_lanes_{op}_each({{0}})", None
        else:
            text, helper = self.lanes.in_loop(op)
        if helper is not None:
            self.lifted.add(helper)
        return Template(f"({text})", 0, (CALL,) * len(entries)).of(entries)

    def _vector_at(
        self, vector: Node, offset: int, strides: tuple[int, ...], size: int
    ) -> Expression:
        """The entries of an array that a loop reads at `at`."""
        *rows, step = strides
        start = self.vector(vector, offset)
        row = " + ".join(part for part in (start.text, index_of((*rows, 0))) if part)
        if step == 1:
            return Expression(f"sw_get({row} + at, SW_SPAN({size}))", CALL, start.arrays)
        text = (
            f"SW_ALL(*({row}))"
            if step == 0
            else f"sw_gather({row} + {step} * at, {step}, SW_SPAN({size}))"
        )
        return Expression(text, CALL, start.arrays)

    def _write_loop(self, node: Node, loop: Expression) -> None:
        shape = node.attr[1]
        if node not in self._in_packs:
            self._declare(node, self._depth)
        *rows, _ = row_major_strides(shape)
        target = self.vector(node)
        row = " + ".join(part for part in (target.text, index_of((*rows, 0))) if part)
        size = shape[-1]
        head = "".join(f"for (int k = 0; k < {n}; ++k) " for n in shape[:-1])
        text = f"{head}SW_EACH(at, {size}) sw_put({row} + at, {loop.text}, SW_SPAN({size}));"
        self._line(self._depth, text, target.arrays | loop.arrays)
