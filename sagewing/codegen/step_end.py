"""The end of a step in C: what becomes the state and the estimate, and whether `recover` is called.

The new numbers become the state only if all of them are finite: a step never leaves behind what
later steps cannot recover from.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sagewing.codegen.arrays import Value
from sagewing.codegen.expressions import CALL, Expression, arrays_of
from sagewing.codegen.fields import Field
from sagewing.codegen.graph import Node
from sagewing.codegen.memory import Statement
from sagewing.codegen.operations import Kind
from sagewing.codegen.packing import in_order
from sagewing.codegen.program import Function, StructLayout
from sagewing.codegen.writer import Writer

# So many numbers are tested in one sum, because each addition waits for the one before it.
TESTED_TOGETHER = 8
JOINT = "\n                     & "


class StateStore(NamedTuple):
    """A store into a member of the state: of a number, or of the first `size` entries of an array.

    `place` is that of the number in the member, if this is an array.
    """

    name: str
    place: int | None
    value: Expression
    kind: Kind
    size: int | None = None

    @property
    def target(self) -> str:
        """Where it goes in the C struct."""
        return f"state->{self.name}" + ("" if self.place is None else f"[{self.place}]")


class StateUpdate(NamedTuple):
    """The test whether to keep the new state (None: always), and the stores if so."""

    test: Expression | None
    stores: list[StateStore]


class EstimateStores(NamedTuple):
    """How an estimate is written: the stores of its own numbers, and its flag `ok`.

    `in_state` are the members that equal one of the new state, with that one's name.
    """

    stores: list[Statement]
    in_state: dict[str, str]
    ok: Expression


class RecoverArguments(NamedTuple):
    """The names of the flags that `recover` is called with, and whether it is due."""

    due: str
    arrived: list[str]
    kept: list[str]
    finite: str


class StepEnd(NamedTuple):
    """All that a step does after its numbers are computed."""

    estimate: EstimateStores
    update: StateUpdate
    recover: RecoverArguments | None


def step_end(made: StructLayout, step: Function, writer: Writer) -> StepEnd:
    """The end of a step; what its statements need is among those of the writer.

    The estimate may read the old state, so its stores stand before those of the new state.
    """
    return StepEnd(
        _estimate_stores(made, step, writer),
        state_update(writer, made.state, step.state),
        None if step.recover is None else _recover_arguments(step, writer),
    )


def state_update(
    writer: Writer, fields: Sequence[Field], values: Mapping[str, Value]
) -> StateUpdate:
    """What makes `values` the state; what they are made of has its name already.

    A member that stays as it was needs neither store nor test.
    """
    stores: list[StateStore] = []
    numbers: dict[str, Expression] = {}
    tests: list[Expression] = []
    for field in fields:
        nodes = list(values[field.name].ravel())
        if _stays(field, nodes):
            continue
        array = in_order(nodes)
        if array is not None and array.op != "input":
            start = writer.vector(array, nodes[0].attr)
            tests.append(writer.all_finite(start, field.size))
            stores.append(StateStore(field.name, None, start, field.kind, field.size))
            continue
        for i, node in enumerate(nodes):
            number = writer.lasting(node)
            stores.append(StateStore(field.name, i if field.shape else None, number, field.kind))
            if field.kind == "real" and node.op != "const":
                numbers[number.text] = number
    names = list(numbers.values())
    for i in range(0, len(names), TESTED_TOGETHER):
        part = names[i : i + TESTED_TOGETHER]
        zero = " + ".join(f"«0.0» * {name.text}" for name in part)
        tests.append(Expression(f"(«0.0» == {zero})", CALL, arrays_of(part)))
    if not tests:
        return StateUpdate(None, stores)
    test = Expression(JOINT.join(test.text for test in tests), 0, arrays_of(tests))
    return StateUpdate(test, stores)


def _stays(field: Field, nodes: Sequence[Node]) -> bool:
    return all(
        node.op == "elem"
        and node.args[0].op == "input"
        and (node.args[0].attr.field, node.attr) == (field, i)
        for i, node in enumerate(nodes)
    )


def _estimate_stores(made: StructLayout, step: Function, writer: Writer) -> EstimateStores:
    """The stores of an estimate; a member that equals one of the new state is copied from there."""
    states = {tuple(value.ravel()): name for name, value in step.state.items()}
    stores: list[Statement] = []
    in_state: dict[str, str] = {}
    for field in made.estimate:
        numbers = list(step.estimate[field.name].ravel())
        same = states.get(tuple(numbers))
        if field.name == "ok":
            continue
        if same is not None:
            in_state[field.name] = same
        else:
            stores += writer.stores(f"estimate->{field.name}", bool(field.shape), numbers)
    return EstimateStores(stores, in_state, writer.expression(step.estimate["ok"].item()))


def _recover_arguments(step: Function, writer: Writer) -> RecoverArguments:
    flags = [[writer.lasting(node).text for node in value.ravel()] for value in step.recover or ()]
    due, arrived, kept, finite = flags
    return RecoverArguments(due[0], arrived, kept, finite[0])


def recover_call(
    given: RecoverArguments, flag: str, opening: Sequence[str], target: str, both: str
) -> list[Statement]:
    """The call of `recover`; a state that was not kept has failed.

    `flag` is the type of a flag, `both` the operator "and" of flags, `opening` the lines that ask
    whether the call is due, and `target` what it works on.
    """
    lines = [
        *((1, line) for line in opening),
        (2, f"const {flag} measured_now[] = {{{', '.join(given.arrived)}}};"),
        (2, f"const {flag} kept_now[] = {{{', '.join(given.kept)}}};"),
        (2, f"recover({target}, measured_now, kept_now, kept {both} {given.finite});"),
        (1, "}"),
    ]
    return [Statement(depth, text) for depth, text in lines]
