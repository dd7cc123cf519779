"""The C of a training: a step and its derivative for many records at once, one in each lane."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagewing.codegen.expressions import NAME, Expression
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.lanes import LanesWriter, functions
from sagewing.codegen.memory import NO_ARRAYS, Array, Statement, shared
from sagewing.codegen.packing import in_order
from sagewing.codegen.precision import for_one
from sagewing.codegen.tables import Tables
from sagewing.codegen.training.pieces import in_pieces
from sagewing.codegen.training.program import CARRY, KEPT, Pass, TrainingProgram

SIGNATURES = {
    "forward": (
        "void sw_forward(const sw_real *restrict parameters, const sw_lanes *restrict carry,\n"
        "                const sw_lanes *restrict z, const sw_ints *restrict arrived,\n"
        "                const sw_lanes *restrict u, sw_lanes dt, sw_lanes *restrict carry_new,\n"
        "                sw_lanes *restrict saved, sw_lanes *restrict kept)"
    ),
    "recover": (
        "static void recover(const sw_real *restrict parameters, sw_lanes *restrict carry_new,\n"
        "                    sw_ints due, const sw_ints *measured, const sw_ints *usable,\n"
        "                    sw_ints finite)"
    ),
    "reverse": (
        "void sw_reverse(const sw_real *restrict parameters, const sw_lanes *restrict kept,\n"
        "                const sw_lanes *restrict z, const sw_ints *restrict arrived,\n"
        "                const sw_lanes *restrict u, sw_lanes dt,\n"
        "                const sw_lanes *restrict saved_bar, const sw_lanes *restrict bar,\n"
        "                sw_lanes *restrict bar_new, sw_lanes *restrict by_parameters,\n"
        "                sw_lanes *restrict vectors, sw_lanes *restrict by_products)"
    ),
}
PIECE_ARGUMENTS = ",\n                 sw_lanes *restrict memory, sw_ints *restrict flags)"
RECOVER_CALL = """\
    const sw_ints due = {due};
    if (sw_lanes_any(due)) {{
        const sw_ints measured[] = {{{measured}}}, usable[] = {{{usable}}};
        recover(parameters, carry_new, due, measured, usable, {finite});
    }}
