"""Many records at once: the step of a filter on vectors, a record in each lane.

The statements are those of `c99.py`, but a number is a vector of GNU C, both sides of a branch are
computed, and a choice takes each lane from its own side.
"""

from typing import Any

import numpy as np

from sagewing.codegen.c99 import Source
from sagewing.codegen.commit import Store, commit, told
from sagewing.codegen.emit import Writer
from sagewing.codegen.expressions import BINDING, CASTS, COMPARED, TIGHT, integer
from sagewing.codegen.graph import Node
from sagewing.codegen.header import NAME, declarations, place
from sagewing.codegen.helpers import prelude
from sagewing.codegen.operations import BITS, OPERATIONS, Kind
from sagewing.codegen.precision import alone
from sagewing.codegen.program import Field, Function, Program, program
from sagewing.codegen.tables import Tables

TYPES: dict[Kind, str] = {
    "real": "sw_lanes",
    **dict.fromkeys(("int", "long", "bool"), "sw_ints"),
}
# What stands in lanes.h; other functions are lifted from those of numbers.
OWN = {
    *("fabs", "max", "min", "select", "choose", "finite", "all_finite"),
    *("of_flags", "of_ints", "matvec"),
}
DIVISIONS = {"quotient", "remainder", "quotient_of_longs", "remainder_of_longs"}
BINARY = {"atan2", "pow", "fmod", *DIVISIONS}
CHOICE = "sw_lanes_select({0}, {1}, {2})"
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

    types = TYPES

    def _whole(self, kind: Kind, sign: str, a: str, b: str) -> tuple[str, int]:
        kept = "SW_WHOLE" if kind == "int" else "(sw_ints)"  # a lane of double has 64 bits
        a = "(sw_uints){0}" if a == "0" else f"(sw_uints){a}"
        return f"({kept}({a} {sign} (sw_uints){b}))", TIGHT

    def _written(self, node: Node) -> tuple[str, int, tuple[int, ...]]:
        """Comparisons and choices are those of bits; all else is as with numbers."""
        op, free = node.op, (0,) * len(node.args)
        if op in ("and", "or"):
            return f"({{0}} {'&' if op == 'and' else '|'} {{1}})", TIGHT, (9, 9)
        if op == "not":
            return "~{0}", *BINDING["not"]
        if op == "select" and node.kind != "real":
            return "sw_lanes_choose({0}, {1}, {2})", TIGHT, free
        if op == "select":
            return self._operation(op), TIGHT, free
        if op == "to_real":
            name = "of_flags" if node.args[0].kind == "bool" else "of_ints"
            return f"sw_lanes_{name}({{0}})", TIGHT, free
        if op in CASTS and node.args[0].kind != "real":
            texts = {"bool": "(-{0})", "int": "({0})", "long": "SW_WHOLE((sw_uints){0})"}
            return texts[node.args[0].kind], TIGHT, (9,)
        text, own, needed = super()._written(node)
        if "real" in (OPERATIONS[op].kind, *(a.kind for a in node.args)):
            # C turns whole numbers among real ones into such by itself, but not vectors of them
            made = {"real": "{}", "bool": "sw_lanes_of_flags({})"}
            made |= dict.fromkeys(BITS, "sw_lanes_of_ints({})")
            places = [made[a.kind].format(f"{{{i}}}") for i, a in enumerate(node.args)]
            text = text.format(*places)
        if BINDING.get(op) is COMPARED:
            return f"(sw_ints)({text})", TIGHT, needed
        return text, own, needed

    def _operation(self, op: str) -> str:
        if op in ("is_finite", "select"):
            return {"is_finite": "sw_lanes_finite({0})", "select": CHOICE}[op]
        return super()._operation(op).replace("sw_", "sw_lanes_")

    def _in_loop(self, op: str) -> str:
        return self._operation(op)

    def _chosen(self, node: Node, sign: str, a: str, b: str) -> tuple[str, int]:
        name = "select" if node.kind == "real" else "choose"
        return f"sw_lanes_{name}((sw_ints)({a} {sign} {b}), {a}, {b})", TIGHT

    def _constant(self, node: Node) -> str:
        if node.kind == "real":
            return f"SW_ALL({super()._constant(node)})"
        return f"SW_ALL_INTS({integer(-int(node.attr) if node.kind == 'bool' else node.attr)})"

    def _entry(self, vector: Node, offset: int, index: str = "") -> str:
        text = super()._entry(vector, offset, index)
        return f"SW_ALL({text})" if vector.op == "table" else text

    def all_finite(self, array: str, size: int) -> str:
        """Where all entries of an array are."""
        return f"sw_lanes_all_finite({array}, {size})"

    def _product(self, rows: int, columns: int) -> tuple[str, str]:
        return "sw_lanes_matvec", f"{rows}, {columns}"

    def _write_branch(self, node: Node, depth: int) -> None:
        """Both sides, and then the choice."""
        index, sides = node.args[0], self._place.sides[node]
        flag = self._named(index)
        outs = []
        for side, region in enumerate(sides):
            outs.append(self._place.side(node, side))
            self._schedule(outs[-1], region, depth)
        for i, column in zip(self._place.outputs(node), zip(*outs, strict=True), strict=True):
            kind = column[0].kind
            choose = "sw_lanes_select" if kind == "real" else "sw_lanes_choose"
            text = self._operand(column[-1], 0)
            for side in reversed(range(len(column) - 1)):
                test = f"(sw_ints)({flag} <= {side})" if index.kind == "int" else f"~{flag}"
                text = f"{choose}({test}, {self._operand(column[side], 0)}, {text})"
            self._line(depth, f"const {self.types[kind]} {self._name(node)}_{i} = {text};")


