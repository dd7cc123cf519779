"""The functions of a group of a bank in C: a member in each lane of a vector.

What the members read and write lies side by side: entry i of member m is at i * members + m. A pass
of the loop takes as many members as a vector has lanes. The pass with the last members comes first
and may begin at members of the next pass, whose lanes it does not store.
"""

from typing import NamedTuple

from sagewing.codegen.expressions import NAME, Expression
from sagewing.codegen.graph import Node
from sagewing.codegen.lanes import LanesWriter
from sagewing.codegen.members import Members
from sagewing.codegen.memory import Array, Statement, declaration, lines
from sagewing.codegen.operations import Kind
from sagewing.codegen.program import Function
from sagewing.codegen.step_end import StateStore, state_update
from sagewing.codegen.tables import Tables
from sagewing.codegen.writer import Cost, Writer

# The end of the names of the functions in lanes.h that read and write a vector
KINDS: dict[Kind, str] = {"real": "", "int": "_ints", "bool": "_flags"}
SIGNATURES = {
    "init": "static void init_{}(sw_state *state, const sw_real *x0, const sw_real *P0)",
    "step": (
        "static int step_{}(const sw_state *s, const sw_real *z, const int *arrived,\n"
        "                  const sw_real *u, sw_real dt, sw_state *state, sw_members *made)"
    ),
    "recover": (
        "static void recover_{}(sw_state *state, const int *arrived, const sw_members *made)"
    ),
}
LOOP = """\
    enum {{ USED = {used}, MEMBERS = {members}, SPAN = SW_LANES < MEMBERS ? SW_LANES : MEMBERS }};
    for (int first = (MEMBERS - 1) / SPAN * SPAN; first >= 0; first -= SPAN) {{
        const int at = first + SPAN <= MEMBERS ? first : MEMBERS - SPAN;
"""
ACTIVE = (
    "        const sw_ints active = sw_active(first - at, USED - at < SPAN ? USED - at : SPAN);\n"
)
DUE = """\
        const sw_ints due = active & sw_get_flags(made->r{}_due + at, SPAN);
        if (!sw_lanes_any(due)) continue;
"""
# Of each function: what stands before the loop and at its begin, and what stands after it
BEGIN_AND_END = {
    "init": (("", ""), ""),
    "step": (("    int any_due = 0;\n    (void)u;\n", ACTIVE), "    return any_due;\n"),
    "recover": (("    const sw_state *const s = state;\n    (void)arrived;\n", ACTIVE), ""),
}


class GroupText(NamedTuple):
    """The C of a group's functions, the helpers that they call, and what a step costs at most."""

    text: str
    used: set[str]
    cost: Cost


class MembersWriter(LanesWriter):
    """Statements about vectors of members; what they read are arrays of numbers."""

    def expression(self, node: Node) -> Expression:
        """A number that has been computed or given."""
        if node.op == "elem" and node.args[0].op == "input":
            return self._entry(node.args[0], node.attr)
        return super().expression(node)

    def _entry(self, vector: Node, offset: int, index: str = "") -> Expression:
        if vector.op != "input":
            return super()._entry(vector, offset, index)
        given = vector.attr
        at = index or str(offset)
        if index and offset:
            at = f"({index} + {offset})"
        if given.members:
            kind = KINDS[given.field.kind]
            return Expression(f"sw_get{kind}({given.name} + MEMBERS * {at} + at, SPAN)", NAME)
        name = given.name if given.is_number else f"{given.name}[{at}]"
        flags = vector.kind == "bool"
        return Expression(f"SW_ALL_INTS(-({name} != 0))" if flags else f"SW_ALL({name})", NAME)

    def _array(self, node: Node) -> tuple[str, int, frozenset[Array]]:
        """The C array of a vector; one that is given is copied into vectors first."""
        if node.op != "input":
            return super()._array(node)
        array = Array(self._name(node), node.attr.field.size)
        if node not in self._done:
            self._done.add(node)
            self.statements.append(declaration(1, array, self.notation.types["real"]))
            loop = f"for (int i = 0; i < {array.size}; ++i) "
            text = f"{loop}{array.text}[i] = {self._entry(node, 0, 'i').text};"
            self.statements.append(Statement(1, text, frozenset([array])))
        return array.text, 0, frozenset([array])


