"""How a pack, an array of numbers put side by side, is filled."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sagewing.codegen.graph import Graph, Node, in_array
from sagewing.codegen.indices import length
from sagewing.codegen.regions import Placement

# At least so many numbers that lie side by side in another array are copied by a loop.
COPIED = 4


class RowCopy(NamedTuple):
    """A copy of rows from an array into a pack, from its place `first` on.

    `source` is the first number that is copied, `shape` the number of rows and of entries in each.
    `to` are the strides of rows and entries in the pack, `of` those in the array.
    """

    first: int
    source: Node
    shape: tuple[int, int]
    to: tuple[int, int]
    of: tuple[int, int]


class PackPlan(NamedTuple):
    """How to fill a pack: one copy that most numbers come from, then rows, then single numbers.

    The first copy also fills the places of some others, which are then written over.
    """

    most: RowCopy | None
    rows: list[RowCopy]
    alone: list[int]


def pack_plan(args: Sequence[Node]) -> PackPlan:
    """How to fill a pack with these numbers."""
    shifts = Counter((a.args[0], a.attr - i) for i, a in enumerate(args) if in_array(a))
    most, count = shifts.most_common(1)[0] if shifts else (None, 0)
    if count < COPIED or 2 * count < len(args):
        return _parts(args, range(len(args)))
    same = [in_array(a) and (a.args[0], a.attr - i) == most for i, a in enumerate(args)]
    places = [i for i, one in enumerate(same) if one]
    whole = _row(places[0], args[places[0]], places[-1] + 1 - places[0], 1)
    rest = _parts(args, [i for i, one in enumerate(same) if not one])
    return rest._replace(most=whole)


def loops_in_packs(graph: Graph, place: Placement) -> dict[Node, tuple[Node, int]]:
    """Loops that write their results into a pack directly, with the pack and the place in it."""
    found: dict[Node, tuple[Node, int]] = {}
    for node in graph.nodes:
        if node.op != "pack" or node not in place.region:
            continue
        made = pack_plan(node.args)
        if made.most is not None:  # that copy would write over the results
            continue
        for row in made.rows:
            vector = row.source.args[0]
            size = length(vector) if vector.op == "map" else 0
            if row == _row(row.first, row.source, size, 1) and row.source.attr == 0:
                found.setdefault(vector, (node, row.first))
    return found


def blocks(rows: Sequence[RowCopy]) -> list[RowCopy]:
    """Rows of one array that lie equally far apart, joined into copies of several rows."""
    made: dict[Any, RowCopy] = {}
    done = []
    for row in rows:
        key = (row.source.args[0], row.shape[1], row.of[1])
        block = made.get(key)
        if block is not None:
            last = block.shape[0] - 1
            step = row.first - block.first - last * block.to[0]
            stride = row.source.attr - block.source.attr - last * block.of[0]
            if not last or (step, stride) == (block.to[0], block.of[0]):
                shape = (block.shape[0] + 1, block.shape[1])
                made[key] = RowCopy(
                    block.first, block.source, shape, (step, 1), (stride, row.of[1])
                )
                continue
            done.append(block)
        made[key] = row
    return [*done, *made.values()]


def _row(first: int, source: Node, size: int, stride: int) -> RowCopy:
    return RowCopy(first, source, (1, size), (0, 1), (0, stride))


def in_order(values: Sequence[Node]) -> Node | None:
    """The C array of which these are consecutive entries, if there is one."""
    first = values[0]
    if len(values) == 1 or not in_array(first):
        return None
    ordered = all(
        v.op == "elem" and v.args == first.args and v.attr == first.attr + i
        for i, v in enumerate(values)
    )
    return first.args[0] if ordered else None


def _parts(args: Sequence[Node], places: Sequence[int]) -> PackPlan:
    made = PackPlan(None, [], [])
    for part in _runs(args, places):
        first = args[part[0]]
        if len(part) >= COPIED:
            made.rows.append(_row(part[0], first, len(part), args[part[1]].attr - first.attr))
        else:
            made.alone.extend(part)
    return made


def _runs(args: Sequence[Node], places: Sequence[int]) -> Iterator[list[int]]:
    """Runs of these places whose numbers lie equally far apart in an array."""
    part: list[int] = []
    for i in places:
        if part and not (i == part[-1] + 1 and _apart([args[k] for k in (*part[-2:], i)])):
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def _apart(values: Sequence[Node]) -> bool:
    """Whether two or three numbers lie in one array, equally far apart and in order."""
    first = values[0]
    if not all(in_array(v) and v.args == first.args for v in values):
        return False
    steps = {b.attr - a.attr for a, b in pairwise(values)}
    return len(steps) == 1 and min(steps) > 0
