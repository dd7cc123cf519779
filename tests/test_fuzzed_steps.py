"""No fuzzed step leaves a number that is not finite, a negative variance, or q, r out of bounds."""

import os
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from fuzzed import cases, fuzzed

import sagewing as sw
from sagewing.codegen.c99 import CSource
from sagewing.codegen.header import NAME
from sagewing.codegen.source import c_source
from sagewing.filters import AdaptiveFilter

FULL = "FUZZ_EXAMPLES" in os.environ
STEPS_IN_C, STEPS_IN_JAX = (1_000_000, 100_000) if FULL else (10_000, 2_000)
CASES = cases()
# The suite tries single precision, which overflows first, and few programs of JAX, which take long
# to compile
DTYPES = (np.float32, np.float64) if FULL else (np.float32,)
IN_JAX = tuple(CASES) if FULL else ("ekf", "sage-husa posterior", "vbakf", "l-ekf")
CHECKS = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
ROUNDING = 1e-5  # of bounds, in single precision
LARGEST = 1e308  # a number that is finite
OUTPUTS = ("x", "P", "q", "r", "d", "nis", "loglik", "restarts")


def limits(filt, name, base):
    """The least and the largest value of a variance; VBAKF's r has no bounds."""
    filt = getattr(filt, "inner", filt)
    base = np.asarray(base, float)
    if not isinstance(filt, AdaptiveFilter):
        known = name == "q" or "Variational" not in type(filt).__name__
        low, high = (base, base) if known else (0 * base, np.full_like(base, LARGEST))
    else:
        low, high = (np.maximum(b * base, filt.rule.floor) for b in filt.rule.bounds)
        low, high = np.minimum(low, base), np.maximum(high, base)
    return low * (1 - ROUNDING), high * (1 + ROUNDING)


def limits_of(filt):
    inner = getattr(filt, "inner", filt)
    return {"q": limits(filt, "q", inner.q0), "r": limits(filt, "r", inner.r0)}


@pytest.mark.fuzz
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", CASES)
def test_in_C_with_sanitizers(name, dtype, tmp_path, as_a_user_runs_it):
    filt, given = CASES[name]()
    made = c_source(filt, dtype=dtype)
    (tmp_path / f"{NAME}.h").write_text(made.header)
    (tmp_path / f"{NAME}.c").write_text(made.code)
    (tmp_path / "limits.h").write_text(in_c(made, limits_of(filt)))
    shutil.copy(Path(__file__).with_name("fuzzed_steps.c"), tmp_path)
    z, dt = fuzzed(given, STEPS_IN_C)
    with np.errstate(over="ignore"):
        start = np.concatenate([given.x0, given.P0.ravel()]).astype(dtype)
        rows = np.column_stack([z, dt]).astype(dtype)
    (tmp_path / "in").write_bytes(start.tobytes() + rows.tobytes())
    files = (f"{NAME}.c", "fuzzed_steps.c", "-o", "fuzzed", "-lm")
    run(tmp_path, "gcc", *STRICT, *CHECKS, "-O1", *files)
    print(name, dtype.__name__, run(tmp_path, "./fuzzed", str(STEPS_IN_C), "in"))


def in_c(made: CSource, bounds) -> str:
    """The limits as C arrays, and a function that looks at every real number of the state."""
    lines = [
        f"static const double {name}_{side}[] = {{{', '.join(map(repr, map(float, values)))}}};"
        for name, both in bounds.items()
        for side, values in zip(("low", "high"), both, strict=True)
    ]
    lines += ["static int wrong(long k, const sw_state *s)", "{"]
    for field in made.layout.state:
        at = f"{'' if field.shape else '&'}s->{field.name}"
        if field.kind == "real":
            lines.append(f'    if (finite(k, "{field.name}", {at}, {field.size})) return 1;')
        if field.name.split("_")[-1] == "P" and len(field.shape) == 2:
            lines.append(f'    if (positive(k, "{field.name}", {at})) return 1;')
    return "\n".join([*lines, "    return 0;", "}", ""])


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.fuzz
@pytest.mark.parametrize("name", IN_JAX)
def test_in_JAX(name):
    filt, given = CASES[name]()
    records = 20
    made = [fuzzed(given, STEPS_IN_JAX // records, seed) for seed in range(records)]
    with np.errstate(over="ignore"):
        z, dt = (np.stack([m[i] for m in made]).astype(np.float32) for i in (0, 1))
    x0 = np.tile(given.x0, (records, 1))
    result = sw.run(filt, x0, given.P0, z, dt=dt)
    for output in OUTPUTS:
        assert np.isfinite(np.asarray(getattr(result, output))).all(), output
    for leaf in jax.tree.leaves(result.state):
        assert np.isfinite(np.asarray(leaf)).all()
    assert np.diagonal(np.asarray(result.P), axis1=-2, axis2=-1).min() >= 0.0
    for output, (low, high) in limits_of(filt).items():
        value = np.asarray(getattr(result, output))
        assert np.all((value >= low) & (value <= high)), output