def group_text(place: int, group: Members, tables: Tables) -> GroupText:
    """The functions of a group; constants stand between « and »."""
    writers = {
        name: MembersWriter(function.graph, function.outputs(), tables)
        for name, function in _functions(group).items()
    }
    ends = {"init": _init_end, "step": _step_end, "recover": _recover_end}
    text = ""
    for name, writer in writers.items():
        end = ends[name](place, group, writer)  # may add statements to those of the writer
        statements = [*writer.statements, *end]
        body = "".join(f"{line}\n" for line in lines([line.indented() for line in statements]))
        head, tail = BEGIN_AND_END[name]
        if name == "recover":
            body = DUE.format(place) + body
        loop = LOOP.format(used=group.size, members=group.stored)
        signature = SIGNATURES[name].format(place)
        text += f"\n{signature}\n{{\n{head[0]}{loop}{head[1]}{body}    }}\n{tail}}}\n"
    used = set().union(*(writer.used for writer in writers.values()))
    return GroupText(text, used, writers["step"].cost)


def _functions(group: Members) -> dict[str, Function]:
    made = {"init": group.init, "step": group.step, "recover": group.recover}
    return {name: function for name, function in made.items() if function is not None}


def _init_end(place: int, group: Members, writer: Writer) -> list[Statement]:
    return [
        _put(f"state->{field.name}", i, field.kind, writer.expression(node))
        for field in group.state
        for i, node in enumerate(group.init.state[field.name].ravel())
    ]


def _step_end(place: int, group: Members, writer: Writer) -> list[Statement]:
    """Keep the new state of a member if it is finite, and write the results."""
    update = state_update(writer, group.state, group.step.state)
    finite = f"r{place}_verdict_finite"
    end = []
    if update.test is not None:
        test = update.test
        end.append(Statement(1, f"const sw_ints kept = SW_FLAGS(({test.text}) != 0);", test.arrays))
    else:
        end.append(Statement(1, "const sw_ints kept = SW_ALL_INTS(-1);"))
    end.append(Statement(1, "const sw_ints stored = active & kept;"))
    for field in group.results:
        if field.name in group.known:
            continue
        for i, node in enumerate(group.step.estimate[field.name].ravel()):
            value = writer.expression(node)
            if field.name == finite:
                value = value._replace(text=f"(kept & {value.text})")
            if field.name == f"r{place}_due":
                value = value._replace(text=f"(~kept | {value.text})")
                test = f"sw_lanes_any(active & {value.text})"
                end.append(Statement(1, f"any_due |= {test};", value.arrays))
            end.append(_put(f"made->{field.name}", i, field.kind, value))
    return [*end, *_stores(update.stores, "stored")]


def _recover_end(place: int, group: Members, writer: Writer) -> list[Statement]:
    assert group.recover is not None
    update = state_update(writer, group.state, group.recover.state)
    return _stores(update.stores, "due")


def _stores(stores: list[StateStore], flag: str) -> list[Statement]:
    """Stores into the state, in the flagged lanes."""
    made = []
    for store in stores:
        loop, value, place = "", store.value.text, str(store.place or 0)
        if store.size is not None:
            loop, value, place = f"for (int i = 0; i < {store.size}; ++i) ", f"({value})[i]", "i"
        kind = KINDS[store.kind]
        where = f"state->{store.name} + MEMBERS * {place} + at"
        text = f"{loop}sw_change{kind}({where}, {value}, {flag}, SPAN);"
        made.append(Statement(1, text, store.value.arrays))
    return made


def _put(array: str, place: int, kind: Kind, value: Expression) -> Statement:
    where = f"{array} + MEMBERS * {place} + at"
    return Statement(1, f"sw_put{KINDS[kind]}({where}, {value.text}, SPAN);", value.arrays)
