"""A filter as functions of plain arrays: how it starts, steps, steps unmeasured and recovers."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.operations import Kind
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.rules import primitives, rearranging  # noqa: F401  (they register their rules)
from sagewing.codegen.trace import trace
from sagewing.codegen.types import REALS, WHOLE, is_key
from sagewing.codegen.values import LOOP_LENGTH, Value, elements, elementwise, gathered, nodes
from sagewing.filters import checks
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.recovery import Recovering, Verdict
from sagewing.filters.step import Estimate


class Field(NamedTuple):
    """An array of the C structs."""

    name: str
    shape: tuple[int, ...]
    kind: Kind

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape))


class Input(NamedTuple):
    """An argument's name in C; a single number is not an array there."""

    name: str
    is_number: bool


class Function(NamedTuple):
    """What a function computes: for each field of the state and of the estimate its entries.

    A step also says whether and with what to recover: `due`, and the verdict's parts.
    """

    graph: Graph
    state: list[Value]
    estimate: list[Value]
    recovery: list[Value]

    def outputs(self) -> list[Node]:
        """All entries."""
        values = (*self.state, *self.estimate, *self.recovery)
        return [node for value in values for node in value.ravel()]


class Program(NamedTuple):
    """A filter in one precision."""

    n_x: int
    n_z: int
    n_u: int
    state: list[Field]
    estimate: list[Field]
    init: Function
    step: Function
    predict_only: Function
    recover: Function | None  # between two steps, where one says that it is due


def program(filt: Any, n_u: int, dtype: Any, rows: bool = True) -> Program:
    """Trace a filter's functions, for inputs of this size (0: none), in a precision.

    With `rows` those of a large matrix become loops.
    """
    dtype = np.dtype(dtype)
    with jax.enable_x64(dtype == np.float64):
        filt = in_precision(filt, dtype)
        n_x, n_z = filt.n_x, filt.n_z
        x0, P0 = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((n_x,), (n_x, n_x)))
        z, dt = jax.ShapeDtypeStruct((n_z,), dtype), jax.ShapeDtypeStruct((), dtype)
        u = jax.ShapeDtypeStruct((n_u,), dtype) if n_u else None
        flags = jax.ShapeDtypeStruct((n_z,), np.bool_)
        checks.model_shapes(filt.model, n_x, n_z, u, dt)
        start = jax.eval_shape(filt.init, x0, P0)
        fields, structure = _fields(start, dtype)
        recovers = isinstance(filt, Recovering)

        def step(leaves: Any, z: Any, arrived: Any, u: Any, dt: Any) -> tuple[Any, Estimate, Any]:
            state, due = jax.tree.unflatten(structure, leaves), ()
            if recovers:
                state, said, verdict = filt.plain_step(state, z, u, dt, arrived)
                due = (state.recovery.due(verdict.ok), verdict)
            else:
                state, said = filt.step(state, z, u, dt, arrived)
            return state, fill_nominal_noise(filt, said.estimate, ()), due

        def unmeasured(leaves: Any, u: Any, dt: Any) -> tuple[Any, Estimate, Any]:
            return step(leaves, jnp.zeros(n_z, dtype), jnp.zeros(n_z, bool), u, dt)

        def recover(leaves: Any, verdict: Any) -> tuple[Any, Any, Any]:
            return filt.recover(jax.tree.unflatten(structure, leaves), Verdict(*verdict)), (), ()

        traced = partial(_traced, rows)
        verdict: Any = (flags, flags, jax.ShapeDtypeStruct((), np.bool_))
        leaves = jax.tree.leaves(start)
        names = [f"s->{field.name}" for field in fields]
        said = jax.eval_shape(step, leaves, z, flags, u, dt)[1]
        return Program(
            n_x,
            n_z,
            n_u,
            fields,
            _fields(said, dtype)[0],
            traced(lambda x, P: (filt.init(x, P), (), ()), ["x0", "P0"], x0, P0),
            traced(
                step, [*names, "z", "arrived", *["u"][: n_u > 0], "dt"], leaves, z, flags, u, dt
            ),
            traced(unmeasured, [*names, *["u"][: n_u > 0], "dt"], leaves, u, dt),
            traced(recover, [*names, *Verdict._fields], leaves, verdict) if recovers else None,
        )


