"""The folder that `sagewing export` writes: the C, a vector to check it with, a replay program."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sagewing.codegen import lag as fixed_lag
from sagewing.codegen.header import NAME
from sagewing.codegen.notice import origin
from sagewing.codegen.program import StructLayout, in_precision
from sagewing.codegen.source import c_source
from sagewing.errors import InputError
from sagewing.files import write_folder
from sagewing.filters import Smoothed, checks, run
from sagewing.filters.protocols import Filter
from sagewing.shapes import Numbers

TEMPLATES = Path(__file__).parent / "integration"
FILES = {
    *(path.name for path in TEMPLATES.iterdir()),
    *(f"{NAME}.h", f"{NAME}.c", "vector.h", "start.csv", "measurements.csv"),
}
# Those of the fixed-lag smoother, where it is exported, too
LAG_FILES = {"sagewing_lag.h", "sagewing_lag.c", "check_lag.h", "vector_lag.h"}
BUILT = {"replay", "check_float", "check_double"}  # by the Makefile


class CheckVector(NamedTuple):
    """Steps of a filter in double precision; NaN in z is a channel that did not arrive.

    `smoothed` are the smoothed estimates, if these are to be checked, too.
    """

    x0: Float[np.ndarray, "n_x"]
    P0: Float[np.ndarray, "n_dx n_dx"]
    z: Float[np.ndarray, "T n_z"]
    u: Float[np.ndarray, "T n_u"]
    dt: float
    x: Float[np.ndarray, "T n_x"]
    smoothed: Smoothed | None = None


def recorded(
    filt: Filter, x0: Numbers, P0: Numbers, z: Any, u: Any, dt: float, *, smooth: bool = False
) -> CheckVector:
    """The filter's estimates in double precision; `u` has no columns if there are no inputs."""
    z, u = np.asarray(z, float), np.asarray(u, float)
    with jax.enable_x64(True):
        double = in_precision(filt, np.dtype(np.float64))
        besides = "smoothed" if smooth else "nothing"
        made = run(double, x0, P0, z, u if u.shape[1] else None, dt, None, besides)
        x, P = (np.asarray(a, float) for a in checks.start(double, x0, P0, ()))
    return CheckVector(x, P, z, u, dt, np.asarray(made.x, float), made.smoothed)


def write_package(
    folder: Path,
    filt: Filter,
    vector: CheckVector,
    title: str,
    provenance: dict[str, Any],
    *,
    force: bool,
) -> None:
    """Write the folder; refuses one that holds other files.

    With smoothed estimates in the vector it has the fixed-lag smoother, too.
    """
    here = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (not folder.is_dir() or here - FILES - LAG_FILES - BUILT):
        raise InputError(f"{folder} exists and is not an exported filter; choose another folder.")
    if here and not force:
        raise InputError(f"{folder} exists already; choose another folder, or use --force.")
    made = c_source(filt, vector.u.shape[1], provenance)
    about = [f"- {line}" for line in origin(provenance)]
    texts = {path.name: path.read_text(encoding="utf-8") for path in TEMPLATES.iterdir()}
    smoother = {}
    if vector.smoothed is not None:
        smoother = _lag_texts(filt, vector, vector.smoothed, provenance, made.layout)
    texts["README.md"] = texts["README.md"].format(
        lag=smoother.pop("README.md", ""),
        title=title,
        steps=len(vector.z),
        n_x=made.layout.n_x,
        n_dx=made.layout.n_dx,
        n_z=made.layout.n_z,
        n_u=made.layout.n_u,
        state_bytes=4 * sum(field.size for field in made.layout.state),
        provenance="\n".join(about) or "A filter without a learned part.",
    )
    texts |= {f"{NAME}.h": made.header, f"{NAME}.c": made.code, "vector.h": _vector_h(vector)}
    texts |= smoother
    texts |= {"start.csv": _start(vector), "measurements.csv": _measurements(vector)}
    write_folder(folder, {name: text.encode() for name, text in texts.items()})


def _lag_texts(
    filt: Filter,
    vector: CheckVector,
    smoothed: Smoothed,
    provenance: dict[str, Any],
    made: StructLayout,
) -> dict[str, str]:
    """The files of the fixed-lag smoother, and its part of the README."""
    names = ("README.md", "check_lag.h")
    texts = {n: (fixed_lag.FOLDER / n).read_text(encoding="utf-8") for n in names}
    size = sum(field.size for field in made.estimate) + made.n_dx * (2 * made.n_dx + 1)
    texts["README.md"] = texts["README.md"].format(kept_bytes=4 * size)
    texts |= dict(fixed_lag.lag_source(filt, vector.u.shape[1], provenance).files)
    variances = np.diagonal(np.asarray(smoothed.P, float), axis1=1, axis2=2)
    arrays = {
        "static const double vector_smoothed_x": np.asarray(smoothed.x, float),
        "static const double vector_smoothed_P": variances,
    }
    return texts | {"vector_lag.h": _definitions(arrays)}


def _vector_h(vector: CheckVector) -> str:
    steps, n_u = vector.u.shape
    arrived = np.isfinite(vector.z)
    u = vector.u if n_u else np.zeros((steps, 1))  # C has no arrays without entries
    arrays = {
        "static const double vector_x0": vector.x0,
        "static const double vector_P0": vector.P0.ravel(),
        "static const double vector_dt": np.full(steps, vector.dt),
        "static const double vector_u": u,
        "static const double vector_z": np.where(arrived, vector.z, 0.0),
        "static const int vector_arrived": arrived.astype(int),
        "static const double vector_x": vector.x,
    }
    return f"#define VECTOR_STEPS {steps}\n" + _definitions(arrays)


def _definitions(arrays: dict[str, np.ndarray]) -> str:
    parts = []
    for name, array in arrays.items():
        sizes = "".join(f"[{n}]" for n in array.shape)
        parts.append(f"\n{name}{sizes} = {_braces(array)};\n")
    return "".join(parts)


def _braces(array: np.ndarray) -> str:
    if array.ndim > 1:
        return "{\n" + ",\n".join(_braces(row) for row in array) + "\n}"
    return "{" + ", ".join(repr(number) for number in array.tolist()) + "}"


def _start(vector: CheckVector) -> str:
    return "".join(_line(row) for row in (vector.x0, np.diag(vector.P0)))


def _measurements(vector: CheckVector) -> str:
    n_z, n_u = vector.z.shape[1], vector.u.shape[1]
    names = ["dt", *(f"u{i}" for i in range(n_u)), *(f"z{i}" for i in range(n_z))]
    rows = np.hstack([np.full((len(vector.z), 1), vector.dt), vector.u, vector.z])
    return ",".join(names) + "\n" + "".join(_line(row) for row in rows)


def _line(row: np.ndarray) -> str:
    return ",".join("" if np.isnan(value) else repr(value) for value in row.tolist()) + "\n"
