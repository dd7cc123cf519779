"""Many records at once: the step of a filter on vectors, a record in each lane.

The statements are those of `c99.py`, but a number is a vector of GNU C, both sides of a branch are
computed, and a choice takes each lane from its own side.
"""

from typing import Any

import numpy as np

from sagewing.codegen.c99 import CSource
from sagewing.codegen.expressions import CALL, NAME, Expression, arrays_of
from sagewing.codegen.fields import Field
from sagewing.codegen.graph import Node
from sagewing.codegen.header import NAME as FILE_NAME
from sagewing.codegen.header import declarations, member
from sagewing.codegen.helpers import prelude
from sagewing.codegen.lanes_notation import TYPES, LanesNotation
from sagewing.codegen.memory import Statement, lines
from sagewing.codegen.notation import CASTS
from sagewing.codegen.precision import for_one
from sagewing.codegen.program import Program, StructLayout, program
from sagewing.codegen.step_end import StateStore, recover_call, state_update, step_end
from sagewing.codegen.tables import Tables
from sagewing.codegen.writer import Writer
from sagewing.filters.protocols import Filter

# Functions in lanes.h; the others apply a function of numbers in every lane.
OWN = {
    *("fabs", "max", "min", "select", "choose", "finite", "all_finite"),
    *("of_flags", "of_ints", "matvec"),
}
DIVISIONS = {"quotient", "remainder", "quotient_of_longs", "remainder_of_longs"}
BINARY = {"atan2", "pow", "fmod", *DIVISIONS}
STEP = """
void sw_lanes_step(sw_lanes_state *state, const sw_lanes *measured, const sw_lanes *u, sw_lanes dt,
                   sw_lanes_estimate *estimate)
{
    const sw_lanes_state *const s = state;
    (void)u;
    const sw_ints goes = (sw_ints)(dt >= 0) & (sw_ints)(dt < SW_INF);
    sw_lanes z[SW_NZ];
    sw_ints arrived[SW_NZ];
    for (int i = 0; i < SW_NZ; ++i) {
        arrived[i] = sw_lanes_finite(measured[i]);
        z[i] = sw_lanes_select(arrived[i], measured[i], (sw_lanes){0});
    }
"""
RECOVER = """
static void recover(sw_lanes_state *state, sw_ints due, const sw_ints *arrived,
                    const sw_ints *kept, sw_ints finite)
{
    const sw_lanes_state *const s = state;
    (void)arrived;
"""
PROTOTYPES = """\
void sw_lanes_load(sw_lanes_state *state, const sw_state *from, int lane);
void sw_lanes_store(const sw_lanes_state *state, sw_state *to, int lane);
void sw_lanes_say(const sw_lanes_state *state, const sw_lanes_estimate *estimate, sw_estimate *to,
                  int lane);
void sw_lanes_step(sw_lanes_state *state, const sw_lanes *measured, const sw_lanes *u, sw_lanes dt,
                   sw_lanes_estimate *estimate);
"""


class LanesWriter(Writer):
    """Statements about vectors of records."""

    notation = LanesNotation()

    def _write_branch(self, node: Node, depth: int) -> None:
        """The side of a flag that is set, and the other one if it is not set in some lane.

        The first is that of numbers as they should be. Of more than two sides all are computed.
        """
        index, sides = node.args[0], self._place.sides[node]
        flag = self._named(index)
        if index.kind != "bool":
            return self._write_choice(node, flag, depth)
        self._schedule(self._place.side(node, 1), sides[1], depth)
        places = self._place.outputs(node)
        for i, out in zip(places, self._place.side(node, 1), strict=True):
            name = f"{self.notation.types[out.kind]} {self._name(node)}_{i}"
            self._assign(depth, Expression(name, NAME), self.expression(out))
        self._line(depth, f"if (sw_lanes_any(~{flag.text})) {{", flag.arrays)
        self._schedule(self._place.side(node, 0), sides[0], depth + 1)
        for i, out in zip(places, self._place.side(node, 0), strict=True):
            name = f"{self._name(node)}_{i}"
            other = self.expression(out)
            chosen = self.notation.choice(out.kind).format(flag.text, name, other.text)
            value = Expression(chosen, CALL, arrays_of([flag, other]))
            self._assign(depth + 1, Expression(name, NAME), value)
        self._line(depth, "}")
        return None

    def _write_choice(self, node: Node, index: Expression, depth: int) -> None:
        outs = []
        for side, region in enumerate(self._place.sides[node]):
            outs.append(self._place.side(node, side))
            self._schedule(outs[-1], region, depth)
        for i, column in zip(self._place.outputs(node), zip(*outs, strict=True), strict=True):
            kind = column[0].kind
            chosen = self.expression(column[-1])
            for side in reversed(range(len(column) - 1)):
                one = self.expression(column[side])
                test = f"SW_FLAGS({index.text} <= {side})"
                text = self.notation.choice(kind).format(test, one.text, chosen.text)
                chosen = Expression(text, CALL, arrays_of([index, one, chosen]))
            name = f"const {self.notation.types[kind]} {self._name(node)}_{i}"
            self._assign(depth, Expression(name, NAME), chosen)


def lanes_source(filt: Filter, n_u: int, dtype: Any) -> CSource:
    """The C that steps many records of a filter at once, in one precision."""
    # A loop over rows would only make vectors of vectors, and these are no faster
    made, tables = program(filt, n_u, dtype, row_loops=False), Tables(np.dtype(dtype))
    writer = LanesWriter(made.step.graph, made.step.outputs(), tables)
    end, in_state = _end(made, writer)
    step = lines([*writer.statements, *end])
    recover, used = _recover(made, tables)
    code = [
        f'#include "{FILE_NAME}.h"\n\n',
        functions(writer.used | used, np.dtype(dtype)),
        for_one(tables.text()),
        for_one(recover),
        STEP,
        for_one("".join(f"{line}\n" for line in step)),
        "}\n",
        _copies(made.layout, in_state),
    ]
    return CSource(
        _header(made.layout, dtype), "".join(code), made.layout, writer.cost.operations, "lanes"
    )


