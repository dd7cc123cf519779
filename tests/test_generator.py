"""What the generator writes: no known zeros, each table once, an error that names the line."""

import ctypes
import re
import subprocess
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import sagewing as sw
from sagewing.codegen.arrays import is_known
from sagewing.codegen.fields import Argument, fields
from sagewing.codegen.helpers import prelude
from sagewing.codegen.lanes import lanes_source
from sagewing.codegen.memory import MARKED, Statement, declaration, shared
from sagewing.codegen.memory import Array as Memory
from sagewing.codegen.program import traced_arrays
from sagewing.codegen.source import c_source
from sagewing.filters.guards import NAN_PROBE
from sagewing.filters.lifting import MODEL
from sagewing.runtime.cache import FLAGS
from sagewing.runtime.compiling import RETRY_FLAG, run_compiler
from sagewing.shapes import Covariances

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

BEYOND = (-1e30, 1e30, 100.0)  # the range of exp


class Sorted(sw.Model):
    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return jnp.sort(x)  # this line is named


def test_an_operation_without_C_is_named_with_its_line():
    filt = sw.EKF(Sorted(), [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(sw.InputError, match=r"'sort'.*test_generator\.py:\d+ \(Sorted.observe\)"):
        c_source(filt)


class Chain(sw.Model):
    """Each state moves by the one after it; if `full`, by all of them."""

    step: float | None = None  # dt
    full: bool = False

    def transition(self, x, u, dt):
        rates = x * jnp.cumsum(x)[-1] if self.full else jnp.append(x[1:], 0.0)
        return x + (dt if self.step is None else self.step) * rates

    def observe(self, x, u):
        return x[:1]


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("step", [None, 0.1])
def test_zeros_of_the_model_are_not_computed(size, step):
    """Written out or in loops, a chain of integrators needs a fraction of what a full F does."""

    def operations(full):
        made = c_source(sw.EKF(Chain(step, full), [1.0] * size, [1.0]), dtype=np.float32)
        predicting = re.search(r"sw_predict_only: (\d+) operations", made.header)
        assert predicting is not None
        return int(predicting[1])

    assert 3.5 * operations(False) < operations(True)


def _logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


def test_the_header_names_only_functions_that_can_be_called():
    made = c_source(sw.EKF(Chain(), [1.0] * 3, [1.0]), dtype=np.float32)
    assert set(re.findall(r"\bsw_\w+(?=:|\()", made.header)) == {
        *("sw_init", "sw_step", "sw_predict_only")
    }


@pytest.mark.parametrize(
    ("name", "exact", "inputs", "rtol", "atol"),
    [
        ("log_each", np.log, np.geomspace(1e-45, 3e38, 20_001), 2e-7, 1e-7),
        ("exp_each", np.exp, np.append(np.linspace(-88.0, 88.72, 20_001), BEYOND), 2e-7, 1e-45),
        # Near zero it has all digits; what is below the smallest normal number may be zero
        ("tanh", np.tanh, np.geomspace(1e-45, 20.0, 20_001), 5e-7, 1e-45),
        ("logistic", _logistic, np.linspace(-120.0, 120.0, 20_001), 5e-7, 1.17e-38),
    ],
)
def test_functions_in_loops_are_those_of_libm(name, exact, inputs, rtol, atol, tmp_path):
    code = tmp_path / "each.c"
    code.write_text(
        "#include <math.h>\n#include <stdint.h>\ntypedef float sw_real;\n"
        + prelude({f"sw_{name}"})
        + "void all(const float *a, float *b, int n)\n"
        f"{{ for (int i = 0; i < n; ++i) b[i] = sw_{name}(a[i]); }}\n"
    )
    subprocess.run(["cc", *FLAGS, code, "-o", tmp_path / "each.so", "-lm"], check=True)
    a = inputs.astype(np.float32)
    a = np.concatenate([a, np.float32([0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 1.0])])
    b = np.empty_like(a)
    ctypes.CDLL(str(tmp_path / "each.so")).all(
        ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data), len(a)
    )
    with np.errstate(all="ignore"):
        expected = exact(a.astype(float)).astype(np.float32)
        np.testing.assert_allclose(b, expected, rtol=rtol, atol=atol)


class Nearly(sw.Model):
    """A first table that is the same number nine times, but only in single precision."""

    def transition(self, x, u, dt):
        same = jnp.array([0.1 + 0.2] + [0.3] * 8)
        return x + dt * (jnp.sin(x) * same + jnp.cos(x) * jnp.linspace(0.1, 0.9, 9))

    def observe(self, x, u):
        return x[:1]


def test_constants_that_are_equal_as_floats_only_leave_each_precision_its_own_tables():
    code = c_source(sw.EKF(Nearly(), [1.0] * 9, [1.0])).code
    assert re.search(r"#ifdef SW_DOUBLE\s+static const sw_real sw_table0", code)


def test_arrays_share_memory_once_they_are_done_with():
    a, b, c, d = (Memory(f"v{i}", size) for i, size in enumerate((9, 9, 9, 8)))

    def assigned(to, value, *arrays):
        return Statement(1, f"{to.text}[i] = {value};", frozenset([to, *arrays]))

    lines, saved = shared(
        [
            declaration(1, a),
            declaration(1, b),
            assigned(a, "s->x[i]"),
            assigned(b, f"{a.text}[8 - i]", a),
            declaration(1, c),
            assigned(c, f"{b.text}[8 - i]", b),
            declaration(1, d),
            assigned(d, f"{c.text}[i] + v0_1", c),
        ]
    )
    assert saved == 9
    assert lines == [
        *(f"    sw_real {name};" for name in ("v0[9]", "v1[9]", "v3[8]")),
        "    v0[i] = s->x[i];",
        "    v1[i] = v0[8 - i];",
        "    v0[i] = v1[8 - i];",
        "    v3[i] = v0[i] + v0_1;",
    ]


def test_every_statement_says_which_arrays_it_uses():
    """A mark stays at the name of an array that it does not say; another could write over that."""
    filt = sw.SageHusa(Chain(full=True), [1.0] * 9, [1.0])
    for made in (c_source(filt, dtype=np.float32), lanes_source(filt, 0, np.float32)):
        assert re.search(r"\bv\d+\[", made.code)
        assert MARKED[0] not in made.code


class Moments(NamedTuple):
    """A state with a covariance, and a matrix of another kind that is called P."""

    sigma: Covariances
    P: Float[Array, "2 2"]


def test_a_matrix_is_symmetric_by_its_type_and_not_by_its_name():
    matrix = jnp.eye(2)
    found = fields({"inner": Moments(matrix, matrix), "P": matrix}, matrix.dtype)
    assert {field.name: field.symmetric for field in found} == {
        **{"P": False, "inner_sigma": True, "inner_P": False}
    }


@pytest.mark.parametrize(
    ("scope", "computed"), [("anything", False), (NAN_PROBE, True), (MODEL, True)]
)
def test_a_product_with_zero_is_computed_in_a_probe_and_in_a_model_only(scope, computed):
    def function(a):
        with jax.named_scope(scope):
            return 0.0 * a

    _, (result,), _ = traced_arrays(True, function, [Argument("a")], jnp.float32(2.0))
    assert is_known(result) is not computed


def test_tables_of_the_same_numbers_in_another_shape_are_two():
    class Folded(sw.Model):
        def transition(self, x, u, dt):
            wide = jnp.full((16, 32), 0.01)
            return x + dt * (wide @ jnp.tanh(wide.reshape(32, 16) @ jnp.tile(x, 8)))[:2]

        def observe(self, x, u):
            return x[:1]

    made = c_source(sw.EKF(Folded(), [1.0] * 2, [1.0]), dtype=np.float32)
    assert len(re.findall(r"static const sw_real sw_table", made.code)) == 2


@pytest.mark.parametrize("helps", [True, False])
def test_a_compiler_that_crashes_is_called_again_without_the_pass_it_crashes_in(helps, tmp_path):
    compiler = tmp_path / "gcc12"
    end = f'case "$*" in *{RETRY_FLAG}*) exit {0 if helps else 1};; esac; exit 1'
    compiler.write_text(f'#!/bin/sh\necho "$@" >&2\n{end}\n')
    compiler.chmod(0o700)
    done = run_compiler([str(compiler), "-O3", "large.c"], tmp_path)
    assert (done.returncode == 0) is helps
    assert (RETRY_FLAG in done.stderr) is helps  # else what the first call said
