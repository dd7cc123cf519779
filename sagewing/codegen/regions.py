"""In which block of the C code each number is computed.

A number that only one side of a branch needs is computed in that side.
"""

from collections.abc import Iterable, Iterator

from sagewing.codegen.graph import Graph, Node


class Region:
    """The body of the function, or one side of a branch in another region."""

    def __init__(self, parent: "Region | None" = None):
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1

    def within(self, other: "Region") -> bool:
        """Whether this is the other region or inside of it."""
        region: Region = self
        while region.depth > other.depth and region.parent is not None:
            region = region.parent
        return region is other


class Placement:
    """The region of every number that some outputs need, and how often each number is used."""

    def __init__(self, graph: Graph, outputs: Iterable[Node]):
        self.body = Region()
        self.region: dict[Node, Region] = {}
        self.uses: dict[Node, int] = {}
        self.sides: dict[Node, list[Region]] = {}
        self._live: dict[Node, set[int]] = {}
        for node in outputs:
            self._use(node, self.body)
        # A node stands after its arguments, so here all uses of a node are known when it comes
        for node in reversed(graph.nodes):
            if node in self.region:
                for arg, region in self._arguments(node):
                    self._use(arg, region)

    def outputs(self, branch: Node) -> list[int]:
        """The outputs of a branch that are used."""
        return sorted(self._live[branch])

    def side(self, branch: Node, side: int) -> list[Node]:
        """The used outputs of one side of a branch."""
        _, size = branch.attr
        return [branch.args[1 + side * size + i] for i in self.outputs(branch)]

    def needed(self, node: Node) -> Iterator[Node]:
        """The nodes that a node's statement reads; a branch reads what its sides read."""
        if node.op != "branch":
            yield from node.args
            return
        yield node.args[0]
        here, seen = self.region[node], {node}
        stack = [out for s in reversed(range(node.attr[0])) for out in self.side(node, s)[::-1]]
        while stack:
            inner = stack.pop()
            if inner in seen:
                continue
            seen.add(inner)
            if here.within(self.region[inner]):
                yield inner
            elif inner.op == "branch":
                stack += [o for s in range(inner.attr[0]) for o in self.side(inner, s)][::-1]
                stack.append(inner.args[0])
            else:
                stack += inner.args[::-1]

    def _arguments(self, node: Node) -> Iterator[tuple[Node, Region]]:
        here = self.region[node]
        if node.op == "elem" and node.args[0].op == "branch":
            self._live.setdefault(node.args[0], set()).add(node.attr)
        if node.op != "branch":
            yield from ((arg, here) for arg in node.args)
            return
        yield node.args[0], here
        self.sides[node] = [Region(here) for _ in range(node.attr[0])]
        for number, region in enumerate(self.sides[node]):
            yield from ((out, region) for out in self.side(node, number))

    def _use(self, node: Node, region: Region) -> None:
        self.uses[node] = self.uses.get(node, 0) + 1
        self.region[node] = _common(self.region.get(node, region), region)


def _common(a: Region, b: Region) -> Region:
    """The innermost region that holds both."""
    while a is not b:
        if a.depth >= b.depth and a.parent is not None:
            a = a.parent
        elif b.parent is not None:
            b = b.parent
    return a