def _end(made: Program, writer: Writer) -> tuple[list[Statement], dict[str, str]]:
    """Keep the new state in the lanes where it is finite, and write the estimate.

    Also which members of the estimate stand in the new state.
    """
    estimate, update, recover = step_end(made.layout, made.step, writer)
    ok, test = estimate.ok, update.test or Expression("goes", NAME)
    call = []
    if recover is not None:
        opening = [
            f"const sw_ints due = goes & ({recover.due} | ~kept);",
            "if (sw_lanes_any(due)) {",
        ]
        call = recover_call(recover, "sw_ints", opening, "state, due", "&")
    statements = [
        *estimate.stores,
        Statement(1, f"const sw_ints ok = {ok.text};", ok.arrays),
        Statement(1, f"const sw_ints kept = goes & {test.text};", test.arrays),
        *(_stored(store, "kept") for store in update.stores),
        Statement(1, "estimate->ok = ok & kept;"),
        *call,
    ]
    return statements, estimate.in_state


def _stored(store: StateStore, flag: str) -> Statement:
    """A store, in the lanes where the flag is set."""
    value, target, loop = store.value.text, store.target, ""
    if store.size is not None:
        value, target = f"({value})[i]", f"{target}[i]"
        loop = f"for (int i = 0; i < {store.size}; ++i) "
    chosen = LanesNotation().choice(store.kind).format(flag, value, target)
    return Statement(1, f"{loop}{target} = {chosen};", store.value.arrays)


def _recover(made: Program, tables: Tables) -> tuple[str, set[str]]:
    """The function that recovers, and the helpers that it calls; it changes the lanes in need."""
    if made.recover is None:
        return "", set()
    writer = LanesWriter(made.recover.graph, made.recover.outputs(), tables)
    stores = state_update(writer, made.layout.state, made.recover.state).stores
    body = lines([*writer.statements, *(_stored(store, "due") for store in stores)])
    return RECOVER + "".join(f"{line}\n" for line in body) + "}\n", writer.used


def functions(names: set[str], dtype: np.dtype) -> str:
    """The functions of these names that are not in lanes.h: those of numbers, in every lane."""
    names = lifted(names, dtype)
    return prelude(names) + lifts(names)


def lifted(names: set[str], dtype: np.dtype) -> set[str]:
    """The functions of numbers that these functions of lanes call."""
    used = {name.removeprefix("sw_").removeprefix("lanes_") for name in names}
    return {f"sw_{name}" for name in used - OWN - ({"log"} if dtype == np.float32 else set())}


def lifts(names: set[str]) -> str:
    """Functions of lanes that call these functions of numbers in every lane."""
    return "".join(_lift(name.removeprefix("sw_")) for name in sorted(names))


def _lift(name: str) -> str:
    kind = "sw_ints" if name in DIVISIONS else "sw_lanes"
    result = "sw_ints" if name in CASTS else kind
    lift = "SW_LIFT2" if name in BINARY else "SW_LIFT"
    return f"{lift}(sw_lanes_{name}, {result}, sw_{name}, {kind})\n"


def _header(made: StructLayout, dtype: Any) -> str:
    """The types of numbers, those of lanes, and the functions."""
    structs = ""
    for name, fields in (("sw_lanes_state", made.state), ("sw_lanes_estimate", made.estimate)):
        members = [f"    {member(TYPES, field)};\n" for field in fields]
        structs += f"typedef struct {{\n{''.join(members)}}} {name};\n\n"
    return "\n".join(
        [
            "#ifndef SAGEWING_FILTER_H",
            "#define SAGEWING_FILTER_H",
            *(["#define SW_DOUBLE"] if np.dtype(dtype) == np.float64 else []),
            declarations(made, np.dtype(dtype)),
            "#define SW_RECORDS",
            '#include "lanes.h"\n',
            structs + PROTOTYPES,
            "#endif\n",
        ]
    )


def _copies(made: StructLayout, in_state: dict[str, str]) -> str:
    """Between the lanes and the structs of single records."""
    load, store, say, _ = PROTOTYPES.split(";\n", 3)
    places = {
        f.name: f"state->{in_state[f.name]}" if f.name in in_state else f"estimate->{f.name}"
        for f in made.estimate
    }
    bodies = {
        load: [_copy(f, f"state->{f.name}", f"from->{f.name}", into=True) for f in made.state],
        store: [_copy(f, f"state->{f.name}", f"to->{f.name}") for f in made.state],
        say: [_copy(f, places[f.name], f"to->{f.name}") for f in made.estimate],
    }
    return "".join(
        f"\n{head}\n{{\n" + "".join(f"    {line}\n" for line in copies) + "}\n"
        for head, copies in bodies.items()
    )


def _copy(field: Field, lanes: str, number: str, into: bool = False) -> str:
    index, loop = "", ""
    if field.shape:
        index, loop = "[i]", f"for (int i = 0; i < {field.size}; ++i) "
    lane, number = f"{lanes}{index}[lane]", number + index
    if into:
        return f"{loop}{lane} = {f'-({number} != 0)' if field.kind == 'bool' else number};"
    value = {"real": lane, "int": f"(int){lane}", "bool": f"{lane} != 0"}[field.kind]
    return f"{loop}{number} = {value};"
