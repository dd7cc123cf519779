"""What C has no numbers for is refused, and a model's own zeros are numbers like all others."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import sagewing as sw
from sagewing.codegen.fields import Argument
from sagewing.codegen.graph import Graph
from sagewing.codegen.refusal import NotInC
from sagewing.codegen.simplify import apply
from sagewing.codegen.source import c_source
from sagewing.codegen.trace import RULES
from sagewing.filters import checks
from sagewing.runtime.cache import FLAGS
from sagewing.runtime.compiled import CompiledFilter
from sagewing.runtime.run import run_compiled

QUICK = tuple("-O0" if flag == "-O3" else flag for flag in FLAGS)


class Moved(sw.Model):
    """Two states that some function moves, both measured."""

    move: Callable

    def transition(self, x, u, dt):
        return self.move(x)

    def observe(self, x, u):
        return x


def ekf(move):
    return sw.EKF(Moved(move), [1e-3] * 2, [0.1] * 2)


@pytest.fixture(autouse=True)
def as_a_user_runs_it():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    "name", ["uint8", "int8", "int16", "uint16", "uint32", "float16", "bfloat16", "complex64"]
)
def test_numbers_of_other_types_are_refused_by_name(name):
    filt = ekf(lambda x: (100 * x).astype(name).astype(x.dtype) if name[0] != "c" else abs(x + 0j))
    with pytest.raises(NotInC, match=rf"numbers of type {name}.*test_c_types\.py:\d+"):
        c_source(filt, dtype=np.float32)


@pytest.mark.parametrize("name", ["uint64", "float32"])
def test_numbers_of_other_types_are_refused_in_double_precision(name):
    filt = ekf(lambda x: (100 * x).astype(name).astype(x.dtype))
    with pytest.raises(NotInC, match=rf"numbers of type {name}"), jax.enable_x64(True):
        c_source(filt, dtype=np.float64)


def test_rounding_to_fewer_bits_is_refused():
    with pytest.raises(NotInC, match="'reduce_precision' rounds to fewer bits than float32 has"):
        c_source(ekf(lambda x: jax.lax.reduce_precision(x, 5, 10)), dtype=np.float32)


def test_the_bits_of_integers_are_refused():
    def parity(x):
        return x + jnp.bitwise_or.reduce(x.astype(jnp.int32))

    with pytest.raises(NotInC, match="not for the bits of integers"):
        c_source(ekf(parity), dtype=np.float32)


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
def test_a_model_that_draws_is_refused(key):
    filt = ekf(lambda x: x + 0.01 * jax.random.normal(key(0), x.shape))
    with pytest.raises(NotInC, match="random"):
        c_source(filt, dtype=np.float32)


class WithField(sw.Model):
    """A model with a field of any kind."""

    field: object

    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return x


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "complex64", "key"])
def test_a_field_of_another_type_is_refused(kind):
    field = jax.random.key(0) if kind == "key" else jnp.ones(2, kind)
    with pytest.raises(NotInC, match=f"an array of type {kind}"):
        c_source(sw.EKF(WithField(field), [1.0] * 2, [1.0] * 2), dtype=np.float32)


class Listed(sw.Model):
    """A model that keeps numbers in a list."""

    gains: list

    def transition(self, x, u, dt):
        return x * jnp.array(self.gains)

    def observe(self, x, u):
        return x


def test_a_model_with_a_list_gives_the_code_of_one_with_an_array():
    made = c_source(sw.EKF(Listed([0.5, 0.25]), [1.0] * 2, [1.0] * 2), dtype=np.float32)
    assert "C(0.5)" in made.code


def test_whatever_a_rule_did_not_foresee_is_refused(monkeypatch):
    def fails(graph, operands, equation):
        raise KeyError("nobody thought of it")

    monkeypatch.setitem(RULES, "sin", fails)
    with pytest.raises(NotInC, match=r"'sin' is used in a way that has no C code here.*\(KeyError"):
        c_source(ekf(jnp.sin), dtype=np.float32)


def test_constants_of_other_types_are_those_of_JAX():
    """They are known before the first step, and computed by JAX."""

    def move(x):
        wrapped = jnp.array([250, 3], jnp.uint8) + jnp.uint8(10)  # 4 and 13
        return x * wrapped.astype(x.dtype)

    code = c_source(ekf(move), dtype=np.float32).code
    assert "C(4.0)" in code
    assert "C(13.0)" in code


def both(filt, dtype, x0, z, u, folder):
    """The estimates of JAX and those of C for three records."""
    x0, z = np.tile(np.asarray(x0, dtype), (3, 1)), np.tile(np.asarray(z, dtype), (3, 1, 1))
    record = checks.record(filt.n_z, z, u, 0.01, None)
    start = filt.init(*checks.start(filt, x0, 0.1 * np.eye(x0.shape[1]), (3,)))
    n_u = 0 if u is None else u.shape[-1]
    results = [
        run_compiled(CompiledFilter(filt, n_u, dtype, folder, QUICK, lanes=lanes), start, record)
        for lanes in (False, True)
    ]
    return sw.run(filt, x0, 0.1 * np.eye(x0.shape[1]), z, u), *results


class Zeros(sw.Model):
    """Zeros that a model's own equations multiply and divide, by what may be infinite."""

    def transition(self, x, u, dt):
        none = jnp.array([0.0, 1.0])
        masked = jnp.sum(none * jnp.stack([1.0 / u[0], 0.1]))  # 0 * inf
        ratio = jnp.array([0.0, 1.0]) / jnp.stack([u[1], 1.0])  # 0 / 0
        turned = jnp.arctan2(0.0 - u[2], -1.0)  # 0 - 0 is 0, not -0
        product = jnp.zeros((2, 2)) @ jnp.stack([1.0 / u[3], 1.0])
        rooted = 0.0 * jnp.sqrt(jnp.abs(u[4] - u[4] + x[0] * u[5]))  # 0 * the derivative's inf
        return x + dt * (masked + ratio + turned + product + rooted)

    def observe(self, x, u):
        return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_models_own_zeros_give_in_C_what_they_give_in_JAX(dtype, tmp_path):
    good = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    u = np.tile(good, (9, 1))
    u[1, 0] = u[2, 1] = u[4, 3] = u[6, 5] = 0.0
    u[3, 2], u[5, 4] = 0.0, np.inf
    with jax.enable_x64(dtype == np.float64):
        filt = sw.EKF(Zeros(), [1e-3] * 2, [0.1] * 2)
        z = np.full((9, 2), 0.5)
        expected, *made = both(filt, dtype, [0.5, 0.5], z, u.astype(dtype), tmp_path)
    assert not np.any(np.asarray(expected.ok)[:, [1, 2, 4, 5, 6]])
    assert np.all(np.asarray(expected.ok)[:, [0, 3, 7, 8]])
    for one in made:
        np.testing.assert_array_equal(one.ok, expected.ok)
        np.testing.assert_allclose(one.x, expected.x, rtol=1e-5)


