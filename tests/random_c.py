"""Random programs as C: many in one file, called for many runs; a backend for their suite."""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from random_programs import ARGUMENTS, Program, arguments

from sagewing.codegen.arrays import as_nodes
from sagewing.codegen.fields import Argument
from sagewing.codegen.header import CALLING
from sagewing.codegen.helpers import prelude
from sagewing.codegen.lanes import LanesWriter, functions
from sagewing.codegen.memory import Statement, lines, shared
from sagewing.codegen.precision import for_one
from sagewing.codegen.program import traced_arrays
from sagewing.codegen.tables import Tables
from sagewing.codegen.writer import Writer
from sagewing.filters.lifting import MODEL
from sagewing.runtime.cache import FLAGS

# JAX takes numbers below the smallest normal one for zero, so here C does, too. A product and a sum
# may be rounded once or twice, by XLA as by a C compiler: here twice.
QUICK = {"-ffp-contract=fast": "-ffp-contract=off", "-O3": "-O1"}
EXACT = tuple(QUICK.get(flag, flag) for flag in FLAGS)
TOP = """
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#define SW_BEGIN const unsigned before = _mm_getcsr(); _mm_setcsr(before | 0x8040)
#define SW_END _mm_setcsr(before)
#else
#define SW_BEGIN (void)0
#define SW_END (void)0
#endif
"""
SCALAR_RUN = """
void run_{name}(long n, const sw_real *R, const int *I, sw_real *reals, int64_t *ints)
{{
    SW_BEGIN;
    for (long k = 0; k < n; ++k) {name}(R + k * {r}, I + k * {i}, reals + k * {o}, ints + k * {w});
    SW_END;
}}
"""
LANES_RUN = """
void run_{name}(long n, const sw_real *R, const int *I, sw_real *reals, int64_t *ints)
{{
    SW_BEGIN;
    for (long k = 0; k < n; k += SW_LANES) {{
        sw_lanes r[{r} + 1], o[{o} + 1];
        sw_ints i[{i} + 1], w[{w} + 1];
        for (int l = 0; l < SW_LANES; ++l) {{
            const long at = k + l < n ? k + l : n - 1;
            for (int j = 0; j < {r}; ++j) r[j][l] = R[at * {r} + j];
            for (int j = 0; j < {i}; ++j) i[j][l] = (j < {flags} ? 1 : -1) * I[at * {i} + j];
        }}
        {name}(r, i, o, w);
        for (int l = 0; l < SW_LANES && k + l < n; ++l) {{
            for (int j = 0; j < {o}; ++j) reals[(k + l) * {o} + j] = o[j][l];
            for (int j = 0; j < {w}; ++j) ints[(k + l) * {w} + j] = w[j][l];
        }}
    }}
    SW_END;
}}
"""


class Result(NamedTuple):
    """Where a result stands among the numbers that a program gives."""

    real: bool
    first: int
    shape: tuple[int, ...]
    dtype: np.dtype


