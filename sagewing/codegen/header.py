"""The header of a generated filter: its structs and functions, and what it costs."""

import inspect
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.codegen.fields import Field
from sagewing.codegen.notation import C_TYPE
from sagewing.codegen.notice import comment
from sagewing.codegen.operations import Kind
from sagewing.codegen.program import StructLayout
from sagewing.codegen.writer import Cost
from sagewing.filters.protocols import Filter
from sagewing.models import Model, Switched

NAME = "sagewing_filter"
# The C that is compiled with a filter for Python to call it
CALLING = Path(__file__).parents[1] / "runtime" / "calling"
LATE = tuple(Path(__file__).parent / "integration" / f"sagewing_late.{end}" for end in "hc")
MEANING = {
    "x": "the state",
    "P": "its covariance, row by row",
    "q": "the variances of the process noise",
    "r": "the variances of the measurement noise",
    "mode": "the kind of measurement that r belongs to",
    "d": "how fast q and r, in this order, were adapted: 0 not at all, 1 at once",
    "nis": "the normalised innovation squared",
    "loglik": "the log-likelihood of the measurement",
    "ok": "0 where the arithmetic overflowed or a measurement was not plausible and was left out",
    "restarts": "how often the filter has gone back to an earlier state",
}
PROTOTYPES = """\
/* Start from x0 [SW_NX] and its covariance P0 [SW_NDX * SW_NDX]. */
void sw_init(sw_state *state, const sw_real *x0, const sw_real *P0);

/* Predict dt seconds ahead with the inputs u [SW_NU], and correct with measured [SW_NZ].
 * A channel that is NaN or infinite did not arrive; without inputs u may be NULL.
 * The estimate may be NULL. Returns its `ok`, or SW_REFUSED if dt is negative, infinite or NaN:
 * then nothing has changed. */
int sw_step(sw_state *state, const sw_real *measured, const sw_real *u, sw_real dt,
            sw_estimate *estimate);

/* The same without a measurement. */
int sw_predict_only(sw_state *state, const sw_real *u, sw_real dt, sw_estimate *estimate);
"""


def header(made: StructLayout, filt: Filter, costs: dict[str, Cost], table: int, dtype: Any) -> str:
    """The text of the header; with a `dtype` the code is of that precision only."""
    precision = {
        None: [
            "#ifdef SW_DOUBLE",
            "typedef double sw_real;",
            "#else",
            "typedef float sw_real;",
            "#endif",
        ],
        np.float32: ["typedef float sw_real;"],
        np.float64: ["#define SW_DOUBLE", "typedef double sw_real;"],
    }[dtype]
    parts = [
        "#ifndef SAGEWING_FILTER_H",
        "#define SAGEWING_FILTER_H",
        "",
        comment(_about(made, filt, costs, table)),
        "",
        *precision,
        "",
        f"#define SW_NX {made.n_x} /* states */",
        f"#define SW_NDX {made.n_dx} /* errors of the state: rows and columns of P */",
        f"#define SW_NZ {made.n_z} /* measured channels */",
        f"#define SW_NU {made.n_u} /* inputs */",
        "#define SW_REFUSED (-1)",
        "",
        _structs(made, comments=True),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        PROTOTYPES,
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def declarations(made: StructLayout, dtype: np.dtype) -> str:
    """The types and the functions, as cffi reads them; also what `calling/records.h` needs."""
    real = "double" if dtype == np.float64 else "float"
    sizes = f"#define SW_NZ {made.n_z}\n#define SW_NU {made.n_u}\n"
    types = f"typedef {real} sw_real;\n{_structs(made, comments=False)}\n"
    return sizes + types + PROTOTYPES + in_extern_c(LATE[0]) + (CALLING / "records.h").read_text()


def in_extern_c(path: Path) -> str:
    """What a header declares, without what a preprocessor reads."""
    _, declared = path.read_text(encoding="utf-8").split('extern "C" {\n#endif\n')
    return declared.split("#ifdef __cplusplus")[0]


def _about(made: StructLayout, filt: Filter, costs: dict[str, Cost], table: int) -> str:
    """What the filter is, what the model's documentation says, and what a step costs."""
    state = sum(field.size for field in made.state)
    lines = [
        f"{type(filt).__name__} for the model {type(filt.model).__name__}: {made.n_x} states, "
        f"{made.n_z} measured channels, {made.n_u} inputs.",
        "",
        *_documentation(filt.model),
        "Cost, for sw_real of 4 bytes (double: 8):",
    ]
    for name in ("step", "predict_only"):
        cost = costs[name]
        lines.append(
            f"  sw_{name}: {cost.operations} operations at most, "
            f"{4 * (cost.numbers + state)} bytes of stack at most"
        )
    if "recover" in costs:
        more = costs["recover"]
        lines.append(
            f"  a step after which the filter recovers: {more.operations} operations and "
            f"{4 * more.numbers} bytes of stack more"
        )
    lines.append(f"  state: {4 * state} bytes; tables of constants: {4 * table} bytes")
    return "\n".join(lines)


def _documentation(model: Model) -> list[str]:
    """The docstrings of a model and of the models inside it, which name states and channels."""
    lines: list[str] = []
    for one in (model, *model.models) if isinstance(model, Switched) else (model,):
        module = sys.modules.get(type(one).__module__)  # a model loaded from a file has none
        texts = (getattr(module, "__doc__", None), inspect.getdoc(type(one)))
        for title, text in zip((type(one).__module__, type(one).__name__), texts, strict=True):
            if text and f"{title}:" not in lines:
                lines += [f"{title}:", *textwrap.indent(text.strip(), "  ").splitlines(), ""]
    return lines


def _structs(made: StructLayout, *, comments: bool) -> str:
    structs = ""
    for name, fields in (("sw_state", made.state), ("sw_estimate", made.estimate)):
        members = "".join(_member(field, comments) for field in fields)
        structs += f"typedef struct {{\n{members}}} {name};\n\n"
    return structs


def member(types: Mapping[Kind, str], field: Field) -> str:
    """The declaration of a struct's member."""
    return f"{types[field.kind]} {field.name}" + (f"[{field.size}]" if field.shape else "")


def _member(field: Field, comments: bool) -> str:
    meaning = MEANING.get(field.name)
    comment = f" /* {meaning} */" if comments and meaning else ""
    return f"    {member(C_TYPE, field)};{comment}\n"
