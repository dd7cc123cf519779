"""A filter as three functions of plain arrays: how it starts, steps, and steps unmeasured."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.deploy import primitives, rearranging  # noqa: F401  (they register their rules)
from sagewing.deploy.graph import Graph, Node
from sagewing.deploy.operations import Kind
from sagewing.deploy.refusal import NotInC
from sagewing.deploy.trace import trace
from sagewing.deploy.values import Value, elements, nodes
from sagewing.filters import checks
from sagewing.filters.recursion import Estimate
from sagewing.filters.running import complete


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
    """What a function computes: for each field of the state and of the estimate its entries."""

    graph: Graph
    state: list[Value]
    estimate: list[Value]

    def outputs(self) -> list[Node]:
        """All entries."""
        return [node for value in (*self.state, *self.estimate) for node in value.ravel()]


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


def program(filt: Any, n_u: int, dtype: Any) -> Program:
    """Trace a filter's `init` and `step`, for inputs of this size (0: none), in a precision."""
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
        fields, structure = _fields(start)

        def step(leaves: Any, z: Any, arrived: Any, u: Any, dt: Any) -> tuple[Any, Estimate]:
            state, said = filt.step(jax.tree.unflatten(structure, leaves), z, u, dt, arrived)
            return jax.tree.leaves(state), complete(filt, said._replace(trace=None), ())

        def unmeasured(leaves: Any, u: Any, dt: Any) -> tuple[Any, Estimate]:
            return step(leaves, jnp.zeros(n_z, dtype), jnp.zeros(n_z, bool), u, dt)

        leaves = jax.tree.leaves(start)
        names = [f"s->{field.name}" for field in fields]
        said = jax.eval_shape(step, leaves, z, flags, u, dt)[1]
        return Program(
            n_x,
            n_z,
            n_u,
            fields,
            _fields(said)[0],
            _traced(lambda x, P: (jax.tree.leaves(filt.init(x, P)), ()), ["x0", "P0"], x0, P0),
            _traced(
                step, [*names, "z", "arrived", *["u"][: n_u > 0], "dt"], leaves, z, flags, u, dt
            ),
            _traced(unmeasured, [*names, *["u"][: n_u > 0], "dt"], leaves, u, dt),
        )


def _traced(function: Callable[..., Any], names: list[str], *args: Any) -> Function:
    """The graph of a function whose arguments have these names in C."""
    made, out = jax.make_jaxpr(function, return_shape=True)(*args)
    reals = [a.dtype for a in jax.tree.leaves(args) if a.dtype.kind == "f"]
    graph = Graph(reals[0])
    operands = []
    for name, arg in zip(names, jax.tree.leaves(args), strict=True):
        vector = graph.vector("input", (), Input(name, arg.shape == ()), _kind(arg.dtype))
        operands.append(_named(graph, vector, arg.shape, name.endswith("P")))
    results = [nodes(graph, value) for value in trace(graph, made, operands)]
    n_state = len(jax.tree.leaves(out[0]))
    return Function(graph, results[:n_state], results[n_state:])


def _named(graph: Graph, vector: Node, shape: tuple[int, ...], covariance: bool) -> Value:
    """The entries of an input; a covariance is symmetric, so that half of it need be read."""
    size = int(np.prod(shape))
    if shape == ():
        return elements(graph, vector, 1).reshape(())
    entries = elements(graph, vector, size).reshape(shape)
    if covariance and len(shape) == 2 and shape[0] == shape[1]:
        upper = np.triu_indices(shape[0], 1)
        entries[upper] = entries.T[upper]
    return entries


def _fields(tree: Any) -> tuple[list[Field], Any]:
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    fields = []
    for path, leaf in paths:
        name = "_".join(
            str(getattr(k, "name", getattr(k, "idx", getattr(k, "key", k)))) for k in path
        )
        fields.append(Field(name, leaf.shape, _kind(leaf.dtype)))
    return fields, structure


def _kind(dtype: Any) -> Kind:
    kinds: dict[str, Kind] = {"f": "real", "i": "int", "u": "int", "b": "bool"}
    if np.dtype(dtype).kind not in kinds:
        raise NotInC(f"A filter's state cannot hold numbers of type {dtype} in C.")
    return kinds[np.dtype(dtype).kind]


def in_precision(filt: Any, dtype: np.dtype) -> Any:
    """The filter with all of its real numbers in this precision."""

    def cast(leaf: Any) -> Any:
        real = isinstance(leaf, (jax.Array, np.ndarray)) and leaf.dtype.kind == "f"
        return jnp.asarray(np.asarray(leaf), dtype) if real else leaf

    return jax.tree.map(cast, filt)
