"""A bank in float32 and in C: finite whatever comes, and the numbers of JAX."""

import subprocess

import numpy as np
import pytest

import sagewing as sw
from sagewing.codegen.package import recorded, write_package

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
X0, P0 = np.array([-8.0, -6.0, 25.0]), 0.1 * np.eye(3)
NOISE = ([0.01] * 3, [1.0, 2.0])
RNG = np.random.default_rng(5)
Z = X0[[0, 2]] + 2.0 * RNG.normal(size=(3, 40, 2))
Z[:, 3, 0], Z[1, 20:25] = np.nan, np.nan


def mixed():
    model = sw.models.Lorenz()
    members = [sw.EKF(model, *NOISE), sw.EKF(model, [1.0] * 3, [0.1, 0.2]), sw.VBAKF(model, *NOISE)]
    return sw.Bank(members, transitions=np.full((3, 3), 0.1) + 0.7 * np.eye(3))


def same(a, b, rtol=1e-3):
    for name in ("x", "P", "q", "r", "nis", "loglik"):
        close = dict(rtol=rtol, atol=rtol, err_msg=name)
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), **close)
    np.testing.assert_allclose(a.state.weights, b.state.weights, atol=rtol)


@pytest.mark.parametrize("kind", ["grid", "mixed"])
def test_C_gives_the_numbers_of_JAX(kind):
    factors = {"q_factors": (0.1, 10.0), "r_factors": (0.1, 10.0)}
    bank = sw.Bank.grid(sw.models.Lorenz(), *NOISE, **factors) if kind == "grid" else mixed()
    by_jax, by_c = (sw.run(bank, X0, P0, Z, dt=0.01, backend=b) for b in ("jax", "c"))
    same(by_jax, by_c)
    online = sw.Online(bank, X0, P0, backend="c")
    for z in Z[0]:
        x, _ = online.step(z, dt=0.01)
    np.testing.assert_allclose(x, by_c.x[0, -1], rtol=1e-5)
    np.testing.assert_allclose(online.state.weights, by_c.state.weights[:, 0], atol=1e-5)


def test_the_C_of_a_bank_is_strict_C99_with_vectors_and_without(tmp_path):
    """The check of the exported folder, in both precisions."""
    factors = {"q_factors": (0.1, 1.0, 10.0), "r_factors": (0.1, 1.0, 10.0)}
    bank = sw.Bank.grid(sw.models.Lorenz(), *NOISE, **factors)
    vector = recorded(bank, X0, P0, Z[0], np.zeros((40, 0)), 0.01)
    write_package(tmp_path, bank, vector, "bank", {}, force=True)
    for flags in ("-O1", "-O1 -U__SSE2__ -U__AVX__ -U__AVX512F__"):
        done = subprocess.run(
            ["make", "-B", "check", f"CFLAGS={flags}"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_a_bank_is_finite_in_float32_whatever_is_measured(backend):
    z = np.tile(Z[0], (5, 1))
    z[::7] = 1e30
    z[3::11, 0] = -1e18
    z[100:140] += 1e4
    factors = {"q_factors": (0.01, 100.0), "r_factors": (0.01, 100.0)}
    bank = sw.Bank.grid(sw.models.Lorenz(), *NOISE, **factors)
    result = sw.run(bank, X0, P0, z, dt=0.01, backend=backend)
    for name in ("x", "P", "q", "r", "nis", "loglik"):
        assert np.all(np.isfinite(getattr(result, name))), name
    weights = np.asarray(result.state.weights)
    assert np.all(np.isfinite(weights))
    assert np.all(weights > 0.0)
    assert abs(weights.sum() - 1.0) < 1e-4
    eigenvalues = np.linalg.eigvalsh(np.asarray(result.P, np.float64))
    assert np.all(eigenvalues[:, 0] > -1e-6 * eigenvalues[:, -1])
