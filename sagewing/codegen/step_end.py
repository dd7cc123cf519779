"""The end of a step in C: the new numbers become the state, but only if all of them are finite.

No step may leave behind what later steps cannot recover from.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sagewing.codegen.emit import Writer
from sagewing.codegen.graph import Node
from sagewing.codegen.header import place
from sagewing.codegen.operations import Kind
from sagewing.codegen.packing import in_order
from sagewing.codegen.program import Field, Function, Program

# So many numbers are tested in one sum: in a longer one each would wait for those before it.
TOGETHER = 8


class Store(NamedTuple):
    """What goes where: a number, or the first `size` entries of an array."""

    target: str
    value: str
    kind: Kind
    size: int | None = None


class Commit(NamedTuple):
    """Whether to keep the new state (empty: in any case), and what to store if so."""

    test: str
    stores: list[Store]


def commit(writer: Writer, fields: Sequence[Field], values: Sequence[Sequence[Node]]) -> Commit:
    """What makes `values` the fields of the state; whatever they stand on has its name already.

    A field that stays as it was needs neither store nor test.
    """
    stores: list[Store] = []
    numbers: dict[str, None] = {}
    tests: list[str] = []
    for field, nodes in zip(fields, values, strict=True):
        if _stays(field, nodes):
            continue
        array = in_order(nodes)
        if array is not None and array.op != "input":
            name = writer.vector(array, nodes[0].attr)
            tests.append(writer.all_finite(name, field.size))
            stores.append(Store(f"state->{field.name}", name, field.kind, field.size))
            continue
        for i, node in enumerate(nodes):
            text = writer.named(node)
            index = f"[{i}]" if field.shape else ""
            stores.append(Store(f"state->{field.name}{index}", text, field.kind))
            if field.kind == "real" and node.op != "const":
                numbers[text] = None
    names = list(numbers)
    for i in range(0, len(names), TOGETHER):
        zero = " + ".join(f"«0.0» * {name}" for name in names[i : i + TOGETHER])
        tests.append(f"(«0.0» == {zero})")
    return Commit("\n                     & ".join(tests), stores)


def _stays(field: Field, nodes: Sequence[Node]) -> bool:
    return all(
        node.op == "elem"
        and node.args[0].op == "input"
        and (node.args[0].attr.name, node.attr) == (f"s->{field.name}", i)
        for i, node in enumerate(nodes)
    )


class Told(NamedTuple):
    """How an estimate is said: stores of its own numbers, what is the state's, and `ok`."""

    stores: list[str]
    of_state: dict[str, str]
    ok: str


def told(made: Program, function: Function, writer: Writer) -> Told:
    """What a step says; a field that is one of the new state's is read there."""
    states = {
        tuple(value.ravel()): field.name
        for field, value in zip(made.state, function.state, strict=True)
    }
    out = Told([], {}, "")
    for field, value in zip(made.estimate, function.estimate, strict=True):
        same = states.get(tuple(value.ravel()))
        if field.name == "ok":
            out = out._replace(ok=writer.text(value.item()))
        elif same is not None:
            out.of_state[field.name] = same
        else:
            out.stores.extend(writer.stores(place("estimate->", field), list(value.ravel())))
    return out