def test_a_product_with_zero_is_left_out_of_a_model_where_it_cannot_be_NaN():
    """Half of dt is finite, as dt is; twice dt may be infinite."""
    graph = Graph(np.float32)
    graph.in_model = True
    dt = Argument("dt", is_number=True, finite=True, not_negative=True)
    dt = graph.entry(graph.vector("input", (), dt), 0)
    zero, half, two = (graph.constant(np.float32(n)) for n in (0.0, 0.5, 2.0))
    for part in (dt, apply(graph, "mul", half, dt), apply(graph, "div", dt, two)):
        assert apply(graph, "mul", zero, part) is zero
    for other in (apply(graph, "mul", two, dt), apply(graph, "div", dt, half)):
        assert apply(graph, "mul", zero, other) is not zero


def test_whole_numbers_of_64_bits_are_those_of_JAX(tmp_path):
    def move(x):
        large = (1e9 * x).astype(int) * 7
        return x + 1e-12 * (large // 3) + 1e-9 * (large % 1000) + 0.1 * jnp.argmax(x)

    with jax.enable_x64(True):
        filt = ekf(move)
        z = np.full((4, 2), 3.0)
        expected, *made = both(filt, np.float64, [2.5, 4.5], z, None, tmp_path)
    for one in made:
        np.testing.assert_allclose(one.x, expected.x, rtol=1e-12)


def test_filters_of_this_package_need_no_integers_of_64_bits():
    """So that one text serves both precisions."""
    modes = sw.models.Switched((sw.models.Lorenz(), sw.models.Thomas()), inputs=((0, 0), (0, 0)))
    policy = sw.Policy.pretrained("universal")
    filters = (
        (sw.EKF(modes, [0.01] * 3, np.ones((2, 2))), 1),
        (sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy), 0),
    )
    for filt, n_u in filters:
        assert "int64_t" not in c_source(filt, n_u).code