def lanes(filt: Any, n_u: int, dtype: Any) -> Source:
    """The C that steps many records of a filter at once, in one precision."""
    # A loop over rows would only make vectors of vectors, and these are no faster
    made, tables = program(filt, n_u, dtype, rows=False), Tables(np.dtype(dtype))
    writer = LanesWriter(made.step.graph, made.step.outputs(), tables)
    end, of_state = _end(made, writer)
    text = "".join(f"{line}\n" for line in (*writer.lines, *end))
    recovers, used = _recovering(made, tables)
    code = [
        f'#include "{NAME}.h"\n\n',
        functions(writer.used | used, np.dtype(dtype)),
        alone(tables.text()),
        alone(recovers),
        STEP,
        alone(text),
        "}\n",
        _copies(made, of_state),
    ]
    return Source(_header(made, dtype), "".join(code), made, writer.cost.operations, "lanes")


def _end(made: Program, writer: LanesWriter) -> tuple[list[str], dict[str, str]]:
    """Keep the new state where it is one, and say the estimate; what of it is the state's."""
    said = told(made, made.step, writer)
    last = commit(writer, made.state, [list(value.ravel()) for value in made.step.state])
    recovering = _call(made.step, writer)
    # What is written here may stand on the old state, which the commit replaces
    lines = [
        *said.stores,
        f"const sw_ints ok = {said.ok};",
        f"const sw_ints kept = goes & {last.test or 'goes'};",
    ]
    lines += [_stored(store, "kept") for store in last.stores]
    lines += ["estimate->ok = ok & kept;", *recovering]
    return ["    " + line for line in lines], said.of_state


def _stored(store: Store, flag: str) -> str:
    """A store, in the lanes where the flag is set."""
    name = "select" if store.kind == "real" else "choose"
    if store.size is None:
        new, at = store.value, store.target
        return f"{at} = sw_lanes_{name}({flag}, {new}, {at});"
    new, at = f"({store.value})[i]", f"{store.target}[i]"
    return f"for (int i = 0; i < {store.size}; ++i) {at} = sw_lanes_{name}({flag}, {new}, {at});"


def _call(step: Function, writer: LanesWriter) -> list[str]:
    """The call of `recover`; a state that was not kept has failed, unless its dt was refused."""
    if not step.recovery:
        return []
    due, arrived, kept, finite = (
        [writer.named(node) for node in value.ravel()] for value in step.recovery
    )
    return [
        f"const sw_ints due = goes & ({due[0]} | ~kept);",
        "if (sw_lanes_any(due)) {",
        f"    const sw_ints measured_now[] = {{{', '.join(arrived)}}};",
        f"    const sw_ints kept_now[] = {{{', '.join(kept)}}};",
        f"    recover(state, due, measured_now, kept_now, kept & {finite[0]});",
        "}",
    ]


def _recovering(made: Program, tables: Tables) -> tuple[str, set[str]]:
    """The function that recovers, and the names that it uses; a record without need stays."""
    if made.recover is None:
        return "", set()
    writer = LanesWriter(made.recover.graph, made.recover.outputs(), tables)
    last = commit(writer, made.state, [list(value.ravel()) for value in made.recover.state])
    lines = [*writer.lines, *("    " + _stored(store, "due") for store in last.stores)]
    return RECOVER + "".join(f"{line}\n" for line in lines) + "}\n", writer.used


def functions(names: set[str], dtype: np.dtype) -> str:
    """The functions of these names that are not in lanes.h: those of numbers, in every lane."""
    used = {name.removeprefix("sw_").removeprefix("lanes_") for name in names}
    lifted = sorted(used - OWN - ({"log"} if dtype == np.float32 else set()))
    return prelude({f"sw_{name}" for name in lifted}) + "".join(_lift(name) for name in lifted)


def _lift(name: str) -> str:
    kind = "sw_ints" if name in DIVISIONS else "sw_lanes"
    result = "sw_ints" if name in CASTS else kind
    lift = "SW_LIFT2" if name in BINARY else "SW_LIFT"
    return f"{lift}(sw_lanes_{name}, {result}, sw_{name}, {kind})\n"


def _header(made: Program, dtype: Any) -> str:
    """The types of numbers, those of lanes, and the functions."""
    structs = ""
    for name, fields in (("sw_lanes_state", made.state), ("sw_lanes_estimate", made.estimate)):
        members = [f"    {TYPES[f.kind]} {place('', f, sizes=True)};\n" for f in fields]
        structs += f"typedef struct {{\n{''.join(members)}}} {name};\n\n"
    return "\n".join(
        [
            "#ifndef SAGEWING_FILTER_H",
            "#define SAGEWING_FILTER_H",
            *(["#define SW_DOUBLE"] if np.dtype(dtype) == np.float64 else []),
            declarations(made, np.dtype(dtype)),
            '#include "lanes.h"\n',
            structs + PROTOTYPES,
            "#endif\n",
        ]
    )


def _copies(made: Program, of_state: dict[str, str]) -> str:
    """Between the lanes and the structs of single records."""
    load, store, say, _ = PROTOTYPES.split(";\n", 3)
    said = {
        f.name: f"state->{of_state[f.name]}" if f.name in of_state else f"estimate->{f.name}"
        for f in made.estimate
    }
    bodies = {
        load: [_copy(f, f"state->{f.name}", f"from->{f.name}", into=True) for f in made.state],
        store: [_copy(f, f"state->{f.name}", f"to->{f.name}") for f in made.state],
        say: [_copy(f, said[f.name], f"to->{f.name}") for f in made.estimate],
    }
    return "".join(
        f"\n{head}\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
        for head, lines in bodies.items()
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
