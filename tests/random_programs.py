"""Random programs over every primitive that generated code knows, and the numbers to try them on.

A program is a function of arrays that JAX can run and trace. What a step of it computes exactly is
given to later steps; what two libraries round differently is only looked at.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from primitives_table import OPERATIONS, Operation

# The arguments of every program: names, shapes and kinds (real, integer, flag).
ARGUMENTS = {
    **{"a": ((), "f"), "b": ((3,), "f"), "c": ((9,), "f"), "d": ((3,), "f"), "e": ((9,), "f")},
    **{"g": ((2, 3), "f"), "h": ((9, 2), "f")},
    **{"i": ((), "i"), "j": ((3,), "i"), "k": ((9,), "i"), "n": ((3,), "i")},
    **{"p": ((), "b"), "q": ((3,), "b"), "r": ((9,), "b"), "t": ((3,), "b")},
}
STEPS = 28  # of a program
MOST_ENTRIES = 30  # of an array


class Step(NamedTuple):
    """An operation on earlier results."""

    operation: Operation
    function: Callable[..., Any]
    operands: tuple[int, ...]


class Program(NamedTuple):
    """Steps, in one precision."""

    name: str
    dtype: np.dtype
    steps: tuple[Step, ...]
    chained: bool  # whether steps take the results of others

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results of all steps."""
        return self.followed(*arguments)[0]

    def followed(self, *arguments: Any) -> tuple[list[Any], list[tuple[Any, ...]]]:
        """The results of all steps, and what each was given."""
        values, results, given = list(arguments), [], []
        for step in self.steps:
            operands = tuple(values[i] for i in step.operands)
            result = step.function(*operands)
            results.append(result)
            given.append(operands)
            if self.chained and step.operation.exact(self.dtype, result.dtype):
                values.append(result)
        return results, given


def types(dtype: np.dtype) -> dict[str, np.dtype]:
    """The types of the kinds; "l" are the integers that JAX makes in double precision."""
    whole = {"i": np.dtype(np.int32), "l": np.dtype(np.int64)}
    return {"f": np.dtype(dtype), "b": np.dtype(np.bool_), **whole}


def arguments(dtype: np.dtype) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of a program's arguments."""
    return [jax.ShapeDtypeStruct(s, types(dtype)[kind]) for s, kind in ARGUMENTS.values()]


def programs(seed: int, dtype: Any = np.float32) -> Iterator[Program]:
    """Programs without end; together a few dozen hold every operation."""
    rng = np.random.default_rng(seed)
    dtype, queue, count = np.dtype(dtype), [], 0
    while True:
        with jax.enable_x64(dtype == np.float64):
            steps: list[Step] = []
            chained = count % 4 < 3
            known = arguments(dtype)
            while len(steps) < STEPS:
                if not queue:
                    queue = list(rng.permutation(len(OPERATIONS)))
                place = queue.pop()
                operation = OPERATIONS[place]
                made = _step(rng, operation, known, dtype)
                result = made and jax.eval_shape(made.function, *(known[i] for i in made.operands))
                if made is None or not 0 < result.size <= MOST_ENTRIES:
                    queue.insert(0, place)
                    continue
                steps.append(made)
                if chained and operation.exact(dtype, result.dtype):
                    known.append(result)
        yield Program(f"p{count}", dtype, tuple(steps), chained)
        count += 1


def _step(rng: Any, operation: Operation, known: list[Any], dtype: np.dtype) -> Step | None:
    """The operation on results that fit it, if there are some; later ones are likelier."""
    operands: list[int] = []
    shape: tuple[int, ...] | None = None
    choices = operation.kinds(dtype)
    chosen = choices[rng.integers(len(choices))]
    for place, kinds in enumerate(chosen):
        given = operation.last == "argument" and place == len(chosen) - 1
        fits = [
            i
            for i, value in enumerate(known[: len(ARGUMENTS)] if given else known)
            if value.dtype == types(dtype)[kinds]
            and operation.takes(value.shape)
            and shape in (None, value.shape)
        ]
        if not fits:
            return None
        weights = 1.0 + np.arange(len(fits))
        operands.append(int(rng.choice(fits, p=weights / weights.sum())))
        shape = known[operands[-1]].shape
    shapes = [known[i].shape for i in operands]
    return Step(operation, operation.make(rng, dtype, *shapes), tuple(operands))


def values(seed: int, count: int, program: Program) -> list[np.ndarray]:
    """Numbers for the arguments, for so many runs: NaN, infinities, limits, and ordinary ones.

    JAX takes numbers below the smallest normal one for zero where it computes with them, but not
    where it only moves them: they are given to programs whose steps do not take their results on.
    """
    rng, dtype, made = np.random.default_rng(seed), program.dtype, []
    for shape, kind in ARGUMENTS.values():
        size = (count, *shape)
        if kind == "b":
            made.append(rng.random(size) < 0.5)
        elif kind == "i":
            odd = rng.choice(np.array(INTEGERS), size)
            made.append(np.where(rng.random(size) < 0.5, odd, rng.integers(-4, 12, size)))
            made[-1] = made[-1].astype(np.int32)
        else:
            made.append(reals(rng, size, dtype, denormal=not program.chained))
    return made


INTEGERS = (0, 1, -1, 2, -2, 3, 7, 2**31 - 1, -(2**31), 2**31 - 2, 1 - 2**31, 65537, -46341)


def reals(rng: Any, size: Any, dtype: np.dtype, denormal: bool) -> np.ndarray:
    """Real numbers of every kind."""
    limits = np.finfo(dtype)
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997]
    odd += [limits.max, -limits.max, limits.tiny, -limits.tiny]
    odd += [limits.tiny / 8, -limits.tiny / 8, limits.smallest_subnormal] if denormal else []
    odd += [limits.eps, 2147483648.0, -2147483648.0, 3e9, -3e9, 2147483520.0, 16777217.0]
    odd += [9.3e18, -9.3e18, 1e30, -1e-30, np.pi, -np.pi, 100.0, -100.0]
    ordinary = np.where(rng.random(size) < 0.5, rng.normal(size=size), rng.normal(0.0, 8.0, size))
    wild = rng.choice(odd, size)
    return np.where(rng.random(size) < 0.4, wild, ordinary).astype(dtype)


def expected(
    program: Program, given: list[np.ndarray], at_once: bool = True
) -> tuple[list[Any], list[Any]]:
    """JAX's results for every run, and what each operation was given; `given` has a row for each.

    Compiled together or, if not `at_once`, operation by operation, which is slow.
    """
    # conftest.py chooses emitters that compute a cube root less exactly than the default ones.
    default = {"xla_cpu_use_fusion_emitters": True}
    function = jax.vmap(program.followed)
    with jax.enable_x64(program.dtype == np.float64):
        arrays = [jax.numpy.asarray(value) for value in given]
        results, operands = (
            jax.jit(function, compiler_options=default)(*arrays) if at_once else function(*arrays)
        )
    as_arrays = [tuple(np.asarray(value) for value in one) for one in operands]
    return [np.asarray(result) for result in results], as_arrays
