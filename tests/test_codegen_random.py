"""Random programs give in C what they give in JAX: NaN, infinities, zeros and limits included."""

import os
from itertools import islice
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import pytest
from random_c import Backend
from random_programs import Program, arguments, expected, programs, values

import sagewing.codegen.rules  # noqa: F401  (the rules register themselves)
from sagewing.codegen.trace import RULES

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "5"))
RUNS = 200
TOGETHER = 20  # programs in a C file
SEED = 1
# Rules for names that this JAX does not write: it has others for the same
OTHER_NAMES = {"copy_p", "expand_dims", "scatter_add"}


class RunsPrograms(Protocol):
    """A backend: the results of a program's steps, for values of many runs."""

    def run(self, program: Program, values: list[np.ndarray]) -> list[np.ndarray]: ...


def check(
    backend: RunsPrograms, program: Program, given: list[np.ndarray], wanted: Any = None
) -> None:
    """Hold a backend to JAX: the same bits where the operation is exact, else nearly so.

    What XLA compiles together may differ from its own single operations: it takes the square of an
    integer for positive, where that overflows, too. Then these decide.
    """
    made = backend.run(program, given)
    found = differences(program, made, *(wanted or expected(program, given)))
    if found:
        found = differences(program, made, *expected(program, given, at_once=False))
    assert not found, "\n\n".join(found)


def differences(program: Program, results: Any, wanted: Any, operands: Any) -> list[str]:
    """The steps of a program whose results are not those wanted, with the first number of each."""
    found = []
    for i, (made, jax_result) in enumerate(zip(results, wanted, strict=True)):
        step = program.steps[i]
        exact = step.operation.exact(program.dtype, jax_result.dtype)
        agree = (
            _same(made, jax_result)
            if exact
            else _near(step.operation, made, jax_result, operands[i])
        )
        if not np.all(agree):
            bad = tuple(np.argwhere(~agree)[0])
            found.append(
                f"{program.name}, step {i} at {bad}: {made[bad]!r}, JAX has {jax_result[bad]!r};\n"
                f"{jax.make_jaxpr(step.function)(*(o[0] for o in operands[i]))}\n"
                f"of {[o[bad[0]] for o in operands[i]]}"
            )
    return found


def _same(a: Any, b: Any) -> Any:
    """The same bits; XLA flushes a number below the smallest normal one to zero, or moves it."""
    if b.dtype.kind != "f":
        return a == b
    flushed = ((a == 0) | (b == 0)) & (np.maximum(abs(a), abs(b)) < np.finfo(b.dtype).tiny)
    same = (a == b) | flushed
    return (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _near(operation: Any, a: Any, b: Any, operands: Any) -> Any:
    """Equal but for rounding, wherever a result can be told from its operands.

    The order of a sum may decide whether it overflows; and libm's log reads the bits of a number
    that XLA flushes to zero.
    """
    limits, free = np.finfo(b.dtype), np.zeros(b.shape, bool)
    if operation.overflows is not None:
        free |= operation.overflows(*operands).reshape(-1, *(1,) * (b.ndim - 1))
    if operation.reads_bits:
        free |= (operands[0] != 0) & (np.abs(operands[0]) < limits.tiny)
    size, ulps = np.abs(b.astype(np.longdouble)), operation.ulps
    with np.errstate(invalid="ignore", over="ignore"):
        if operation.scale is not None:
            size = operation.scale(size, *operands)
        if b.dtype == np.float64 and operation.in_double is not None:
            ulps = operation.in_double
        error = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble))
        close = np.isfinite(a) & np.isfinite(b)
        close &= error <= ulps * limits.eps * size + operation.flushed * limits.tiny
    near = (close | (a == b)) & (operation.terms | (np.signbit(a) == np.signbit(b)))
    return near | (np.isnan(a) & np.isnan(b)) | free


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@pytest.mark.fuzz
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_programs_give_the_numbers_of_JAX(dtype, folder):
    made = programs(SEED, dtype)
    for first in range(0, EXAMPLES, TOGETHER):
        some = list(islice(made, min(TOGETHER, EXAMPLES - first)))
        backends = [Backend(some, folder / f"{first}", many) for many in (False, True)]
        for program in some:
            given = values(int(program.name[1:]), RUNS, program)
            wanted = expected(program, given)
            for backend in backends:
                check(backend, program, given, wanted)
        jax.clear_caches()  # a process has room for so many compiled programs


def test_random_programs_have_every_primitive_that_there_is_a_rule_for():
    found = set()
    for dtype in (np.float32, np.float64):
        for program in islice(programs(SEED, dtype), 5):
            with jax.enable_x64(dtype == np.float64):
                found |= _primitives(jax.make_jaxpr(program)(*arguments(dtype)).jaxpr)
    assert set(RULES) - found == OTHER_NAMES


def _primitives(jaxpr: Any) -> set[str]:
    """The names of all primitives, also of those in programs inside."""
    found = set()
    for equation in jaxpr.eqns:
        found.add(equation.primitive.name)
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    found |= _primitives(inner)
    return found


class Moves(NamedTuple):
    """A backend that gives JAX's numbers, but for one bit of every result."""

    wanted: list[np.ndarray]

    def run(self, program: Program, values: list[np.ndarray]) -> list[np.ndarray]:
        return [np.where(a == 0, 1, -a) if a.dtype != bool else ~a for a in self.wanted]


def test_another_number_is_found():
    """The suite fails where it should."""
    program = next(programs(SEED))
    given = values(0, RUNS, program)
    wanted, operands = expected(program, given)
    found = differences(program, Moves(wanted).run(program, given), wanted, operands)
    assert len(found) == len(program.steps)
