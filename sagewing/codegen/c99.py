"""A filter as two C files that need nothing but libm."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sagewing.codegen.commit import Store, commit, told
from sagewing.codegen.emit import Cost, Writer
from sagewing.codegen.header import NAME, header, place
from sagewing.codegen.helpers import prelude
from sagewing.codegen.notice import notice
from sagewing.codegen.precision import alone, joined
from sagewing.codegen.program import Function, Program, program
from sagewing.codegen.storage import shared
from sagewing.codegen.tables import Tables

FUNCTIONS = ("init", "recover", "step", "predict_only")
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


class Source(NamedTuple):
    """The texts of `sagewing_filter.h` and `sagewing_filter.c`, and what a step costs at most."""

    header: str
    code: str
    program: Program
    operations: int
    calling: str = "records"  # what Python calls it through


class _Body(NamedTuple):
    text: str
    cost: Cost
    used: set[str]


def source(
    filt: Any, n_u: int = 0, provenance: dict[str, Any] | None = None, dtype: Any = None
) -> Source:
    """The C of a filter with inputs of this size: of one precision, or of both by -DSW_DOUBLE.

    The same filter gives the same bytes. `provenance` says where its learned part comes from.
    """
    dtypes = (np.float32, np.float64) if dtype is None else (dtype,)
    programs = [program(filt, n_u, kind) for kind in dtypes]
    tables = [Tables(np.dtype(kind)) for kind in dtypes]
    functions = [name for name in FUNCTIONS if getattr(programs[0], name) is not None]
    bodies = {
        name: [_body(name, p, t) for p, t in zip(programs, tables, strict=True)]
        for name in functions
    }
    used = set().union(*(body.used for pair in bodies.values() for body in pair))
    made, numbers = programs[-1], tables[-1]
    code = "".join(
        [
            f'#include "{NAME}.h"\n\n',
            "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n",
            prelude(used),
            _in_precisions([table.text() for table in tables]),
            *(_function(name, [body.text for body in bodies[name]]) for name in functions),
        ]
    )
    costs = {name: bodies[name][-1].cost for name in functions}
    size = sum(array.size for array in numbers.arrays.values())
    top = notice(filt, provenance)
    head = top + header(made, filt, costs, size, dtype)
    return Source(head, top + code, made, costs["step"].operations)


def _function(name: str, texts: Sequence[str]) -> str:
    return f"\n{SIGNATURES[name]}\n{{\n{_in_precisions(texts)}}}\n"


def _in_precisions(texts: Sequence[str]) -> str:
    return alone(texts[0]) if len(texts) == 1 else joined(*texts)


def _body(name: str, made: Program, tables: Tables) -> _Body:
    """The inside of a function: what it checks, what it computes, what it keeps."""
    function: Function = getattr(made, name)
    writer = Writer(function.graph, function.outputs(), tables)
    if name == "init":
        stores = []
        for field, value in zip(made.state, function.state, strict=True):
            stores += writer.stores(place("state->", field), list(value.ravel()))
        lines = [*writer.lines, *("    " + line for line in stores)]
        return _Body(_text(lines), writer.cost, writer.used)
    if name == "recover":
        last = commit(writer, made.state, [list(value.ravel()) for value in function.state])
        lines = ["    const sw_state *const s = state;", "    (void)arrived;"]
        lines += [*writer.lines, *("    " + _stored(store) for store in last.stores)]
        return _Body(_text(lines), writer.cost, writer.used)
    head = [
        "    const sw_state *const s = state;",
        "    (void)u;",
        "    if (!(dt >= 0 && dt < SW_INF)) return SW_REFUSED;",
    ]
    arrived = ARRIVED if name == "step" else ""
    tail = _tail(made, function, writer)  # may add lines to those of the writer
    lines, saved = shared([*writer.lines, *tail])
    cost = writer.cost._replace(numbers=writer.numbers - saved)
    return _Body(_text(head) + arrived + _text(lines), cost, writer.used)


def _tail(made: Program, function: Function, writer: Writer) -> list[str]:
    """Keep the new state if it is one, and say the estimate to who wants it."""
    said = told(made, function, writer)
    last = commit(writer, made.state, [list(value.ravel()) for value in function.state])
    recovering = _recovering(function, writer)
    # What is written here may stand on the old state, which the commit replaces.
    return [
        f"    const int ok = {said.ok};",
        "    if (estimate) {",
        *("        " + line for line in said.stores),
        "    }",
        f"    const int kept = {last.test or '1'};",
        "    if (kept) {",
        *("        " + _stored(store) for store in last.stores),
        "    }",
        "    if (estimate) {",
        *(
            f"        memcpy(&estimate->{name}, &state->{same}, sizeof estimate->{name});"
            for name, same in said.of_state.items()
        ),
        "        estimate->ok = ok && kept;",
        "    }",
        *recovering,
        "    return ok && kept;",
    ]


def _recovering(function: Function, writer: Writer) -> list[str]:
    """The call of `recover`; a state that was not kept has failed."""
    if not function.recovery:
        return []
    due, arrived, kept, finite = (
        [writer.named(node) for node in value.ravel()] for value in function.recovery
    )
    return [
        f"    if ({due[0]} || !kept) {{",
        f"        const int measured_now[] = {{{', '.join(arrived)}}};",
        f"        const int kept_now[] = {{{', '.join(kept)}}};",
        f"        recover(state, measured_now, kept_now, kept && {finite[0]});",
        "    }",
    ]


def _stored(store: Store) -> str:
    if store.size is None:
        return f"{store.target} = {store.value};"
    return f"memcpy({store.target}, {store.value}, sizeof {store.target});"


def _text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)
