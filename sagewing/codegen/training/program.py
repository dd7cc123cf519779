"""A filter's step for training, and its derivative, as functions of plain arrays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sagewing.codegen.rules  # noqa: F401  (the primitives' rules register themselves)
from sagewing.codegen.arrays import Value, as_nodes, entries
from sagewing.codegen.fields import Argument, Field, fields, kind_of
from sagewing.codegen.graph import Graph, Node
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.trace import trace
from sagewing.codegen.training.parts import Part, parts
from sagewing.codegen.training.products import WeightProduct, evaluate, known_product, products
from sagewing.filters.recovery import Recovering, Verdict

# The arrays of the C functions
PARAMETERS, CARRY, KEPT, RESULTS = "parameters", "carry", "kept", "results"


class Pass(NamedTuple):
    """What a function computes: its graph, and its results by their names in C, packed."""

    graph: Graph
    results: dict[str, list[Node]]

    def outputs(self) -> list[Node]:
        """All entries."""
        return [node for nodes in self.results.values() for node in nodes]


class TrainingLayout(NamedTuple):
    """The arrays of a training in one precision.

    `parameters` are those that all records share, `carry` those of the state, `saved` what is saved
    of a step, with the `structure` of its tree. `trained` flags the parameters by which the
    derivative is wanted, `restarts` is the place in the state of the count of restarts, if the
    filter recovers.
    """

    dtype: np.dtype
    n_z: int
    n_u: int
    parameters: list[Part]
    trained: tuple[bool, ...]
    carry: list[Part]
    restarts: int | None
    saved: list[Part]
    structure: Any
    products: list[WeightProduct]


class TrainingProgram(NamedTuple):
    """A filter's training: a step, what recovers the state after it, and the derivative of a step.

    `summed` are the places of the parameters by which the derivative is added up in every step; by
    the weights of products it is made of the vectors and of the derivatives by the results.
    """

    layout: TrainingLayout
    forward: Pass
    recover: Pass | None
    reverse: Pass
    summed: list[int]


class Shapes(NamedTuple):
    """The shapes of what a step takes, for one record."""

    parameters: list[Any]
    state: Any
    z: Any
    arrived: Any
    u: Any
    dt: Any


def training_program(
    filter_of: Callable[[Sequence[Any]], Any],
    save: Callable[[Any, Any], Any],
    given: Shapes,
    trained: Sequence[bool],
) -> TrainingProgram:
    """Trace the step of the filter that `filter_of` makes of its parameters, and its derivative."""
    dtype = np.dtype(given.z.dtype)
    leaves, structure = jax.tree.flatten(given.state)
    members = fields(given.state, dtype)
    _require_real(members)
    count = len(given.parameters)
    recovers = isinstance(filter_of(given.parameters), Recovering)

    structure_of_saved: list[Any] = []

    def kept_of(made: Any) -> list[Any]:
        leaves, shape = jax.tree.flatten(save(made, None))
        structure_of_saved.append(shape)
        return leaves

    def step(*args: Any) -> Any:
        parameters, rest = args[:count], args[count:]
        filt = filter_of(parameters)
        state = jax.tree.unflatten(structure, rest[: len(leaves)])
        z, arrived, u, dt = rest[len(leaves) :]
        if not isinstance(filt, Recovering):
            new, made = filt.step(state, z, u, dt, arrived)
            return jax.tree.leaves(new), kept_of(made), ()
        new, made, verdict = filt.plain_step(state, z, u, dt, arrived)
        call = (filt.due(new, verdict), *verdict)
        return jax.tree.leaves(new), kept_of(made), call

    def recover(*args: Any) -> Any:
        filt = filter_of(args[:count])
        assert isinstance(filt, Recovering)
        state = jax.tree.unflatten(structure, args[count : count + len(leaves)])
        return jax.tree.leaves(filt.recover(state, Verdict(*args[count + len(leaves) :])))

    arguments = (*given.parameters, *leaves, given.z, given.arrived, given.u, given.dt)
    program, shapes = jax.make_jaxpr(step, return_shape=True)(*arguments)
    arguments = jax.tree.leaves(arguments)  # without u, if there is none
    _require_real(fields(shapes[1], dtype))
    products(program, count)
    carry = parts([f.shape for f in members], [f.symmetric for f in members])
    made = TrainingLayout(
        dtype,
        n_z=given.z.shape[0],
        n_u=0 if given.u is None else given.u.shape[0],
        parameters=parts([a.shape for a in given.parameters]),
        trained=tuple(trained),
        carry=carry,
        restarts=carry[_leaf_of_restarts(given.state)].first if recovers else None,
        saved=parts([a.shape for a in shapes[1]]),
        structure=structure_of_saved[-1],
        products=products(program, count),
    )
    flags = (given.arrived, given.arrived, jax.ShapeDtypeStruct((), np.bool_))
    inputs = (*given.parameters, *leaves, *flags)
    return TrainingProgram(
        made,
        _forward(made, program, arguments),
        _recover(made, recover, inputs) if recovers else None,
        *_reverse(made, program, arguments),
    )


def _forward(made: TrainingLayout, program: Any, arguments: Sequence[Any]) -> Pass:
    """The step, with the results of its products."""
    count, size = len(made.parameters), len(made.carry)

    def step(*args: Any) -> Any:
        results: list[Any] = []

        def multiply(number: int, W: Any, X: Any) -> Any:
            results.append(W @ X)
            return results[-1]

        out = evaluate(program, args, count, multiply)
        saved = size + len(made.saved)
        return out[:size], out[size:saved], results, out[saved:]

    graph, (new, saved, results, call) = _traced(made, step, arguments, _step_inputs(made))
    named = {"carry_new": _packed(made.carry, new), "saved": _packed(made.saved, saved)}
    named[KEPT] = [node for value in results for node in value.ravel()]
    for name, value in zip(("due", "measured", "usable", "finite"), call, strict=False):
        named[name] = list(value.ravel())
    return Pass(graph, named)


def _recover(made: TrainingLayout, recover: Any, arguments: Sequence[Any]) -> Pass:
    """What `recover` makes of the state after a step."""
    given = [*_shared(made), *_carried(made, "carry_new")]
    given += [(Argument("measured"), None), (Argument("usable"), None)]
    given += [(Argument("finite", True), None)]
    graph, new = _traced(made, recover, arguments, given)
    return Pass(graph, {"recovered": _packed(made.carry, new)})


def _reverse(
    made: TrainingLayout, program: Any, arguments: Sequence[Any]
) -> tuple[Pass, list[int]]:
    """The derivatives by the parameters and by the state before the step.

    Also the vectors of each product, and the derivatives by its results. The derivative by the
    weights of a product is made of these, so it is given by other parameters, at these places.
    """
    count, size, saved = len(made.parameters), len(made.carry), len(made.saved)
    dtype = made.dtype
    products = [
        jax.ShapeDtypeStruct((p.rows,) if p.columns == 1 else (p.rows, p.columns), dtype)
        for p in made.products
    ]
    bars = [jax.ShapeDtypeStruct(p.shape, dtype) for p in (*made.carry, *made.saved)]

    def reverse(*args: Any) -> Any:
        given, rest = args[: len(arguments)], args[len(arguments) :]
        known, bars = rest[: len(products)], rest[len(products) :]
        fixed = given[count + size :]

        def forward(parameters: Any, state: Any, taps: Any) -> Any:
            vectors: list[Any] = []

            def multiply(number: int, W: Any, X: Any) -> Any:
                place = len(vectors)
                vectors.append(X)
                return known_product(W, X, known[place], taps[place])

            every = iter(parameters)
            stopped = [next(every) if flag else given[i] for i, flag in enumerate(made.trained)]
            out = evaluate(program, (*stopped, *state, *fixed), count, multiply)
            return out[: size + saved], vectors

        wanted = [given[i] for i, flag in enumerate(made.trained) if flag]
        taps = [jnp.zeros_like(a) for a in known]
        _, pull, vectors = jax.vjp(
            forward, wanted, list(given[count : count + size]), taps, has_aux=True
        )
        by_parameters, by_state, by_taps = pull(list(bars))
        by_state = [
            0.5 * (bar + bar.T) if part.symmetric else bar
            for bar, part in zip(by_state, made.carry, strict=True)
        ]
        return by_state, by_parameters, vectors, by_taps

    inputs = _step_inputs(made)
    first = 0
    for shape in products:
        argument = Argument(f"({RESULTS} + {first})")
        inputs.append((argument, None))
        first += int(np.prod(shape.shape))
    inputs += _carried(made, "bar")
    inputs += [(Argument(f"(saved_bar + {p.first})"), None) for p in made.saved]
    graph, made_values = _traced(made, reverse, (*arguments, *products, *bars), inputs)
    by_state, by_parameters, vectors, by_taps = made_values
    trained = [p for p, flag in zip(made.parameters, made.trained, strict=True) if flag]
    places = [i for part in trained for i in range(part.first, part.last)]
    every = zip(places, _packed(trained, by_parameters), strict=True)
    summed = [(i, node) for i, node in every if node.op != "const" or node.attr != 0]
    results = {
        "bar_new": _packed(made.carry, by_state),
        "by_parameters": [node for _, node in summed],
        "vectors": [node for value in vectors for node in value.ravel()],
        "by_products": [node for value in by_taps for node in value.ravel()],
    }
    return Pass(graph, results), [i for i, _ in summed]


# An argument of a C function, and the part of an array that it is, if this is packed
Input = tuple[Argument, Part | None]


def _shared(made: TrainingLayout) -> list[Input]:
    return [(Argument(f"({PARAMETERS} + {p.first})", shared=True), None) for p in made.parameters]


def _carried(made: TrainingLayout, name: str) -> list[Input]:
    return [(Argument(f"({name} + {part.first})", finite=True), part) for part in made.carry]


def _step_inputs(made: TrainingLayout) -> list[Input]:
    measured: list[Input] = [(Argument("z", finite=True), None), (Argument("arrived"), None)]
    inputs: list[Input] = [(Argument("u"), None)] if made.n_u else []
    seconds = Argument("dt", is_number=True, finite=True, not_negative=True)
    return [*_shared(made), *_carried(made, CARRY), *measured, *inputs, (seconds, None)]


def _traced(
    made: TrainingLayout, function: Any, args: Sequence[Any], inputs: Sequence[Input]
) -> tuple[Graph, Any]:
    """The graph of a function of arrays, and its results there."""
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    graph = Graph(made.dtype, row_loops=False, exact_model=False)
    operands = []
    for (argument, part), arg in zip(inputs, jax.tree.leaves(args), strict=True):
        vector = graph.vector("input", (), argument, kind_of(arg.dtype, made.dtype))
        flat = entries(graph, vector, int(np.prod(arg.shape)) if part is None else part.size)
        operands.append(flat.reshape(arg.shape) if part is None else part.unpacked(flat))
    values = trace(graph, program, operands)
    values = [as_nodes(graph, value) for value in values]
    return graph, jax.tree.unflatten(jax.tree.structure(shapes), values)


def _packed(places: Sequence[Part], values: Sequence[Value]) -> list[Node]:
    return [node for part, v in zip(places, values, strict=True) for node in part.packed(v).ravel()]


def _require_real(members: Sequence[Field]) -> None:
    for field in members:
        if field.kind != "real":
            raise NotInC(f"{field.name} is not a real number, and training in C knows only those.")


def _leaf_of_restarts(state: Any) -> int:
    """The number of the array of a state that counts the restarts."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state)]
    return [jax.tree_util.keystr(path[-1:]) == ".restarts" for path in paths].index(True)