"""


class TrainingSource(NamedTuple):
    """The texts of `sagewing_training.h` and `.c`, and the sizes of the arrays of a step."""

    header: str
    code: str
    sizes: dict[str, int]
    operations: dict[str, int]


class TrainingWriter(LanesWriter):
    """Statements about vectors of records, which share their parameters.

    The numbers of `places` stand in other arrays than the graph says.
    """

    def __init__(
        self,
        graph: Graph,
        outputs: Sequence[Node],
        tables: Tables,
        places: dict[str, str] | None = None,
        into: dict[Node, str] | None = None,
    ):
        self._places = places or {}
        self._into = into or {}
        super().__init__(graph, outputs, tables)

    def expression(self, node: Node) -> Expression:
        """A number that has been computed or given."""
        if node.op == "elem" and node.args[0].op == "input" and node.args[0].attr.shared:
            return self._entry(node.args[0], node.attr)
        return super().expression(node)

    def _entry(self, vector: Node, offset: int, index: str = "") -> Expression:
        made = super()._entry(vector, offset, index)
        if vector.op == "input" and vector.attr.shared:
            return Expression(f"SW_ALL({made.text})", NAME)
        return made

    def _array(self, node: Node) -> tuple[str, int, frozenset[Array]]:
        if node.op == "input":
            name = node.attr.name
            return self._places.get(name, name), 0, NO_ARRAYS
        if node in self._into:
            return self._into[node], 0, NO_ARRAYS
        return super()._array(node)

    def _write_shared_product(self, node: Node, depth: int) -> None:
        rows, columns, first, (across, along), offset = node.attr
        weights, vector = node.args
        start = self.vector(vector, offset)
        if node not in self._into:
            self._declare(node, depth)
        self.operations += 2 * rows * columns
        result = self.vector(node)
        text = (
            f"sw_product({weights.attr.name} + {first}, {across}, {along}, {start.text}, "
            f"{result.text}, {rows}, {columns});"
        )
        self._line(depth, text, start.arrays | result.arrays)

    def put(self, target: str, nodes: Sequence[Node]) -> list[Statement]:
        """Statements that put numbers one after the other into an array."""
        made: list[Statement] = []
        start = 0
        while start < len(nodes):
            end = start + 1
            while end < len(nodes) and in_order(nodes[start : end + 1]) is not None:
                end += 1
            part = list(nodes[start:end])
            vector = in_order(part) if len(part) > 1 else None
            if vector is None or vector not in self._into:
                made += self.stores(f"({target} + {start})", True, part)
            start = end
        return made


def training_source(made: TrainingProgram) -> TrainingSource:
    """The C of a training, in one precision."""
    tables = Tables(made.dtype)
    read = _read_of_carry(made)
    kept_carry = [i for i, part in enumerate(made.carry) if i in read]
    places, size = {}, 0
    copies = []
    for i in kept_carry:
        part = made.carry[i]
        places[f"({CARRY} + {part.first})"] = f"({KEPT} + {size})"
        copies.append((part.first, size, part.size))
        size += part.size
    n_products = sum(p.rows * p.columns for p in made.products)
    first = 0
    for p in made.products:
        places[f"({KEPT}_products + {first})"] = f"({KEPT} + {size + first})"
        first += p.rows * p.columns
    into = _into(made.forward.results[KEPT], size)
    writers = {"forward": TrainingWriter(*_given(made.forward), tables, {}, into)}
    if made.recover is not None:
        writers["recover"] = TrainingWriter(*_given(made.recover), tables)
    writers["reverse"] = TrainingWriter(*_given(made.reverse), tables, places)

    bodies = {}
    forward = writers["forward"]
    results = made.forward.results
    end = forward.put("carry_new", results["carry_new"]) + forward.put("saved", results["saved"])
    end += forward.put(f"({KEPT} + {size})", results[KEPT])
    end += [
        Statement(1, f"memcpy({KEPT} + {to}, {CARRY} + {at}, {n} * sizeof(sw_lanes));")
        for at, to, n in copies
    ]
    if made.recover is not None:
        flags = {
            name: ", ".join(forward.lasting(node).text for node in results[name])
            for name in ("due", "measured", "usable", "finite")
        }
        end += [Statement(0, line) for line in RECOVER_CALL.format(**flags).splitlines()]
    restarted = size + n_products
    if made.restarts is not None:
        at = made.carry[made.restarts].first
        same = f"SW_FLAGS(carry_new[{at}] == carry[{at}])"
        end.append(
            Statement(1, f"{KEPT}[{restarted}] = (sw_lanes)({same});")
        )
    bodies["forward"] = [*forward.statements, *end]
    if made.recover is not None:
        writer = writers["recover"]
        stores = _chosen(writer, made.recover.results["recovered"])
        bodies["recover"] = [*writer.statements, *stores]
    writer, results = writers["reverse"], made.reverse.results
    stores = writer.put("bar_new", results["bar_new"])
    trained = [
        i
        for part, flag in zip(made.parameters, made.trained, strict=True)
        for i in range(part.first, part.last)
        if flag
    ]
    summed = []
    for i, node in zip(trained, results["by_parameters"], strict=True):
        if node.op != "const":
            value = writer.expression(node)
            text = f"by_parameters[{len(summed)}] += {value.text};"
            stores.append(Statement(1, text, value.arrays))
            summed.append(i)
    stores += writer.put("vectors", results["vectors"])
    stores += writer.put("by_products", results["by_products"])
    bodies["reverse"] = [*writer.statements, *stores]

    used = set().union(*(w.used for w in writers.values()))
    texts = []
    for name in ("recover", "forward", "reverse"):
        if name in bodies:
            body = [line.replace("sw_real v", "sw_lanes v") for line in shared(bodies[name]).lines]
            texts.append(_function(name, [for_one(line) for line in body]))
    sizes = {
        "Z": made.n_z,
        "U": made.n_u,
        "PARAMETERS": made.parameters[-1].last if made.parameters else 0,
        "TRAINED": len(summed),
        "CARRY": made.carry[-1].last,
        "SAVED": made.saved[-1].last,
        "KEPT": restarted + (made.restarts is not None),
        "KEPT_PRODUCTS": size,
        "RESTARTED": restarted if made.restarts is not None else -1,
        "VECTORS": sum(p.inner * p.columns for p in made.products),
        "RESULTS": n_products,
    }
    code = [
        '#include "sagewing_training.h"\n',
        "#define SW_PIECE __attribute__((noinline))\n",
        functions(used, made.dtype),
        for_one(tables.text()),
        *texts,
    ]
    operations = {name: w.operations for name, w in writers.items()}
    return TrainingSource(_header(made, sizes, summed), "".join(code), sizes, operations)


def _function(name: str, body: Sequence[str]) -> str:
    """A function, in pieces."""
    pieces = in_pieces(body)
    signature = SIGNATURES[name]
    names = re.findall(r"(\w+)[,)]", signature)
    unused = "".join(f"    (void){n};\n" for n in names)
    if len(pieces.bodies) == 1:
        text = "".join(f"{line}\n" for line in body)
        return f"\n{signature}\n{{\n{unused}{text}}}\n"
    texts, calls = [], []
    for i, lines in enumerate(pieces.bodies):
        inner = re.sub(r"^(static )?void (\w+)", f"static SW_PIECE void \\2_{i}", signature)
        inner = inner.removesuffix(")") + PIECE_ARGUMENTS
        text = "".join(f"{line}\n" for line in lines)
        texts.append(f"\n{inner}\n{{\n{unused}    (void)memory;\n    (void)flags;\n{text}}}\n")
        called = re.search(r"void (\w+)_\d+\(", inner).group(1)
        calls.append(f"    {called}_{i}({', '.join(names)}, memory, flags);\n")
    memory = f"    sw_lanes memory[{max(pieces.memory, 1)}];\n"
    memory += f"    sw_ints flags[{max(pieces.flags, 1)}];\n"
    return "".join(texts) + f"\n{signature}\n{{\n{memory}{''.join(calls)}}}\n"


def _given(one: Pass) -> tuple[Graph, list[Node]]:
    return one.graph, one.outputs()


def _into(nodes: Sequence[Node], first: int) -> dict[Node, str]:
    """The arrays of products whose entries are all kept in order, where they are kept."""
    made: dict[Node, str] = {}
    i = 0
    while i < len(nodes):
        vector = nodes[i].args[0] if nodes[i].op == "elem" else None
        if vector is None or vector.op != "product" or vector in made:
            i += 1
            continue
        rows = vector.attr[0]
        if [n.args for n in nodes[i : i + rows]] == [(vector,)] * rows and nodes[i].attr == 0:
            made[vector] = f"({KEPT} + {first + i})"
        i += rows
    return made


def _read_of_carry(made: TrainingProgram) -> set[int]:
    """The arrays of the state that the derivative reads."""
    names = {f"({CARRY} + {part.first})": i for i, part in enumerate(made.carry)}
    needed: set[Node] = set()
    stack = made.reverse.outputs()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.args
    return {
        names[node.attr.name]
        for node in needed
        if node.op == "input" and node.attr.name in names
    }


def _chosen(writer: TrainingWriter, nodes: Sequence[Node]) -> list[Statement]:
    """Stores into the new state, in the lanes that recover."""
    stores = []
    for i, node in enumerate(nodes):
        value = writer.lasting(node)
        chosen = writer.notation.choice("real").format("due", value.text, f"carry_new[{i}]")
        if value.text != f"carry_new[{i}]":
            stores.append(Statement(1, f"carry_new[{i}] = {chosen};", value.arrays))
    return stores


def _header(made: TrainingProgram, sizes: dict[str, int], summed: Sequence[int]) -> str:
    double = made.dtype == np.float64
    enums = "".join(f"    SW_{name} = {size},\n" for name, size in sizes.items())
    rows = "".join(
        f"    {{{made.parameters[p.weights].first if made.trained[p.weights] else -1}, "
        f"{p.rows}, {p.inner}, {p.columns}}}, \\\n"
        for p in made.products
    )
    return "\n".join(
        [
            "#ifndef SAGEWING_TRAINING_H",
            "#define SAGEWING_TRAINING_H",
            *(["#define SW_DOUBLE"] if double else []),
            f"typedef {'double' if double else 'float'} sw_real;",
            "#define SW_RECORDS",
            '#include "lanes.h"',
            '#include "products.h"\n',
            f"enum {{\n{enums}}};",
            f"#define SW_PRODUCTS {{ \\\n{rows}    {{0, 0, 0, 0}}}}",
            f"#define SW_PLACES {{ {', '.join(map(str, [*summed, 0]))} }}",
            f"{SIGNATURES['forward']};",
            f"{SIGNATURES['reverse']};",
            "#endif\n",
        ]
    )
