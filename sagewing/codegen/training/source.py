"""The C of a training: a step and its derivative for many records at once, one in each lane."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagewing.codegen.graph import Node
from sagewing.codegen.lanes import functions
from sagewing.codegen.memory import Statement, shared
from sagewing.codegen.precision import for_one
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.tables import Tables
from sagewing.codegen.training.parts import size
from sagewing.codegen.training.pieces import in_pieces
from sagewing.codegen.training.program import CARRY, KEPT, RESULTS, TrainingProgram
from sagewing.codegen.training.writer import TrainingWriter

NAME = "sagewing_training"
# More characters of C take a compiler too long: about 20 s for a million.
LONGEST = 3_000_000
SIGNATURES = {
    "recover": (
        "static void sw_recover(const sw_real *restrict parameters, sw_lanes *restrict carry_new,\n"
        "                       sw_ints due, const sw_ints *measured, const sw_ints *usable,\n"
        "                       sw_ints finite)"
    ),
    "forward": (
        "void sw_forward(const sw_real *restrict parameters, const sw_lanes *restrict carry,\n"
        "                const sw_lanes *restrict z, const sw_ints *restrict arrived,\n"
        "                const sw_lanes *restrict u, sw_lanes dt, sw_lanes *restrict carry_new,\n"
        "                sw_lanes *restrict saved, sw_lanes *restrict kept)"
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
# With -O1 gcc takes half as long for the pieces, which have nothing to vectorise, as with -O3. The
# functions of lanes have: they are compiled with -O3, and called.
HEAD = """\
#define SW_INLINE static inline __attribute__((always_inline, unused))
#include "sagewing_training.h"
#undef SW_INLINE
#define SW_INLINE static __attribute__((noinline, unused))
#define SW_PIECE static __attribute__((noinline)) void
"""
PIECES = """\

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1")
#endif
"""
RECOVER_CALL = """\
    if (sw_lanes_any({due})) {{
        const sw_ints measured[] = {{{measured}}}, usable[] = {{{usable}}};
        sw_recover(parameters, carry_new, {due}, measured, usable, {finite});
    }}
