"""A filter as functions of plain arrays: how it starts, steps, predicts only and recovers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sagewing.codegen.rules  # noqa: F401  (the primitives' rules register themselves)
from sagewing.codegen.arrays import LOOP_LENGTH, Value, as_nodes, entries, in_one_vector
from sagewing.codegen.elementwise import elementwise
from sagewing.codegen.fields import Argument, Field, fields, kind_of, of_state
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.trace import trace
from sagewing.codegen.types import REALS, is_key
from sagewing.filters import checks
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.protocols import Filter
from sagewing.filters.recovery import Recovering, Verdict
from sagewing.filters.sizes import all_written_out


class RecoverCall(NamedTuple):
    """Whether a step is followed by `recover`, and the parts of the verdict that this is given."""

    due: Any
    arrived: Any
    kept: Any
    finite: Any


# The state, the estimate of a step, and whether to recover after it
Outputs = tuple[Any, Any, RecoverCall | None]
# The arguments of `init`, and of a step
START = (Argument("x0"), Argument("P0", symmetric=True))
MEASURED = (Argument("z", finite=True), Argument("arrived"))


class Function(NamedTuple):
    """What a function computes: the state, and of a step also the estimate, by their fields' names.

    `recover` is None where the filter has nothing to recover.
    """

    graph: Graph
    state: dict[str, Value]
    estimate: dict[str, Value]
    recover: RecoverCall | None

    def outputs(self) -> list[Node]:
        """All entries."""
        values = (*self.state.values(), *self.estimate.values(), *(self.recover or ()))
        return [node for value in values for node in value.ravel()]


class StructLayout(NamedTuple):
    """The sizes of a filter, and the members of its structs."""

    n_x: int
    n_dx: int
    n_z: int
    n_u: int
    state: list[Field]
    estimate: list[Field]


class Examples(NamedTuple):
    """The shapes of what the functions of a filter take."""

    x0: Any
    P0: Any
    z: Any
    arrived: Any
    u: Any
    dt: Any
    state: Any


class Program(NamedTuple):
    """A filter in one precision."""

    layout: StructLayout
    init: Function
    step: Function
    predict_only: Function
    recover: Function | None  # called after a step, where it is due

    def functions(self) -> dict[str, Function]:
        """The functions by their names in C, in the order in which they are written."""
        made = {"init": self.init, "recover": self.recover, "step": self.step}
        made["predict_only"] = self.predict_only
        return {name: function for name, function in made.items() if function is not None}


def program(filt: Filter, n_u: int, dtype: Any, row_loops: bool = True) -> Program:
    """Trace a filter's functions, for inputs of this size (0: none), in a precision.

    With `row_loops` the rows of a large matrix become loops.
    """
    dtype = np.dtype(dtype)
    with jax.enable_x64(dtype == np.float64):
        filt = in_precision(filt, dtype)
        given = examples(filt, n_u, dtype)
        leaves, structure = jax.tree.flatten(given.state)
        members = fields(given.state, dtype)
        recovering = filt if isinstance(filt, Recovering) else None

        def init(x: Any, P: Any) -> Outputs:
            return filt.init(x, P), None, None

        def step(leaves: Any, z: Any, arrived: Any, u: Any, dt: Any) -> Outputs:
            state, call = jax.tree.unflatten(structure, leaves), None
            if recovering is not None:
                state, made, verdict = recovering.plain_step(state, z, u, dt, arrived)
                call = RecoverCall(recovering.due(state, verdict), *verdict)
            else:
                state, made = filt.step(state, z, u, dt, arrived)
            return state, fill_nominal_noise(filt, made.estimate, ()), call

        def predict_only(leaves: Any, u: Any, dt: Any) -> Outputs:
            z, arrived = (jnp.zeros(a.shape, a.dtype) for a in (given.z, given.arrived))
            return step(leaves, z, arrived, u, dt)

        def recover(leaves: Any, verdict: Any) -> Outputs:
            state = jax.tree.unflatten(structure, leaves)
            new = state if recovering is None else recovering.recover(state, verdict)
            return new, None, None

        traced = partial(traced_function, row_loops)
        old = [of_state(field) for field in members]
        inputs, seconds = inputs_of_step(n_u)
        _, estimate, _ = jax.eval_shape(step, leaves, *given[2:6])
        flag: Any = jax.ShapeDtypeStruct((), np.bool_)
        verdict = Verdict(given.arrived, given.arrived, flag)
        return Program(
            StructLayout(*sizes(filt), n_u, members, fields(estimate, dtype)),
            traced(init, START, given.x0, given.P0),
            traced(step, [*old, *MEASURED, *inputs, seconds], leaves, *given[2:6]),
            traced(predict_only, [*old, *inputs, seconds], leaves, given.u, given.dt),
            traced(recover, [*old, *map(Argument, Verdict._fields)], leaves, verdict)
            if recovering is not None
            else None,
        )


def sizes(filt: Filter) -> tuple[int, int, int]:
    """The numbers of states, of errors and of channels."""
    return filt.n_x, filt.q0.size, filt.n_z


def examples(filt: Filter, n_u: int, dtype: np.dtype) -> Examples:
    """What the functions of a filter take; refuses a model whose functions do not fit."""
    n_x, n_dx, n_z = sizes(filt)
    shapes: Any = ((n_x,), (n_dx, n_dx), (n_z,), (n_u,), ())
    x0, P0, z, u, dt = (jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
    arrived: Any = jax.ShapeDtypeStruct((n_z,), np.bool_)
    inputs = u if n_u else None
    checks.model_shapes(filt, inputs, dt)
    return Examples(x0, P0, z, arrived, inputs, dt, jax.eval_shape(filt.init, x0, P0))


def inputs_of_step(n_u: int) -> tuple[list[Argument], Argument]:
    """The arguments u and dt of a step, which refuses a dt that is not finite or negative."""
    seconds = Argument("dt", finite=True, not_negative=True)
    return [Argument("u")] if n_u else [], seconds


def traced_function(
    row_loops: bool,
    function: Callable[..., Outputs],
    inputs: Sequence[Argument],
    *args: Any,
    reduces: bool = False,
) -> Function:
    """The state, the estimate and the call of `recover` that a function gives."""
    made = traced_arrays(row_loops, function, inputs, *args, reduces=reduces)
    graph, values, (state, estimate, call) = made
    each = iter(values)
    new, said = (
        {field.name: _output(graph, field, next(each)) for field in fields(tree, graph.dtype)}
        for tree in (state, estimate)
    )
    rest = [as_nodes(graph, value) for value in each]
    return Function(graph, new, said, None if call is None else RecoverCall(*rest))


def traced_arrays(
    row_loops: bool,
    function: Callable[..., Any],
    inputs: Sequence[Argument],
    *args: Any,
    reduces: bool = False,
) -> tuple[Graph, list[Value], Any]:
    """The graph of a function of arrays, its results there, and their shapes."""
    with all_written_out():
        made, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    real = next(a.dtype for a in jax.tree.leaves(args) if a.dtype in REALS)
    graph = Graph(real, row_loops, reduces)
    operands = []
    for given, arg in zip(inputs, jax.tree.leaves(args), strict=True):
        argument = given._replace(is_number=arg.shape == ())
        vector = graph.vector("input", (), argument, kind_of(arg.dtype, real))
        value = entries(graph, vector, int(np.prod(arg.shape))).reshape(arg.shape)
        if arg.dtype == np.int64:
            value = elementwise(graph, "to_long", value)
        read_in_loops = graph.row_loops and max(arg.shape, default=0) >= LOOP_LENGTH
        operands.append(_lower_half(value) if given.symmetric and not read_in_loops else value)
    return graph, trace(graph, made, operands), shapes


def _output(graph: Graph, field: Field, value: Value) -> Value:
    """The entries of a struct's member; it is an int where JAX has integers of 64 bits."""
    if field.kind == "int":
        value = elementwise(graph, "to_int", value)
    value = as_nodes(graph, value)
    return in_one_vector(graph, _lower_half(value) if field.symmetric else value)


def _lower_half(value: Value) -> Value:
    """Symmetric matrices, whose upper half repeats the lower one to the last bit."""
    upper = np.triu_indices(len(value), 1)
    value = value.copy()
    value[upper] = np.swapaxes(value, 0, 1)[upper]
    return value


def in_precision(filt: Filter, dtype: np.dtype) -> Filter:
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