def _traced(rows: bool, function: Callable[..., Any], names: list[str], *args: Any) -> Function:
    """The state and the estimate that a function gives; its arguments have these names in C."""
    graph, values, out = followed(rows, function, names, *args)
    fields = [_fields(tree, graph.dtype)[0] for tree in out]
    each = iter(values)
    results = [
        [
            gathered(graph, _symmetric(f.name, nodes(graph, _of_field(graph, f, next(each)))))
            for f in part
        ]
        for part in fields
    ]
    return Function(graph, *results)


def followed(
    rows: bool, function: Callable[..., Any], names: list[str], *args: Any
) -> tuple[Graph, list[Value], Any]:
    """The graph of a function of arrays, its results there, and their shapes."""
    made, out = jax.make_jaxpr(function, return_shape=True)(*args)
    real = next(a.dtype for a in jax.tree.leaves(args) if a.dtype in REALS)
    graph = Graph(real, rows)
    operands = []
    for name, arg in zip(names, jax.tree.leaves(args), strict=True):
        vector = graph.vector("input", (), Input(name, arg.shape == ()), _kind(arg.dtype, real))
        entries = elements(graph, vector, int(np.prod(arg.shape))).reshape(arg.shape)
        if arg.dtype == np.int64:
            entries = elementwise(graph, "to_long", entries)
        read_in_loops = graph.rows and max(arg.shape, default=0) >= LOOP_LENGTH
        operands.append(entries if read_in_loops else _symmetric(name, entries))
    return graph, trace(graph, made, operands), out


def _of_field(graph: Graph, field: Field, value: Value) -> Value:
    """What a field of the structs holds: an int, where JAX has whole numbers of 64 bits."""
    return elementwise(graph, "to_int", value) if field.kind == "int" else value


def _symmetric(name: str, value: Value) -> Value:
    """An array; the upper half of a covariance is the lower one, whatever rounding says."""
    if value.ndim != 2 or name.split("->")[-1] not in ("P", "P0"):
        return value
    upper = np.triu_indices(len(value), 1)
    value = value.copy()
    value[upper] = value.T[upper]
    return value


def _fields(tree: Any, real: np.dtype) -> tuple[list[Field], Any]:
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    fields = []
    for path, leaf in paths:
        name = "_".join(
            str(getattr(k, "name", getattr(k, "idx", getattr(k, "key", k)))) for k in path
        )
        fields.append(Field(name, leaf.shape, _kind(leaf.dtype, real)))
    return fields, structure


def _kind(dtype: Any, real: np.dtype) -> Kind:
    """The kind of a field; a filter's own count of steps is an int, also in double precision."""
    kinds: dict[Any, Kind] = {real: "real", np.bool_: "bool", **dict.fromkeys(WHOLE, "int")}
    for known, kind in kinds.items():
        if dtype == known:
            return kind
    types = f"bool, int32 and {real}"
    raise NotInC(f"A filter's state cannot hold numbers of type {dtype} in C: use {types} in init.")


def in_precision(filt: Any, dtype: np.dtype) -> Any:
    """The filter with all of its real numbers in this precision; other types are refused."""

    def cast(leaf: Any) -> Any:
        if not isinstance(leaf, (jax.Array, np.ndarray)):
            return leaf
        if is_key(leaf.dtype) or (leaf.dtype not in REALS and leaf.dtype.kind not in "biu"):
            raise NotInC(
                f"The filter has an array of type {leaf.dtype}, which C does not have; make it "
                'float32 or float64, or run this filter with backend="jax".'
            )
        return jnp.asarray(np.asarray(leaf), dtype) if leaf.dtype in REALS else leaf

    return jax.tree.map(cast, filt)
