"""The root of P gives the estimates of P itself, in double precision."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import Linear

import sagewing as sw
from sagewing.filters.square_root import Rooted, product, rescaled, root_of, triangular
from sagewing.filters.step import StepNoise
from sagewing.models.manifolds import Rotation

pytestmark = pytest.mark.usefixtures("float64", "unchecked_shapes")

STEPS = 60
A = np.array([[0.9, 0.3], [-0.2, 0.8]])
H = np.array([[1.0, 0.5], [0.2, 1.0]])
q, r = np.array([0.1, 0.2]), np.array([1.0, 0.5])
START = np.zeros(2), np.eye(2)
OUTPUTS = ("x", "P", "q", "r", "nis", "loglik", "ok", "restarts")


def correlated(variances, share):
    """A covariance whose correlations are all `share`."""
    d = np.sqrt(np.asarray(variances))
    return np.outer(d, d) * (share + (1 - share) * np.eye(len(d)))


@pytest.fixture(scope="module")
def record():
    """Three records with spikes, gaps of one channel and of both, and a long one."""
    rng = np.random.default_rng(1)
    x, z = np.zeros((3, 2)), np.empty((3, STEPS, 2))
    for k in range(STEPS):
        x = x @ A.T + rng.normal(size=x.shape) * np.sqrt(q)
        z[:, k] = x @ H.T + rng.normal(size=(3, 2)) * np.sqrt(r)
    z[0, 30:33] += 1e5
    z[1, 20:26, 0] = np.nan
    z[2, 40:60] = np.nan
    return z


def build(kind, **options):
    model = Linear(jnp.asarray(A), jnp.asarray(H))
    if kind == "ekf, correlated":
        return sw.EKF(model, np.outer([1.0, 0.5], [1.0, 0.5]), correlated(r, 0.7), **options)
    return sw.SageHusa(model, q, r, 0.9, gain_noise="posterior", gate=3.0, **options)


def assert_same(given, expected):
    for name in OUTPUTS:
        a, b = getattr(given, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def rooted(record):
    return sw.run(build("sage-husa", square_root=True), *START, record, dt=1.0)


def test_the_sage_husa_filter_gives_the_same_with_the_root_of_P(record, rooted):
    assert_same(rooted, sw.run(build("sage-husa"), *START, record, dt=1.0))
    U = np.moveaxis(np.asarray(rooted.state.U), -1, 0)
    np.testing.assert_allclose(U @ np.swapaxes(U, 1, 2), rooted.P[:, -1], rtol=1e-9, atol=1e-12)


def test_an_EKF_with_correlated_and_singular_noise_gives_the_same(record):
    with_root, without = (
        sw.run(build("ekf, correlated", square_root=flag), *START, record, dt=1.0)
        for flag in (True, False)
    )
    assert_same(with_root, without)


def test_C_gives_the_same_as_JAX(record, rooted):
    filt = build("sage-husa", square_root=True)
    for i in (0, 2):
        given = sw.run(filt, *START, record[i], dt=1.0, backend="c")
        for name in OUTPUTS:
            a, b = getattr(given, name), getattr(rooted, name)[i]
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


def test_noise_of_one_step_is_added_to_the_root():
    rng = np.random.default_rng(0)
    U, c = jnp.asarray(np.triu(rng.normal(size=(3, 3)))), jnp.asarray(rng.normal(size=3))
    P = U @ U.T + jnp.outer(c, c)
    rooted = Rooted(U @ U.T, U).with_noise(StepNoise(added=c))
    np.testing.assert_allclose(rooted.P, P, rtol=1e-12)
    np.testing.assert_allclose(rooted.U @ rooted.U.T, P, rtol=1e-12)


def test_an_attitude_gives_the_same_with_the_root_of_P():
    class Gyro(sw.ManifoldModel):
        """An attitude that turns at a constant rate, and is measured as a quaternion's vector."""

        space = Rotation()

        def transition(self, x, u, dt):
            return self.plus(x, dt * jnp.array([0.3, -0.2, 0.5]))

        def observe(self, x, u):
            return x[1:]

    z = np.array([[0.1, 0.0, 0.2], [0.3, -0.1, 0.4]] * 4)
    results = [
        sw.run(
            sw.EKF(Gyro(), [1e-3] * 3, [1e-2] * 3, square_root=flag),
            [1.0, 0.0, 0.0, 0.0],
            np.eye(3),
            z,
            dt=0.1,
        )
        for flag in (False, True)
    ]
    for name in OUTPUTS:
        a, b = (getattr(result, name) for result in results)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


def test_derivatives_are_those_without_the_root(record):
    z, F = jnp.asarray(record[1, 0]), jnp.asarray(A)

    def loss(q, flag):
        filt = sw.EKF(Linear(F, jnp.asarray(H)), q, r, square_root=flag)
        state, _ = filt.step(filt.init(*map(jnp.asarray, START)), z, None, 1.0, z == z)
        return filt.step(state, z, None, 1.0, z == z)[1].loglik

    expected, given = (
        jax.jit(jax.grad(partial(loss, flag=flag)))(jnp.asarray(q)) for flag in (False, True)
    )
    np.testing.assert_allclose(given, expected, rtol=1e-8)


def test_the_root_is_widened_as_P_is():
    U = jnp.asarray(np.array([[1.0, 0.5], [0.0, 2.0]]))
    P, shrink = U @ U.T, jnp.array([1.0, 0.5])
    for widen, factor in ((False, 0.0), (True, 1.0)):
        given = rescaled(U, shrink, jnp.asarray(widen))
        shrunk = P * jnp.outer(shrink, shrink)
        expected = (1.0 + factor) * shrunk + 2.0 * factor * jnp.diag(jnp.diag(shrunk))
        np.testing.assert_allclose(given @ given.T, expected, rtol=1e-12)


def test_a_triangular_root_is_that_of_the_rows_whatever_their_units():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 9)) * np.array([1e-8, 1.0, 1e8, 0.0])[:, None]
    U = np.asarray(triangular(jnp.asarray(A)))
    assert np.all(np.tril(U, -1) == 0.0)
    scale = np.sqrt(np.diag(A @ A.T)) + (np.diag(A @ A.T) == 0)
    np.testing.assert_allclose(
        U @ U.T / np.outer(scale, scale), A @ A.T / np.outer(scale, scale), atol=1e-14
    )


def test_the_root_of_a_singular_P_is_that_of_its_rounding():
    P = jnp.asarray(np.outer([1.0, 2.0, 0.0], [1.0, 2.0, 0.0]))
    L = root_of(P)
    np.testing.assert_allclose(product(L), P, atol=1e-13)
    assert np.all(np.asarray(L)[2] == 0.0)


def test_sigma_points_are_refused_with_the_root():
    with pytest.raises(sw.InputError, match="square_root=True needs linearization"):
        build("ekf, correlated", linearization="unscented", square_root=True)
