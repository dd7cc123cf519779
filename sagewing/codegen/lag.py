"""A filter's fixed-lag smoother as two C files beside those of the filter.

The step that keeps what the smoother needs, one step backward, and the smoothed estimate are
traced; the ring around them is the C in `fixed_lag/`, which no filter changes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from sagewing.codegen.c99 import (
    ARRIVED,
    SIGNATURES,
    Body,
    CSource,
    c_function,
    in_precisions,
    recover_body,
    step_body,
    storing_body,
)
from sagewing.codegen.fields import Argument, fields
from sagewing.codegen.header import CALLING, in_extern_c
from sagewing.codegen.helpers import prelude
from sagewing.codegen.memory import Statement
from sagewing.codegen.notice import comment, notice
from sagewing.codegen.program import FilterFunctions, Function, Outputs, StructLayout, sizes
from sagewing.codegen.tables import Tables
from sagewing.filters.fixed_lag import KeptStep, before_kept, smoothed_kept
from sagewing.filters.protocols import Filter
from sagewing.filters.smoother import Adjoint, History, history_of
from sagewing.filters.step import Estimate

NAME = "sagewing_lag"
FOLDER = Path(__file__).parent / "fixed_lag"
HEADER = FOLDER / f"{NAME}.h"
# The C that is compiled with it for Python to call it
CALLED = tuple(CALLING / f"lag.{end}" for end in "hc")
ADJOINT = """
typedef struct {
    sw_real gradient[SW_NDX];
    sw_real hessian[SW_NDX * SW_NDX];
    sw_real restarts;
} adjoint;
"""
OWN_SIGNATURES = {
    "recover": SIGNATURES["recover"],
    "step": (
        "static int step(sw_state *state, const sw_real *measured, const sw_real *u, sw_real dt,\n"
        "                sw_estimate *estimate, sw_kept *now, int *is_kept)"
    ),
    "before": "static void before(const adjoint *later, const sw_kept *now, adjoint *to)",
    "smoothed": (
        "static void smoothed(const adjoint *later, const sw_kept *now, sw_real *x, sw_real *P)"
    ),
}
COSTS = (
    ("sw_lag_step", "step"),
    ("sw_lag_smoothed, for each step backward", "before"),
    ("sw_lag_smoothed, for the estimate", "smoothed"),
)
IS_KEPT = Statement(1, "*is_kept = kept;")


class Recorded(NamedTuple):
    """What a step gives that is kept."""

    estimate: Estimate
    history: History


class LagSource(NamedTuple):
    """The texts of `sagewing_lag.h` and `sagewing_lag.c`."""

    header: str
    code: str

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The files by their names."""
        return (f"{NAME}.h", self.header), (f"{NAME}.c", self.code)


class LagProgram(NamedTuple):
    """A fixed-lag smoother in one precision; the step's `estimate` has the history, too."""

    layout: StructLayout
    step: Function
    recover: Function | None
    before: Function
    smoothed: Function


def lag_source(
    filt: Filter, n_u: int = 0, provenance: dict[str, Any] | None = None, dtype: Any = None
) -> LagSource:
    """The C of a filter's fixed-lag smoother, as `c_source` writes that of the filter.

    Refuses a filter that cannot be smoothed.
    """
    dtypes = (np.float32, np.float64) if dtype is None else (dtype,)
    tables = [Tables(np.dtype(kind)) for kind in dtypes]
    each = [
        _bodies(lag_program(filt, n_u, kind), t) for kind, t in zip(dtypes, tables, strict=True)
    ]
    used = [set().union(*(body.used for body in bodies.values())) for bodies in each]
    top = notice(filt, provenance)
    code = "".join(
        [
            f'#include "{NAME}.h"\n\n',
            "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n",
            prelude(used[0], used[-1]),
            in_precisions([table.text() for table in tables]),
            ADJOINT,
            *(
                c_function(OWN_SIGNATURES[name], [bodies[name].text for bodies in each])
                for name in each[0]
            ),
            (FOLDER / "ring.c").read_text(encoding="utf-8"),
        ]
    )
    costs = {name: body.cost for name, body in each[-1].items()}
    about = [
        "Cost, for sw_real of 4 bytes (double: 8), operations and bytes of stack at most:",
        *(f"  {name}: {costs[key].operations}, {4 * costs[key].numbers}" for name, key in COSTS),
    ]
    head = top + comment("\n".join(about)) + "\n\n"
    return LagSource(head + HEADER.read_text(encoding="utf-8"), top + code)


