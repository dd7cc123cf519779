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
from sagewing.filters import model_checks
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.protocols import Filter
from sagewing.filters.recovery import Recovering, Verdict
from sagewing.filters.step import Estimate, Step


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


class FilterFunctions:
    """A filter in one precision as functions of arrays, which `traced` makes graphs of.

    A state is given as its leaves. `old` are these as arguments, `members` their fields.
    """

    def __init__(self, filt: Filter, n_u: int, dtype: np.dtype, row_loops: bool = True):
        self.filt = in_precision(filt, dtype)
        self.given = examples(self.filt, n_u, dtype)
        self.leaves, self._structure = jax.tree.flatten(self.given.state)
        self.members = fields(self.given.state, dtype)
        self.old = [of_state(field) for field in self.members]
        self.inputs, self.seconds = inputs_of_step(n_u)
        self.traced = partial(traced_function, row_loops)
        self._recovering = self.filt if isinstance(self.filt, Recovering) else None

    def init(self, x: Any, P: Any) -> Outputs:
        """The state before the first measurement."""
        return self.filt.init(x, P), None, None

    def stepped(
        self, leaves: Any, z: Any, arrived: Any, u: Any, dt: Any
    ) -> tuple[Any, Step, RecoverCall | None]:
        """The state after a step, the step, and whether to recover after it."""
        state = jax.tree.unflatten(self._structure, leaves)
        if self._recovering is None:
            return *self.filt.step(state, z, u, dt, arrived), None
        state, step, verdict = self._recovering.plain_step(state, z, u, dt, arrived)
        return state, step, RecoverCall(self._recovering.due(state, verdict), *verdict)

    def estimate(self, step: Step) -> Estimate:
        """The public part of a step."""
        return fill_nominal_noise(self.filt, step.estimate, ())

    def step(self, leaves: Any, z: Any, arrived: Any, u: Any, dt: Any) -> Outputs:
        """A step with its estimate."""
        state, step, call = self.stepped(leaves, z, arrived, u, dt)
        return state, self.estimate(step), call

    def predict_only(self, leaves: Any, u: Any, dt: Any) -> Outputs:
        """A step without a measurement."""
        z, arrived = (jnp.zeros(a.shape, a.dtype) for a in (self.given.z, self.given.arrived))
        return self.step(leaves, z, arrived, u, dt)

    def traced_step(self, step: Callable[..., Outputs]) -> Function:
        """The graph of a step, with what it returns."""
        arguments = [*self.old, *MEASURED, *self.inputs, self.seconds]
        return self.traced(step, arguments, self.leaves, *self.given[2:6])

    def traced_recover(self) -> Function | None:
        """The graph of `recover`; None where there is nothing to recover."""
        recovering = self._recovering
        if recovering is None:
            return None

        def recover(leaves: Any, verdict: Any) -> Outputs:
            state = jax.tree.unflatten(self._structure, leaves)
            return recovering.recover(state, verdict), None, None

        flag: Any = jax.ShapeDtypeStruct((), np.bool_)
        verdict = Verdict(self.given.arrived, self.given.arrived, flag)
        arguments = [*self.old, *map(Argument, Verdict._fields)]
        return self.traced(recover, arguments, self.leaves, verdict)


def program(filt: Filter, n_u: int, dtype: Any, row_loops: bool = True) -> Program:
    """Trace a filter's functions, for inputs of this size (0: none), in a precision.

    With `row_loops` the rows of a large matrix become loops.
    """
    dtype = np.dtype(dtype)
    with jax.enable_x64(dtype == np.float64):
        made = FilterFunctions(filt, n_u, dtype, row_loops)
        given, leaves = made.given, made.leaves
        _, estimate, _ = jax.eval_shape(made.step, leaves, *given[2:6])
        between = [*made.old, *made.inputs, made.seconds]
        return Program(
            StructLayout(*sizes(made.filt), n_u, made.members, fields(estimate, dtype)),
            made.traced(made.init, START, given.x0, given.P0),
            made.traced_step(made.step),
            made.traced(made.predict_only, between, leaves, given.u, given.dt),
            made.traced_recover(),
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
    model_checks.model_shapes(filt, inputs, dt)
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