class Backend:
    """Programs of one precision, compiled together: for one run at a time, or in lanes."""

    def __init__(
        self, programs: Sequence[Program], folder: Path, many: bool, flags: Sequence[str] = EXACT
    ):
        self.dtype, self.many = programs[0].dtype, many
        self._results: dict[str, list[Result]] = {}
        texts, used, tables = [], set(), Tables(self.dtype)
        for program in programs:
            writer, text = self._function(program, tables)
            texts.append(text)
            used |= writer.used
        double = "#define SW_DOUBLE\n" if self.dtype == np.float64 else ""
        head = f"{double}typedef {'double' if double else 'float'} sw_real;\n{TOP}"
        given = functions(used, self.dtype) if many else prelude(used)
        if many:
            head += (CALLING / "lanes.h").read_text(encoding="utf-8")
        folder.mkdir(exist_ok=True)
        code = folder / f"{'many' if many else 'one'}{self.dtype}.c"
        code.write_text(head + given + for_one(tables.text() + "".join(texts)), encoding="utf-8")
        made = code.with_suffix(".so")
        subprocess.run(["cc", *flags, code, "-o", made, "-lm"], check=True)
        self._library = ctypes.CDLL(str(made))

    def _function(self, program: Program, tables: Tables) -> tuple[Writer, str]:
        def function(*given: Any) -> list[Any]:
            with jax.named_scope(MODEL):
                return program(*given)

        with jax.enable_x64(self.dtype == np.float64):
            shapes = arguments(self.dtype)
            inputs = [Argument(name) for name in ARGUMENTS]
            graph, found, out = traced_arrays(not self.many, function, inputs, *shapes)
        results = [as_nodes(graph, value) for value in found]
        outputs = [node for value in results for node in value.ravel()]
        writer = (LanesWriter if self.many else Writer)(graph, outputs, tables)
        number, whole = ("sw_lanes", "sw_ints") if self.many else ("sw_real", "int")
        head = [f"    const {whole if kind != 'f' else number} {text};" for text, kind in _inputs()]
        count = {True: 0, False: 0}
        stores, places = [], []
        for value, shape in zip(results, out, strict=True):
            real = shape.dtype == self.dtype
            first = count[real]
            target = f"(reals + {first})" if real else f"(ints + {first})"
            stores += writer.stores(target, True, list(value.ravel()))
            places.append(Result(real, first, shape.shape, shape.dtype))
            count[real] += value.size
        statements: list[Statement] = [*writer.statements, *stores]
        body = lines(statements) if self.many else shared(statements).lines
        self._results[program.name] = places
        r, i = _sizes("f"), _sizes("i") + _sizes("b")
        sizes = dict(name=program.name, r=r, i=i, o=count[True], w=count[False], flags=_sizes("i"))
        saved = "sw_ints" if self.many else "int64_t"
        text = (
            f"\nstatic void {program.name}(const {number} *R, const {whole} *I, {number} *reals, "
        )
        text += f"{saved} *ints)\n{{\n    (void)R; (void)I; (void)reals; (void)ints;\n"
        text += "\n".join([*head, *(f"    (void){name};" for name in ARGUMENTS), *body, "}"])
        return writer, text + (LANES_RUN if self.many else SCALAR_RUN).format(**sizes)

    def run(self, program: Program, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of all runs; each run has its row in every argument."""
        runs = len(values[0])
        by_kind: dict[str, list[np.ndarray]] = {"f": [], "i": [], "b": []}
        for (_, kind), value in zip(ARGUMENTS.values(), values, strict=True):
            by_kind[kind].append(value.reshape(runs, -1))
        reals = np.ascontiguousarray(np.concatenate(by_kind["f"], 1), self.dtype)
        whole = np.concatenate([*by_kind["i"], *by_kind["b"]], 1).astype(np.intc, order="C")
        places = self._results[program.name]
        sizes = [sum(int(np.prod(p.shape)) for p in places if p.real == real) for real in (1, 0)]
        made = np.empty((runs, sizes[0]), self.dtype), np.empty((runs, sizes[1]), np.int64)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (reals, whole, *made)]
        getattr(self._library, f"run_{program.name}")(ctypes.c_long(runs), *pointers)
        out = []
        for place in places:
            size = int(np.prod(place.shape))
            found = made[0 if place.real else 1][:, place.first : place.first + size]
            out.append(found.reshape(runs, *place.shape))
        return [(a != 0) if p.dtype == bool else a for a, p in zip(out, places, strict=True)]


def _sizes(kind: str) -> int:
    return sum(int(np.prod(shape)) for shape, own in ARGUMENTS.values() if own == kind)


def _inputs() -> list[tuple[str, str]]:
    """The names of the arguments in C: entries of one array of reals and one of integers."""
    at, made = {"R": 0, "I": 0}, []
    for kind in ("f", "i", "b"):
        array = "R" if kind == "f" else "I"
        for name, (shape, own) in ARGUMENTS.items():
            if own == kind:
                text = (
                    f"*const {name} = {array} + {at[array]}"
                    if shape
                    else f"{name} = {array}[{at[array]}]"
                )
                made.append((text, kind))
                at[array] += int(np.prod(shape))
    return made
