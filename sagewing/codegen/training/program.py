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
from sagewing.codegen.training.products import Product, evaluate, known_product, products
from sagewing.filters.recovery import Recovering, Verdict

# The arrays of the C functions
PARAMETERS, CARRY, KEPT = "parameters", "carry", "kept"


class Part(NamedTuple):
    """An array among those that lie one after the other in C; of a symmetric one the lower half."""

    first: int
    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def size(self) -> int:
        """The number of entries."""
        if self.symmetric:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return int(np.prod(self.shape))

    @property
    def last(self) -> int:
        """The place after its last entry."""
        return self.first + self.size

    def packed(self, array: Any) -> Any:
        """The entries of an array one after the other, with the batch in the last axis, if any."""
        if self.symmetric:
            return array[np.tril_indices(self.shape[0])]
        return array.reshape((self.size, *array.shape[len(self.shape) :]))

    def unpacked(self, flat: Any) -> Any:
        """The array of these entries."""
        if self.symmetric:
            return flat[self.places()]
        return flat.reshape((*self.shape, *flat.shape[1:]))

    def places(self) -> np.ndarray:
        """Where each entry of the array stands among the packed ones."""
        if not self.symmetric:
            return np.arange(self.size).reshape(self.shape)
        i, j = np.indices(self.shape)
        row, column = np.maximum(i, j), np.minimum(i, j)
        return row * (row + 1) // 2 + column


def parts(shapes: Sequence[tuple[int, ...]], symmetric: Sequence[bool] = ()) -> list[Part]:
    """Arrays that lie one after the other."""
    made: list[Part] = []
    for i, shape in enumerate(shapes):
        first = made[-1].last if made else 0
        made.append(Part(first, shape, bool(symmetric) and symmetric[i]))
    return made


class Pass(NamedTuple):
    """What a function computes: its graph, and its results by their names in C, packed."""

    graph: Graph
    results: dict[str, list[Node]]

    def outputs(self) -> list[Node]:
        """All entries."""
        return [node for nodes in self.results.values() for node in nodes]


class TrainingProgram(NamedTuple):
    """A filter's training in one precision.

    `parameters` are the arrays that training changes, `carry` those of the state, `saved` what is
    saved of a step; `trained` flags the parameters by which the derivative is wanted, `restarts` is
    the place in the state of the count of restarts, if the filter recovers.
    """

    dtype: np.dtype
    n_z: int
    n_u: int
    parameters: list[Part]
    trained: tuple[bool, ...]
    carry: list[Part]
    saved: list[Part]
    products: list[Product]
    forward: Pass
    recover: Pass | None
    reverse: Pass
    restarts: int | None
    structure: Any  # of what is saved


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

    saved_structure: list[Any] = []

    def kept_of(made: Any) -> list[Any]:
        leaves, shape = jax.tree.flatten(save(made, None))
        saved_structure.append(shape)
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
    found = products(program, count)
    made = TrainingProgram(
        dtype,
        given.z.shape[0],
        0 if given.u is None else given.u.shape[0],
        parts([a.shape for a in given.parameters]),
        tuple(trained),
        parts([f.shape for f in members], [f.symmetric for f in members]),
        parts([a.shape for a in shapes[1]]),
        found,
        *(None, None, None),
        _place_of_restarts(given.state) if recovers else None,
        saved_structure[-1],
    )
    forward = _forward(made, program, arguments)
    flags = (given.arrived, given.arrived, jax.ShapeDtypeStruct((), np.bool_))
    inputs = (*given.parameters, *leaves, *flags)
    recovered = _recover(made, recover, inputs) if recovers else None
    reverse = _reverse(made, program, arguments)
    return made._replace(forward=forward, recover=recovered, reverse=reverse)


def _forward(made: TrainingProgram, program: Any, arguments: Sequence[Any]) -> Pass:
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


def _recover(made: TrainingProgram, recover: Any, arguments: Sequence[Any]) -> Pass:
    """What `recover` makes of the state after a step."""
    given = [*_shared(made), *_carried(made, "carry_new")]
    given += [(Argument("measured"), None), (Argument("usable"), None)]
    given += [(Argument("finite", True), None)]
    graph, new = _traced(made, recover, arguments, given)
    return Pass(graph, {"recovered": _packed(made.carry, new)})


def _reverse(made: TrainingProgram, program: Any, arguments: Sequence[Any]) -> Pass:
    """The derivatives by the parameters and by the state before the step.

    Also the vectors of each product, and the derivatives by its results.
    """
    count, size, saved = len(made.parameters), len(made.carry), len(made.saved)
    dtype = made.dtype
    results = [
        jax.ShapeDtypeStruct((p.rows,) if p.columns == 1 else (p.rows, p.columns), dtype)
        for p in made.products
    ]
    bars = [jax.ShapeDtypeStruct(p.shape, dtype) for p in (*made.carry, *made.saved)]

    def reverse(*args: Any) -> Any:
        given, rest = args[: len(arguments)], args[len(arguments) :]
        known, bars = rest[: len(results)], rest[len(results) :]
        fixed = given[count + size :]

        def forward(parameters: Any, state: Any, taps: Any) -> Any:
            vectors: list[Any] = []

            def multiply(number: int, W: Any, X: Any) -> Any:
                place = len(vectors)
                vectors.append(X)
                return known_product(W, X, known[place], taps[place])

            every = iter(parameters)
            stopped = [
                next(every) if flag else given[i] for i, flag in enumerate(made.trained)
            ]
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
    for shape in results:
        argument = Argument(f"({KEPT}_products + {first})")
        inputs.append((argument, None))
        first += int(np.prod(shape.shape))
    inputs += _carried(made, "bar")
    inputs += [(Argument(f"(saved_bar + {p.first})"), None) for p in made.saved]
    graph, made_values = _traced(made, reverse, (*arguments, *results, *bars), inputs)
    by_state, by_parameters, vectors, by_taps = made_values
    trained = [p for p, flag in zip(made.parameters, made.trained, strict=True) if flag]
    return Pass(
        graph,
        {
            "bar_new": _packed(made.carry, by_state),
            "by_parameters": _packed(trained, by_parameters),
            "vectors": [node for value in vectors for node in value.ravel()],
            "by_products": [node for value in by_taps for node in value.ravel()],
        },
    )


# An argument of a C function, and the part of an array that it is, if this is packed
Input = tuple[Argument, Part | None]


def _shared(made: TrainingProgram) -> list[Input]:
    return [(Argument(f"({PARAMETERS} + {p.first})", shared=True), None) for p in made.parameters]


def _carried(made: TrainingProgram, name: str) -> list[Input]:
    return [(Argument(f"({name} + {part.first})", finite=True), part) for part in made.carry]


def _step_inputs(made: TrainingProgram) -> list[Input]:
    measured: list[Input] = [(Argument("z", finite=True), None), (Argument("arrived"), None)]
    inputs: list[Input] = [(Argument("u"), None)] if made.n_u else []
    seconds = Argument("dt", is_number=True, finite=True, not_negative=True)
    return [*_shared(made), *_carried(made, CARRY), *measured, *inputs, (seconds, None)]


def _traced(
    made: TrainingProgram, function: Any, args: Sequence[Any], inputs: Sequence[Input]
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


def _place_of_restarts(state: Any) -> int:
    """The place of the count of restarts among the numbers of a state."""
    flagged = jax.tree.map(lambda a: np.zeros(1), state)
    flagged = flagged._replace(recovery=flagged.recovery._replace(restarts=np.ones(1)))
    index = [bool(leaf[0]) for leaf in jax.tree.leaves(flagged)].index(True)
    return index
