"""Single precision keeps P positive definite and the errors of double precision.

With FUZZ_EXAMPLES set it is 10^6 steps of each system.
"""

import os

import ill_conditioned
import jax
import numpy as np
import pytest
from ill_conditioned import DT, SYSTEMS

import sagewing as sw

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FULL = "FUZZ_EXAMPLES" in os.environ
STEPS = 1_000_000 if FULL else 10_000
CHUNK = min(STEPS, 100_000)
WITHIN = 0.01


def estimates(filt, given, backend="jax"):
    """The result of every chunk, and its truth."""
    state = None
    for first in range(0, STEPS, CHUNK):
        rows = slice(first, first + CHUNK)
        z, u = given.z[:, rows], given.u[:, rows]
        if state is None:
            result = sw.run(filt, given.x0, given.P0, z, u, dt=DT, backend=backend)
        else:
            result = sw.run_from(filt, state, z, u, dt=DT, backend=backend)
        state = result.state
        yield result, given.truth[:, rows]


def squared(result, truth):
    return np.sum((np.asarray(result.x, float) - truth) ** 2, axis=1)


def build(**options):
    """The noise is the model's own."""
    return sw.EKF(ill_conditioned.model(), [1.0] * 4, [1.0] * 2, **options)


@pytest.fixture(scope="module")
def given():
    return ill_conditioned.data(STEPS)


@pytest.fixture(scope="module")
def rmse_in_double_precision(given):
    with jax.enable_x64(True):
        total = sum(squared(*chunk) for chunk in estimates(build(), given))
    return np.sqrt(total / STEPS)


@pytest.mark.fuzz
@pytest.mark.parametrize("backend", ["c", "jax"])
def test_the_root_of_P_keeps_ten_ill_conditioned_systems(backend, given, rmse_in_double_precision):
    total, smallest = 0.0, np.inf
    for result, truth in estimates(build(square_root=True), given, backend):
        total = total + squared(result, truth)
        assert np.asarray(result.ok).all()
        smallest = np.minimum(smallest, ill_conditioned.smallest_eigenvalues(result.P).min(1))
    ratio = np.sqrt(total / STEPS) / rmse_in_double_precision
    for name, least, each in zip(SYSTEMS, smallest, ratio, strict=True):
        print(f"{name}: least eigenvalue {least:.1e}, RMSE / that of float64 {np.round(each, 4)}")
    assert smallest.min() > 0.0
    assert np.abs(ratio - 1.0).max() < WITHIN


@pytest.mark.fuzz
def test_P_itself_stays_positive_definite_and_loses_accuracy(given, rmse_in_double_precision):
    total, smallest = 0.0, np.inf
    for result, truth in estimates(build(), given, "jax" if not FULL else "c"):
        total = total + squared(result, truth)
        smallest = np.minimum(smallest, ill_conditioned.smallest_eigenvalues(result.P).min(1))
    ratio = np.sqrt(total / STEPS) / rmse_in_double_precision
    for name, least, each in zip(SYSTEMS, smallest, ratio, strict=True):
        print(f"{name}: least eigenvalue {least:.1e}, RMSE / that of float64 {np.round(each, 4)}")
    assert smallest.min() > 0.0
    assert ratio.max() > 2.0
