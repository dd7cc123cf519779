"""What JAX's primitives that only move numbers are in the graph: they add no nodes."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from sagewing.codegen.arrays import Value, as_known, as_nodes, in_one_vector, is_known
from sagewing.codegen.elementwise import elementwise
from sagewing.codegen.graph import Graph
from sagewing.codegen.simplify import apply
from sagewing.codegen.trace import rule, unsupported


@rule("reshape")
def _reshape(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [operands[0].reshape(equation.params["new_sizes"])]


@rule("squeeze", "expand_dims")
def _squeeze(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [operands[0].reshape(equation.outvars[0].aval.shape)]


@rule("transpose")
def _transpose(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [in_one_vector(graph, operands[0]).transpose(equation.params["permutation"])]


@rule("broadcast_in_dim")
def _broadcast_in_dim(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    inner = [1] * len(shape)
    for size, place in zip(operands[0].shape, places, strict=True):
        inner[place] = size
    return [np.broadcast_to(operands[0].reshape(inner), shape)]


@rule("slice")
def _slice(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    p = equation.params
    strides = p["strides"] or (1,) * operands[0].ndim
    places = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return [operands[0][tuple(slice(*place) for place in places)]]


@rule("tile")
def _tile(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [np.tile(operands[0], equation.params["reps"])]


@rule("rev")
def _rev(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [np.flip(operands[0], equation.params["dimensions"])]


@rule("iota")
def _iota(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    p = equation.params
    shape = [1] * len(p["shape"])
    shape[p["dimension"]] = -1
    count = np.arange(p["shape"][p["dimension"]]).reshape(shape)
    return [np.broadcast_to(count, p["shape"]).astype(p["dtype"])]


@rule("concatenate")
def _concatenate(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [np.concatenate(_alike(graph, operands), equation.params["dimension"])]


@rule("stack")
def _stack(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    return [np.stack(_alike(graph, operands), equation.params["axis"])]


@rule("unstack")
def _unstack(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    rows = np.moveaxis(operands[0], equation.params["axis"], 0)
    return [rows[i, ...] for i in range(len(rows))]


@rule("split")
def _split(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    ends = np.cumsum(equation.params["sizes"])[:-1]
    return list(np.split(operands[0], ends, equation.params["axis"]))


@rule("pad")
def _pad(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    value, filling = _alike(graph, operands)
    config = equation.params["padding_config"]
    spread = np.full(
        [n + max(n - 1, 0) * inside for n, (_, _, inside) in zip(value.shape, config, strict=True)],
        filling[()],
        value.dtype,
    )
    spread[tuple(slice(None, None, inside + 1) for _, _, inside in config)] = value
    out = np.full(equation.outvars[0].aval.shape, filling[()], value.dtype)
    into, where = [], []
    for n, (low, high, _) in zip(spread.shape, config, strict=True):
        where.append(slice(max(-low, 0), n - max(-high, 0)))
        into.append(slice(max(low, 0), max(low, 0) + n - max(-low, 0) - max(-high, 0)))
    out[tuple(into)] = spread[tuple(where)]
    return [out]


# The index that JAX gathers for an entry outside of the array
OUTSIDE = {"fill_value": -1}


@rule("gather")
def _gather(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """JAX gathers the indices of the entries, which say where each result comes from."""
    value, indices = operands
    _require_known(equation, indices)
    places = np.asarray(
        equation.primitive.bind(
            _places(value.shape), _as_given(equation, 1, indices), **equation.params | OUTSIDE
        )
    )
    if places.size and not 0 <= places.min() <= places.max() < value.size:
        raise unsupported(equation, "reaches outside of its array")
    return [value.ravel()[places]]


@rule("scatter")
def _scatter(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """JAX scatters indices: those of the old entries and, after those, of the new ones."""
    value, indices, updates = operands
    _require_known(equation, indices)
    value, updates = _alike(graph, [value, updates])
    if updates.size == value.size == 1:
        return [updates.reshape(value.shape)]
    new = _places(updates.shape) + value.size
    places = np.asarray(
        equation.primitive.bind(
            _places(value.shape), _as_given(equation, 1, indices), new, **equation.params
        )
    )
    both = np.concatenate([value.ravel(), updates.ravel()])
    return [both[places].reshape(value.shape)]


@rule("scatter-add", "scatter_add")
def _scatter_add(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    """Where each update goes is found by letting JAX add one update at a time."""
    value, indices, updates = operands
    _require_known(equation, indices)
    where = _as_given(equation, 1, indices)

    def target(one: Any) -> Any:
        blank = jax.numpy.zeros(value.shape, one.dtype)
        return equation.primitive.bind(blank, where, one, **equation.params)

    ones = np.eye(updates.size, dtype=equation.invars[2].aval.dtype).reshape(-1, *updates.shape)
    targets = np.asarray(jax.vmap(target)(ones)).reshape(updates.size, -1)
    out = as_nodes(graph, value).ravel().copy()
    for update, row in zip(as_nodes(graph, updates).ravel(), targets, strict=True):
        for place in np.flatnonzero(row):
            out[place] = apply(graph, "add", out[place], update)
    return [as_known(graph, out.reshape(value.shape))]


@rule("dynamic_slice")
def _dynamic_slice(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    value, *starts = operands
    sizes = equation.params["slice_sizes"]
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        dtype = equation.invars[1 + axis].aval.dtype
        value = _from(graph, value, start, size, axis, dtype)
    return [value]


def _from(graph: Graph, value: Value, start: Value, size: int, axis: int, dtype: Any) -> Value:
    """`size` entries from `start` on, which is clipped as in JAX, so that all lie in the array."""
    last = value.shape[axis] - size
    parts = [np.take(value, range(i, i + size), axis) for i in range(last + 1)]
    if is_known(start):
        return parts[int(np.clip(start, 0, last))]
    chosen = parts[-1]
    for i in reversed(range(last)):
        before = elementwise(graph, "le", start, np.array(i, dtype))
        chosen = elementwise(graph, "select", before, parts[i], chosen)
    return chosen


@rule("dynamic_update_slice")
def _dynamic_update_slice(graph: Graph, operands: list[Value], equation: Any) -> list[Value]:
    value, update, *starts = operands
    value, update = _alike(graph, [value, update])
    limits = [n - m for n, m in zip(value.shape, update.shape, strict=True)]
    each = [
        [int(np.clip(start, 0, limit))] if is_known(start) else list(range(limit + 1))
        for start, limit in zip(starts, limits, strict=True)
    ]
    made: Value | None = None
    for firsts in itertools.product(*(places[::-1] for places in each)):
        out = value.copy()
        out[tuple(slice(f, f + n) for f, n in zip(firsts, update.shape, strict=True))] = update
        made = out if made is None else _where_before(graph, equation, starts, firsts, out, made)
    assert made is not None
    return [made]


def _where_before(
    graph: Graph, equation: Any, starts: Sequence[Value], firsts: Any, here: Value, other: Value
) -> Value:
    """`here` where no start that is unknown lies beyond its place in `firsts`."""
    for i, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        if not is_known(start):
            dtype = equation.invars[2 + i].aval.dtype
            before = elementwise(graph, "le", start, np.array(first, dtype))
            here = elementwise(graph, "select", before, here, other)
    return here


def _alike(graph: Graph, values: list[Value]) -> list[Value]:
    """All of constants, or all of nodes."""
    if all(is_known(value) for value in values):
        return values
    return [as_nodes(graph, value) for value in values]


def _places(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def _as_given(equation: Any, operand: int, value: Value) -> np.ndarray:
    return value.astype(equation.invars[operand].aval.dtype)


def _require_known(equation: Any, indices: Value) -> None:
    if not is_known(indices):
        raise unsupported(equation, "has a place that is only known at run time")