def called_from_python(source: CSource, lag: LagSource) -> CSource:
    """A filter's C, and that of its smoother."""
    own = ((path.name, path.read_text(encoding="utf-8")) for path in CALLED)
    return source._replace(more=(*lag.files, *own))


def declarations(made: StructLayout) -> str:
    """What `declarations` of the header lacks, as cffi reads it."""
    sizes = f"#define SW_NX {made.n_x}\n#define SW_NDX {made.n_dx}\n"
    return sizes + in_extern_c(HEADER) + CALLED[0].read_text(encoding="utf-8")


def lag_program(filt: Filter, n_u: int, dtype: Any) -> LagProgram:
    """Trace the functions of a filter's smoother, for inputs of this size, in a precision."""
    dtype = np.dtype(dtype)
    with jax.enable_x64(dtype == np.float64):
        made = FilterFunctions(filt, n_u, dtype)
        filt, model = made.filt, made.filt.model

        def step(leaves: Any, z: Any, arrived: Any, u: Any, dt: Any) -> Outputs:
            state, step, call = made.stepped(leaves, z, arrived, u, dt)
            return state, Recorded(made.estimate(step), history_of(filt, step)), call

        def before(later: Adjoint, kept: KeptStep) -> Outputs:
            return before_kept(model, later, kept), None, None

        def smoothed(later: Adjoint, kept: KeptStep) -> Outputs:
            return smoothed_kept(model, later, kept), None, None

        _, recorded, _ = jax.eval_shape(step, made.leaves, *made.given[2:6])
        x, P, restarts = (getattr(recorded.estimate, name) for name in KeptStep._fields[:3])
        kept = KeptStep(x, P, restarts, recorded.history)
        later = Adjoint(recorded.history.gradient, recorded.history.hessian, restarts)
        arguments = [*_arguments("later", later, dtype), *_arguments("now", kept, dtype)]
        members = fields(recorded.estimate, dtype)
        return LagProgram(
            StructLayout(*sizes(filt), n_u, made.members, members),
            made.traced_step(step),
            made.traced_recover(),
            made.traced(before, arguments, later, kept),
            made.traced(smoothed, arguments, later, kept),
        )


def _arguments(struct: str, tree: Any, dtype: np.dtype) -> list[Argument]:
    """The members of a struct that a function reads."""
    places = {}
    if isinstance(tree, KeptStep):
        places = {name: f"estimate.{name}" for name in KeptStep._fields[:3]}
        places |= {f"history_{name}": name for name in History._fields}
    return [
        Argument(f"{struct}->{places.get(f.name, f.name)}", symmetric=f.symmetric, field=f)
        for f in fields(tree, dtype)
    ]


def _bodies(made: LagProgram, tables: Tables) -> dict[str, Body]:
    """The functions by their names, in the order in which they are written."""
    parts = {
        part: {name: made.step.estimate[f"{part}_{name}"] for name in names}
        for part, names in (("estimate", Estimate._fields), ("history", History._fields))
    }
    step = made.step._replace(estimate=parts["estimate"])
    kept = {f"now->{name}": value for name, value in parts["history"].items()}
    bodies = {}
    if made.recover is not None:
        bodies["recover"] = recover_body(made.recover, made.layout, tables)
    bodies["step"] = step_body(step, made.layout, tables, ARRIVED, kept, [IS_KEPT])
    before = {f"to->{name}": value for name, value in made.before.state.items()}
    bodies["before"] = storing_body(made.before.graph, before, tables)
    bodies["smoothed"] = storing_body(made.smoothed.graph, made.smoothed.state, tables)
    return bodies
