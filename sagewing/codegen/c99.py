"""A filter as two C files that need nothing but libm."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sagewing.codegen.arrays import Value
from sagewing.codegen.graph import Graph
from sagewing.codegen.header import NAME, header
from sagewing.codegen.helpers import prelude
from sagewing.codegen.memory import Statement, lines, shared
from sagewing.codegen.notice import notice
from sagewing.codegen.precision import for_both, for_one
from sagewing.codegen.program import Function, Program, StructLayout, program
from sagewing.codegen.step_end import StateStore, recover_call, state_update, step_end
from sagewing.codegen.tables import Tables
from sagewing.codegen.writer import Cost, Writer
from sagewing.filters.protocols import Filter

SIGNATURES = {
    "init": "void sw_init(sw_state *state, const sw_real *x0, const sw_real *P0)",
    "recover": (
        "static void recover(sw_state *state, const int *arrived, const int *kept, int finite)"
    ),
    "step": (
        "int sw_step(sw_state *state, const sw_real *measured, const sw_real *u, sw_real dt,\n"
        "            sw_estimate *estimate)"
    ),
    "predict_only": (
        "int sw_predict_only(sw_state *state, const sw_real *u, sw_real dt, sw_estimate *estimate)"
    ),
}
ARRIVED = """\
    sw_real z[SW_NZ];
    int arrived[SW_NZ];
    for (int i = 0; i < SW_NZ; ++i) {
        arrived[i] = isfinite(measured[i]) != 0;
        z[i] = arrived[i] ? measured[i] : 0;
    }