"""


class TrainingSource(NamedTuple):
    """The texts of `sagewing_training.h` and `.c`, and the sizes of the arrays of a step."""

    header: str
    code: str
    sizes: dict[str, int]


class KeptLayout(NamedTuple):
    """What the forward pass keeps of a step: arrays of the state, then the products' results.

    `copies` are the places of the first, in the state and here, with their sizes. `places` are
    the names of the arguments of the derivative that are kept, with where they are.
    """

    copies: list[tuple[int, int, int]]
    places: dict[str, str]
    products: int
    restarted: int


def training_source(made: TrainingProgram) -> TrainingSource:
    """The C of a training, in one precision."""
    tables, kept = Tables(made.layout.dtype), _kept(made)
    into = _into(made.forward.results[KEPT], kept.products)
    writers = {
        "recover": TrainingWriter(made.recover, tables) if made.recover is not None else None,
        "forward": TrainingWriter(made.forward, tables, {}, into),
        "reverse": TrainingWriter(made.reverse, tables, kept.places),
    }
    ends = {"recover": _recover_end, "forward": _forward_end, "reverse": _reverse_end}
    texts, used = [], set()
    for name, writer in writers.items():
        if writer is not None:
            end = ends[name](made, kept, writer)  # may add statements to those of the writer
            body = shared([*writer.statements, *end], "sw_lanes").lines
            texts.append(_function(SIGNATURES[name], [for_one(line) for line in body]))
            used |= writer.used
    code = [HEAD, functions(used, made.layout.dtype), PIECES, for_one(tables.text()), *texts]
    if sum(map(len, code)) > LONGEST:
        raise NotInC("The derivative of this filter is too long for a C compiler.")
    sizes = _sizes(made, kept)
    return TrainingSource(_header(made, sizes), "".join(code), sizes)


def _kept(made: TrainingProgram) -> KeptLayout:
    names = {f"({CARRY} + {part.first})": part for part in made.layout.carry}
    read = _inputs(made.reverse.outputs())
    copies, places, at = [], {}, 0
    for name, part in names.items():
        if name in read:
            places[name] = f"({KEPT} + {at})"
            copies.append((part.first, at, part.size))
            at += part.size
    products = at
    for p in made.layout.products:
        places[f"({RESULTS} + {at - products})"] = f"({KEPT} + {at})"
        at += p.rows * p.columns
    return KeptLayout(copies, places, products, at)


def _inputs(outputs: Sequence[Node]) -> set[str]:
    """The names of the arguments that some numbers depend on."""
    needed: set[Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.args
    return {node.attr.name for node in needed if node.op == "input"}


def _into(nodes: Sequence[Node], first: int) -> dict[Node, str]:
    """The products whose entries are all kept in order, with the place where they are kept."""
    made: dict[Node, str] = {}
    i = 0
    while i < len(nodes):
        vector = nodes[i].args[0] if nodes[i].op == "elem" else None
        rows = vector.attr[0] if vector is not None and vector.op == "product" else 0
        part = nodes[i : i + rows]
        whole = [(n.args, n.attr) for n in part] == [((vector,), k) for k in range(rows)]
        if vector is not None and rows and whole:
            made.setdefault(vector, f"({KEPT} + {first + i})")
        i += rows if rows and whole else 1
    return made


def _recover_end(
    made: TrainingProgram, kept: KeptLayout, writer: TrainingWriter
) -> list[Statement]:
    assert made.recover is not None
    return writer.chosen("carry_new", made.recover.results["recovered"], "due")


def _forward_end(
    made: TrainingProgram, kept: KeptLayout, writer: TrainingWriter
) -> list[Statement]:
    results = made.forward.results
    end = writer.put("carry_new", results["carry_new"]) + writer.put("saved", results["saved"])
    end += writer.put(f"({KEPT} + {kept.products})", results[KEPT])
    end += [
        Statement(1, f"memcpy({KEPT} + {to}, {CARRY} + {at}, {n} * sizeof(sw_lanes));")
        for at, to, n in kept.copies
    ]
    if made.layout.restarts is None:
        return end
    flags = {
        name: ", ".join(writer.lasting(node).text for node in results[name])
        for name in ("due", "measured", "usable", "finite")
    }
    call = [Statement(0, line) for line in RECOVER_CALL.format(**flags).splitlines()]
    at = made.layout.restarts
    same = f"SW_FLAGS(carry_new[{at}] == {CARRY}[{at}])"
    return [*end, *call, Statement(1, f"{KEPT}[{kept.restarted}] = (sw_lanes)({same});")]


def _reverse_end(
    made: TrainingProgram, kept: KeptLayout, writer: TrainingWriter
) -> list[Statement]:
    results = made.reverse.results
    end = writer.put("bar_new", results["bar_new"])
    end += writer.added("by_parameters", results["by_parameters"])
    end += writer.put("vectors", results["vectors"])
    return end + writer.put("by_products", results["by_products"])


def _function(signature: str, body: Sequence[str]) -> str:
    """A function, in pieces if it is long."""
    made = in_pieces(body)
    names = re.findall(r"(\w+)[,)]", signature)
    unused = "".join(f"    (void){name};\n" for name in names)
    if len(made.bodies) == 1:
        return f"\n{signature}\n{{\n{unused}{_lines(body)}}}\n"
    texts, calls = [], []
    start = re.match(r"(?:static )?void (\w+)\(", signature)
    assert start is not None
    arguments = signature[start.end() :].removesuffix(")") + PIECE_ARGUMENTS
    for i, lines in enumerate(made.bodies):
        name = f"{start[1]}_{i}"
        head = f"{unused}    (void)memory;\n    (void)flags;\n"
        texts.append(f"\nSW_PIECE {name}({arguments}\n{{\n{head}{_lines(lines)}}}\n")
        calls.append(f"    {name}({', '.join(names)}, memory, flags);")
    memory = f"    sw_lanes memory[{made.memory + 1}];\n    sw_ints flags[{made.flags + 1}];\n"
    return "".join(texts) + f"\n{signature}\n{{\n{memory}{_lines(calls)}}}\n"


def _lines(body: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in body)


def _sizes(made: TrainingProgram, kept: KeptLayout) -> dict[str, int]:
    layout, recovers = made.layout, made.recover is not None
    return {
        "Z": layout.n_z,
        "U": layout.n_u,
        "PARAMETERS": size(layout.parameters),
        "SUMMED": len(made.summed),
        "CARRY": size(layout.carry),
        "SAVED": size(layout.saved),
        "KEPT": kept.restarted + recovers,
        "RESTARTED": kept.restarted if recovers else -1,
        "VECTORS": sum(p.inner * p.columns for p in layout.products),
        "RESULTS": kept.restarted - kept.products,
    }


def _header(made: TrainingProgram, sizes: dict[str, int]) -> str:
    layout = made.layout
    double = layout.dtype == np.float64
    enums = "".join(f"    SW_{name} = {number},\n" for name, number in sizes.items())
    rows = "".join(
        f"    {{{layout.parameters[p.weights].first if layout.trained[p.weights] else -1}, "
        f"{p.rows}, {p.inner}, {p.columns}}}, \\\n"
        for p in layout.products
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
            "/* Of each product the place of its weights, or -1, and its sizes. */",
            f"#define SW_PRODUCTS {{ \\\n{rows}    {{0, 0, 0, 0}}}}",
            "/* The parameters by which the derivatives are summed in lanes. */",
            f"#define SW_SUMMED_PLACES {{ {', '.join(map(str, [*made.summed, 0]))} }}\n",
            f"{SIGNATURES['forward']};",
            f"{SIGNATURES['reverse']};",
            "#endif\n",
        ]
    )
