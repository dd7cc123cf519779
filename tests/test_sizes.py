"""Every form of the arithmetic in `filters/sizes.py` gives the same numbers and derivatives."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import Linear

import sagewing as sw
from sagewing.filters import kernels, sizes
from sagewing.filters.loop import scan

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

N_X, N_Z, RUNS, STEPS = 14, 5, 3, 4


def dense(n_x=N_X, n_z=N_Z):
    rng = np.random.default_rng(n_x)
    F = jnp.asarray(0.9 * rng.normal(size=(n_x, n_x)) / np.sqrt(n_x))
    return Linear(F, jnp.asarray(rng.normal(size=(n_z, n_x)) / np.sqrt(n_x)))


def measured(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(scope="module")
def by_layout(float64):
    """Estimates and derivatives of a batch in both of its layouts; one record misses channels."""
    z = measured(STEPS, N_Z, RUNS)
    arrived = jnp.asarray(measured(STEPS, N_Z, RUNS, seed=1) > -1.0)
    dt = jnp.full((STEPS, RUNS), 0.1)
    weights = measured(STEPS, N_X, N_X, RUNS, seed=2)

    def loss(given, use):
        F, q0, r0 = given
        filt = sw.SageHusa(Linear(F, dense().H), q0, r0, 0.9)
        x0, P0 = jnp.zeros((N_X, RUNS)), jnp.eye(N_X)[..., None] * jnp.ones(RUNS)
        start = filt.init(x0, P0)
        end, out = scan(filt, start, jnp.asarray(z), None, dt, arrived, use=use, history=True)
        estimates, history = out
        value = jnp.sum(estimates.loglik) + jnp.sum(weights * estimates.P) + jnp.sum(estimates.x**2)
        return value, (end, estimates, history)

    given = dense().F, jnp.full(N_X, 0.1), jnp.full(N_Z, 0.5)
    derived = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
    return [derived(given, use) for use in ("run", "training")]


def test_a_batch_in_both_layouts_has_the_same_estimates(by_layout):
    ((_, each), _), ((_, together), _) = by_layout
    assert sizes.STATES_OF_BATCH["run"] < N_X <= sizes.STATES_OF_BATCH["training"]
    for a, b in zip(jax.tree.leaves(each), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(each[1].P, np.swapaxes(each[1].P, 1, 2))


def test_a_batch_in_both_layouts_has_the_same_derivatives(by_layout):
    (_, each), (_, together) = by_layout
    for a, b in zip(each, together, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.fixture
def float32():
    with jax.enable_x64(False):
        yield


def test_a_record_that_overflows_does_not_touch_the_others_of_its_batch(float32):
    """At a size at which library routines factorise S."""
    z = measured(RUNS, 40, N_Z).astype(np.float32)
    filt = sw.EKF(dense(), np.full(N_X, 0.1), np.full(N_Z, 0.5))
    start = np.zeros(N_X), np.eye(N_X)
    calm = sw.run(filt, *start, z)
    wild = z.copy()
    wild[1, ::3] = 3e38
    made = sw.run(filt, *start, wild)
    for name in ("x", "P", "nis", "loglik"):
        given, expected = np.asarray(getattr(made, name)), np.asarray(getattr(calm, name))
        assert np.all(np.isfinite(given))
        np.testing.assert_array_equal(given[::2], expected[::2])
    assert not np.any(made.ok[1, ::3])


def test_a_large_batch_in_pieces_is_its_records(float64):
    runs = sizes.MOST_TOGETHER + 3
    z, dt = measured(runs, 2, 2), np.linspace(0.1, 0.2, 2 * runs).reshape(runs, 2)
    filt = sw.EKF(dense(2, 2), [0.1, 0.2], [1.0, 0.5])
    start = np.zeros(2), np.eye(2)
    made = sw.run(filt, *start, z, dt=dt)
    parts = [sw.run(filt, *start, z[part], dt=dt[part]) for part in (slice(0, 3), slice(-3, None))]
    for part, where in zip(parts, (slice(0, 3), slice(-3, None)), strict=True):
        np.testing.assert_allclose(made.x[where], part.x, rtol=1e-12)
        np.testing.assert_allclose(made.P[where], part.P, rtol=1e-12)
        np.testing.assert_allclose(made.state.x[..., where], part.state.x, rtol=1e-12)


def test_200_states_and_60_channels_keep_P_positive_in_single_precision(float32):
    filt = sw.EKF(dense(200, 60), np.full(200, 0.1), np.full(60, 1.0))
    made = sw.run(filt, np.zeros(200), np.eye(200), measured(3, 60), dt=0.1)
    P = np.asarray(made.P[-1])
    assert P.dtype == np.float32
    assert np.all(made.ok)
    np.testing.assert_array_equal(P, P.T)
    assert np.linalg.eigvalsh(P.astype(float)).min() > 0.0


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_a_singular_matrix_has_the_same_factor_in_a_loop(float64, batch):
    A = measured(5, 3, *batch)
    S = jnp.asarray(np.einsum("ik...,jk...->ij...", A, A))
    least = 1e-12 * jnp.ones(S.shape[1:])
    with sizes.all_written_out():
        expected = kernels.semidefinite_cholesky(S, least)
    found = kernels._semidefinite_in_a_loop(S, least)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(np.einsum("ik...,jk...->ij...", found, found), S, atol=1e-9)


def test_auto_runs_few_states_and_many_steps_in_C_and_else_in_JAX(monkeypatch):
    module = sys.modules["sagewing.runtime.run"]
    monkeypatch.setattr(sizes, "STEPS_IN_C", 6)
    monkeypatch.setattr(module, "_in_c", lambda *_: "C")
    monkeypatch.setattr(module, "run_in_jax", lambda *_: "JAX")
    small = sw.EKF(dense(2, 2), [0.1, 0.2], [1.0, 0.5])
    start = np.zeros(2), np.eye(2)
    assert sw.run(small, *start, np.zeros((3, 2, 2)), backend="auto") == "C"
    assert sw.run(small, *start, np.zeros((5, 2)), backend="auto") == "JAX"
    assert sw.run(small, *start, np.zeros((3, 2, 2)), backend="auto", smooth=True) == "JAX"
    large = sw.EKF(dense(60, 2), np.ones(60), [1.0, 0.5])
    assert sw.run(large, np.zeros(60), np.eye(60), np.zeros((9, 2)), backend="auto") == "JAX"