"""


class CSource(NamedTuple):
    """The texts of `sagewing_filter.h` and `sagewing_filter.c`, and what a step costs at most.

    `calling` is the file of `runtime/calling/` through which Python calls it, `more` are the names
    and texts of further files that Python compiles with it.
    """

    header: str
    code: str
    layout: StructLayout
    operations: int
    calling: str = "records"
    more: tuple[tuple[str, str], ...] = ()


class Body(NamedTuple):
    """The lines of a function, what they cost, and the helpers that they call."""

    text: str
    cost: Cost
    used: set[str]


def filter_source(
    filt: Filter, n_u: int = 0, provenance: dict[str, Any] | None = None, dtype: Any = None
) -> CSource:
    """The C of a filter with inputs of this size: of one precision, or of both by -DSW_DOUBLE.

    The same filter gives the same bytes. `provenance` says where its learned part comes from.
    """
    dtypes = (np.float32, np.float64) if dtype is None else (dtype,)
    programs = [program(filt, n_u, kind) for kind in dtypes]
    tables = [Tables(np.dtype(kind)) for kind in dtypes]
    bodies = {
        name: [_body(name, p, t) for p, t in zip(programs, tables, strict=True)]
        for name in programs[0].functions()
    }
    used = [set().union(*(pair[i].used for pair in bodies.values())) for i in range(len(dtypes))]
    made, numbers = programs[-1], tables[-1]
    code = "".join(
        [
            f'#include "{NAME}.h"\n\n',
            "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n",
            prelude(used[0], used[-1]),
            in_precisions([table.text() for table in tables]),
            *(
                c_function(SIGNATURES[name], [body.text for body in pair])
                for name, pair in bodies.items()
            ),
        ]
    )
    costs = {name: pair[-1].cost for name, pair in bodies.items()}
    size = sum(array.size for array in numbers.arrays.values())
    top = notice(filt, provenance)
    head = top + header(made.layout, filt, costs, size, dtype)
    return CSource(head, top + code, made.layout, costs["step"].operations)


def c_function(signature: str, texts: Sequence[str]) -> str:
    """A function of one precision, or of both, by the texts of what is inside."""
    return f"\n{signature}\n{{\n{in_precisions(texts)}}}\n"


def in_precisions(texts: Sequence[str]) -> str:
    """The text of one precision, or of both."""
    return for_one(texts[0]) if len(texts) == 1 else for_both(*texts)


def _body(name: str, made: Program, tables: Tables) -> Body:
    """The inside of a function: what it checks, what it computes, what it stores."""
    function = made.functions()[name]
    if name == "init":
        values = {f"state->{field.name}": function.state[field.name] for field in made.layout.state}
        return storing_body(function.graph, values, tables)
    if name == "recover":
        return recover_body(function, made.layout, tables)
    return step_body(function, made.layout, tables, ARRIVED if name == "step" else "")


def storing_body(graph: Graph, values: Mapping[str, Value], tables: Tables) -> Body:
    """The inside of a function that stores values by their places, and reads none of these."""
    nodes = {place: list(value.ravel()) for place, value in values.items()}
    writer = Writer(graph, [node for each in nodes.values() for node in each], tables)
    end = [
        store
        for place, value in values.items()
        for store in writer.stores(place, bool(value.shape), nodes[place])
    ]
    body, saved = shared([*writer.statements, *end])
    cost = writer.cost._replace(numbers=writer.numbers - saved)
    return Body(_text(body), cost, writer.used)


def recover_body(function: Function, made: StructLayout, tables: Tables) -> Body:
    """The inside of `recover`."""
    writer = Writer(function.graph, function.outputs(), tables)
    stores = state_update(writer, made.state, function.state).stores
    head = ["    const sw_state *const s = state;", "    (void)arrived;"]
    body = lines([*writer.statements, *map(stored, stores)])
    return Body(_text([*head, *body]), writer.cost, writer.used)


def step_body(
    function: Function,
    made: StructLayout,
    tables: Tables,
    arrived: str,
    kept: Mapping[str, Value] | None = None,
    after: Sequence[Statement] = (),
) -> Body:
    """The inside of a step; `kept` are values that it stores in other places, too.

    `after` are the statements at its end, before it returns.
    """
    more = {place: list(value.ravel()) for place, value in (kept or {}).items()}
    outputs = [*function.outputs(), *(node for nodes in more.values() for node in nodes)]
    writer = Writer(function.graph, outputs, tables)
    head = [
        "    const sw_state *const s = state;",
        "    (void)u;",
        "    if (!(dt >= 0 && dt < SW_INF)) return SW_REFUSED;",
    ]
    # Both may add statements to those of the writer
    places = [s for place, nodes in more.items() for s in writer.stores(place, True, nodes)]
    end = step_statements(made, function, writer, after)
    body, saved = shared([*writer.statements, *places, *end])
    cost = writer.cost._replace(numbers=writer.numbers - saved)
    return Body(_text(head) + arrived + _text(body), cost, writer.used)


def step_statements(
    made: StructLayout, step: Function, writer: Writer, after: Sequence[Statement] = ()
) -> list[Statement]:
    """Keep the new state if it is finite, and write the estimate if the caller wants it.

    `after` comes last, before the step returns.
    """
    estimate, update, recover = step_end(made, step, writer)
    test = update.test
    kept = "1" if test is None else test.text
    call = []
    if recover is not None:
        opening = [f"if ({recover.due} || !kept) {{"]
        call = recover_call(recover, "int", opening, "state", "&&")
    return [
        Statement(1, f"const int ok = {estimate.ok.text};", estimate.ok.arrays),
        Statement(1, "if (estimate) {"),
        *(store.indented() for store in estimate.stores),
        Statement(1, "}"),
        Statement(1, f"const int kept = {kept};", frozenset() if test is None else test.arrays),
        Statement(1, "if (kept) {"),
        *(stored(store).indented() for store in update.stores),
        Statement(1, "}"),
        Statement(1, "if (estimate) {"),
        *(
            Statement(2, f"memcpy(&estimate->{name}, &state->{same}, sizeof estimate->{name});")
            for name, same in estimate.in_state.items()
        ),
        Statement(2, "estimate->ok = ok && kept;"),
        Statement(1, "}"),
        *call,
        *after,
        Statement(1, "return ok && kept;"),
    ]


def stored(store: StateStore) -> Statement:
    """The assignment of a store."""
    target, value = store.target, store.value
    text = f"{target} = {value.text};"
    if store.size is not None:
        text = f"memcpy({target}, {value.text}, sizeof {target});"
    return Statement(1, text, value.arrays)


def _text(body: Sequence[str]) -> str:
    return "".join(line + "\n" for line in body)
