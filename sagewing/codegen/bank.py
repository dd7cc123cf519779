"""A bank as two C files: its members in the lanes of vectors, and what joins them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sagewing.codegen.c99 import (
    ARRIVED,
    SIGNATURES,
    CSource,
    in_precisions,
    step_statements,
    stored,
)
from sagewing.codegen.header import CALLING, NAME, header, member
from sagewing.codegen.helpers import prelude
from sagewing.codegen.lanes import lifted, lifts
from sagewing.codegen.members import WEIGHTS, BankProgram, Members, bank_program
from sagewing.codegen.members_lanes import GroupText, group_text
from sagewing.codegen.memory import Statement, lines, shared
from sagewing.codegen.notation import C_TYPE
from sagewing.codegen.notice import notice
from sagewing.codegen.step_end import state_update
from sagewing.codegen.tables import Tables, definition
from sagewing.codegen.vector_loops import VectorLoopsWriter
from sagewing.codegen.writer import Cost
from sagewing.filters.bank import Bank

INTERACT = """
static void interact(const sw_state *s, sw_state *state)
{
"""
STEP = """
static int step(sw_state *state, const sw_real *z, const int *arrived, const sw_real *u, sw_real dt,
                sw_estimate *estimate)
{
"""
ENTRIES = """
{step}
{{
    if (!(dt >= 0 && dt < SW_INF)) return SW_REFUSED;
{arrived}    return step(state, z, arrived, u, dt, estimate);
}}

{predict_only}
{{
    const sw_real z[SW_NZ] = {{0}};
    const int arrived[SW_NZ] = {{0}};
    if (!(dt >= 0 && dt < SW_INF)) return SW_REFUSED;
    return step(state, z, arrived, u, dt, estimate);
}}
"""


def bank_source(bank: Bank, n_u: int, provenance: dict[str, Any] | None, dtype: Any) -> CSource:
    """The C of a bank with inputs of this size: of one precision, or of both by -DSW_DOUBLE."""
    dtypes = [np.dtype(kind) for kind in ((np.float32, np.float64) if dtype is None else (dtype,))]
    parts = [_Parts(bank_program(bank, n_u, kind), kind) for kind in dtypes]
    made = parts[-1].made
    used = [part.used | part.lifted for part in parts]
    code = "".join(
        [
            f'#include "{NAME}.h"\n\n',
            "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n",
            prelude(used[0], used[-1]),
            "\n" + (CALLING / "lanes.h").read_text(encoding="utf-8"),
            in_precisions([lifts(part.lifted) for part in parts]),
            in_precisions([part.tables.text() for part in parts]),
            in_precisions([part.own() for part in parts]),
            _results(made.groups),
            *(in_precisions([p.groups[i].text for p in parts]) for i in range(len(made.groups))),
            in_precisions([part.functions() for part in parts]),
            ENTRIES.format(arrived=ARRIVED, **SIGNATURES),
        ]
    )
    costs = {"step": parts[-1].cost(), "predict_only": parts[-1].cost()}
    size = sum(array.size for array in parts[-1].constants())
    top = notice(bank, provenance)
    head = top + header(made.layout, bank, costs, size, dtype)
    return CSource(head, top + code, made.layout, costs["step"].operations)


class _Parts:
    """The texts of a bank in one precision; constants stand between « and »."""

    def __init__(self, made: BankProgram, dtype: np.dtype):
        self.made, self.tables = made, Tables(dtype)
        self.groups: list[GroupText] = [
            group_text(i, group, self.tables) for i, group in enumerate(made.groups)
        ]
        self._init = VectorLoopsWriter(made.init.graph, made.init.outputs(), self.tables)
        self._weigh = VectorLoopsWriter(made.weigh.graph, made.weigh.outputs(), self.tables)
        self._mix = None
        if made.interact is not None:
            self._mix = VectorLoopsWriter(made.interact.graph, made.interact.outputs(), self.tables)
        self._body = self._written()
        writers = [w for w in (self._init, self._weigh, self._mix) if w is not None]
        self.used = set().union(*(writer.used for writer in writers))
        vectors = [*(group.used for group in self.groups), *(writer.lifted for writer in writers)]
        self.lifted = lifted(set().union(*vectors), dtype)

    def functions(self) -> str:
        """The functions besides those of the groups and the entries."""
        return self._body

    def constants(self) -> list[np.ndarray]:
        """All arrays of constants."""
        own = [array for group in self.made.groups for array in group.own.values()]
        return [*self.tables.arrays.values(), *own]

    def own(self) -> str:
        """The numbers in which members differ."""
        arrays = [pair for group in self.made.groups for pair in group.own.items()]
        return "".join(definition(name, array) for name, array in arrays)

    def cost(self) -> Cost:
        """What a step takes, with the members one after the other."""
        groups = [
            (g.stored, text.cost) for g, text in zip(self.made.groups, self.groups, strict=True)
        ]
        operations = self._weigh.cost.operations + sum(n * cost.operations for n, cost in groups)
        results = sum(f.size for g in self.made.groups for f in g.results)
        numbers = self._weigh.cost.numbers + results + max(cost.numbers for _, cost in groups)
        return Cost(operations, numbers)

    def _written(self) -> str:
        made, weights = self.made, [f for f in self.made.layout.state if f.name == WEIGHTS]
        calls = [f"    init_{i}(state, x0, P0);" for i in range(len(made.groups))]
        begin = [
            *self._init.statements,
            *self._init.stores(f"state->{WEIGHTS}", True, list(made.init.state[WEIGHTS].ravel())),
        ]
        text = f"\n{SIGNATURES['init']}\n{{\n" + _text([*lines(begin), *calls, "}"])
        opening = ["    const sw_state *const s = state;"]
        if self._mix is not None:
            assert made.interact is not None
            update = state_update(self._mix, made.layout.state, made.interact.state)
            body = lines([*self._mix.statements, *map(stored, update.stores)])
            text += INTERACT + _text([*body, "}"])
            opening = [
                "    sw_state mixed = *state;",
                "    const sw_state *const s = &mixed;",
                "    interact(state, &mixed);",
            ]
        opening += ["    sw_members members, *const made = &members;", "    (void)u;"]
        opening += [
            f"    const int due_{i} = step_{i}(s, z, arrived, u, dt, state, made);"
            for i in range(len(made.groups))
        ]
        recover = [
            Statement(1, f"if (due_{i}) recover_{i}(state, arrived, made);")
            if group.recover is not None
            else Statement(1, f"(void)due_{i};")
            for i, group in enumerate(made.groups)
        ]
        layout = made.layout._replace(state=weights)
        end = step_statements(layout, made.weigh, self._weigh, recover)
        body, _ = shared([*self._weigh.statements, *end])
        return text + STEP + _text([*opening, *body, "}"])


def _results(groups: Sequence[Members]) -> str:
    """The struct that holds what the steps of members give besides their states."""
    kept = [f for g in groups for f in g.results if f.name not in g.known]
    members = "".join(f"    {member(C_TYPE, field)};\n" for field in kept)
    return f"\ntypedef struct {{\n{members}}} sw_members;\n"


def _text(body: Sequence[str]) -> str:
    return "".join(line + "\n" for line in body)
