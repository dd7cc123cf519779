"""The recursion in float64, against other people's filters and a plain reading of the paper."""

from functools import cache, partial
from typing import NamedTuple

import filterpy.kalman
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter, inference_ekf
from dynamax.utils.utils import psd_solve

import sagewing as sw

TOLERANCE = 1e-9
EVERYTHING = ("x", "P", "q", "r", "d", "nis", "loglik")
BOUNDS = (0.5, 100.0)
GAIN_NOISE = ("prior", "posterior")
# A different forgetting factor each, so that no single b is special.
FADING = (0.95, 0.99)
pytestmark = pytest.mark.usefixtures("float64")


class Case(NamedTuple):
    """A system twice, the package's and the reference's, and a simulated record of it."""

    model: sw.Model
    system: reference.System
    x0: np.ndarray
    P0: np.ndarray
    q0: np.ndarray
    r0: np.ndarray
    z: np.ndarray

    def expected(self, Q0=None, R0=None, **settings):
        """The reference's estimates."""
        Q0 = np.diag(self.q0) if Q0 is None else Q0
        R0 = np.diag(self.r0) if R0 is None else R0
        return reference.run(
            self.system, self.x0, self.P0, self.z, **{"Q0": Q0, "R0": R0, "dt": 0.01} | settings
        )


def simulated(name, T, seed=0):
    """A noisy record with outliers, the filter started off the truth."""
    rng = np.random.default_rng(seed)
    if name == "lorenz":
        model, system = sw.models.Lorenz(jacobian="exact"), reference.LORENZ
        truth, q0, r0 = np.array([-8.0, -6.0, 25.0]), np.full(3, 0.01), np.array([1.0, 2.0])
    else:
        # It starts just before the bearing jumps from pi to -pi.
        model, system = sw.models.Rossler(jacobian="exact", wrap_bearing=True), reference.ROSSLER
        # Little noise on z, which below zero would run away.
        truth, q0 = np.array([-6.0, 1.0, 0.1]), np.array([2e-3, 2e-3, 1e-6])
        r0 = np.array([0.5, 0.05])
    P0 = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.3]])
    x0 = truth + rng.multivariate_normal(np.zeros(3), P0)
    z = np.empty((T, 2))
    for k in range(T):
        truth = system.f(truth, 0.01)[0] + rng.normal(0.0, np.sqrt(q0))
        outlier = np.where(rng.random(2) < 0.1, 15.0, 1.0)
        z[k] = system.h(truth) + outlier * rng.normal(0.0, np.sqrt(r0))
    return Case(model, system, x0, P0, q0, r0, z)


def some_missing(T, seed=0):
    """Which channels arrived: either may be missing, at times both, for a while none."""
    arrived = np.random.default_rng(seed).random((T, 2)) < 0.7
    arrived[20:25] = False
    assert {(False, False), (False, True), (True, False)} < set(map(tuple, arrived.tolist()))
    return arrived


@cache
def a_policy(features="whitened", depth=3):
    return sw.Policy(sw.Architecture(3, 2, features=features, depth=depth), key=jax.random.key(0))


def dense(diagonal):
    """A covariance with these variances and a correlation of -0.4 between neighbours."""
    n = len(diagonal)
    correlation = np.eye(n) - 0.4 * (np.eye(n, k=1) + np.eye(n, k=-1))
    return correlation * np.sqrt(np.outer(diagonal, diagonal))


def assert_equal(result, expected, fields=("x", "P", "q", "r", "d")):
    for name in fields:
        np.testing.assert_allclose(
            getattr(result, name),
            getattr(expected, name),
            rtol=TOLERANCE,
            atol=TOLERANCE,
            err_msg=name,
        )


@pytest.fixture(params=["lorenz", "rossler"])
def case(request):
    return simulated(request.param, T=100)


@pytest.fixture(params=["lorenz", "rossler"])
def long_case(request):
    return simulated(request.param, T=500)


# Other people's filters


def test_the_ekf_equals_filterpy(long_case):
    model, system, x0, P0, q0, r0, z = long_case

    class Filterpy(filterpy.kalman.ExtendedKalmanFilter):
        def predict_x(self, u=0):
            self.x, self.F = system.f(self.x, 0.01)

    ekf = Filterpy(dim_x=3, dim_z=2)
    ekf.x, ekf.P, ekf.Q, ekf.R = x0, P0, np.diag(q0), np.diag(r0)
    xs, Ps = [], []
    for z_k in z:
        ekf.predict()
        ekf.update(z_k, HJacobian=system.H, Hx=system.h, residual=system.innovation)
        xs.append(ekf.x)
        Ps.append(ekf.P)

    result = sw.run(sw.EKF(model, q0, r0), x0, P0, z, dt=0.01)
    np.testing.assert_allclose(result.x, xs, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(result.P, Ps, rtol=TOLERANCE, atol=TOLERANCE)


def test_the_ekf_and_its_likelihood_equal_dynamax(long_case, monkeypatch):
    model, _, x0, P0, q0, r0, z = long_case
    # Its gain is that of S + 1e-9 I, which is as large as the difference we look for.
    monkeypatch.setattr(inference_ekf, "psd_solve", partial(psd_solve, diagonal_boost=0.0))
    # Its first measurement corrects the prior itself, ours a prediction from it.
    dt = jnp.asarray(0.01)
    F = jax.jacfwd(model.transition)(jnp.asarray(x0), None, dt)
    params = ParamsNLGSSM(
        initial_mean=model.transition(jnp.asarray(x0), None, dt),
        initial_covariance=F @ P0 @ F.T + jnp.diag(q0),
        dynamics_function=lambda x, z: model.transition(x, None, dt),
        dynamics_covariance=jnp.diag(q0),
        # It knows no angles: the prediction is moved by whole turns until it is next to z.
        emission_function=lambda x, z: z - model.innovation(z, model.observe(x, None)),
        emission_covariance=jnp.diag(r0),
    )
    expected = extended_kalman_filter(params, jnp.asarray(z), inputs=jnp.asarray(z))

    result = sw.run(sw.EKF(model, q0, r0), x0, P0, z, dt=0.01)
    np.testing.assert_allclose(result.x, expected.filtered_means, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(
        result.P, expected.filtered_covariances, rtol=TOLERANCE, atol=TOLERANCE
    )
    np.testing.assert_allclose(result.loglik.sum(), expected.marginal_loglik, rtol=TOLERANCE)


# The paper, read plainly


def test_the_records_move_the_noise_to_both_of_its_bounds(case):
    """Otherwise the tests below would agree about too little."""
    low, high = BOUNDS
    expected = case.expected(attenuate=reference.fading(0.95), bounds=BOUNDS)
    for noise, base in ((expected.q, case.q0), (expected.r, case.r0)):
        assert np.any(noise == low * base)
        assert np.any((low * base < noise) & (noise < high * base))
    high_policy = reference.learned(a_policy(), "whitened")
    expected = case.expected(attenuate=high_policy, bounds=BOUNDS)
    assert np.any(expected.q == high * case.q0)
    assert np.any(expected.r == high * case.r0)


def test_the_ekf_equals_the_reference(case):
    result = sw.run(sw.EKF(case.model, case.q0, case.r0), case.x0, case.P0, case.z, dt=0.01)
    assert_equal(result, case.expected(), EVERYTHING)


@pytest.mark.parametrize("gain_noise", GAIN_NOISE)
@pytest.mark.parametrize("b", FADING)
def test_sage_husa_equals_the_reference(case, b, gain_noise):
    filt = sw.SageHusa(case.model, case.q0, case.r0, b=b, bounds=BOUNDS, gain_noise=gain_noise)
    result = sw.run(filt, case.x0, case.P0, case.z, dt=0.01)
    expected = case.expected(attenuate=reference.fading(b), bounds=BOUNDS, gain_noise=gain_noise)
    assert_equal(result, expected)


@pytest.mark.parametrize("gain_noise", GAIN_NOISE)
@pytest.mark.parametrize(
    ("features", "depth", "name"),
    [
        ("whitened", 3, "lorenz"),
        ("whitened", 1, "rossler"),
        ("raw", 3, "rossler"),
        ("whitened-no-log", 3, "lorenz"),
        ("nis", 3, "rossler"),
    ],
)
def test_the_learned_filter_equals_the_reference(features, depth, name, gain_noise):
    case = simulated(name, T=100)
    policy = a_policy(features, depth)
    filt = sw.NDRSageHusa(
        case.model, case.q0, case.r0, policy=policy, bounds=BOUNDS, gain_noise=gain_noise
    )
    result = sw.run(filt, case.x0, case.P0, case.z, dt=0.01)
    expected = case.expected(
        attenuate=reference.learned(policy, features), bounds=BOUNDS, gain_noise=gain_noise
    )
    assert_equal(result, expected)


# Missing channels, full noise matrices, uneven time


def test_the_ekf_with_a_missing_channel_is_the_ekf_without_its_row(case):
    arrived = some_missing(100)
    filt = sw.EKF(case.model, case.q0, case.r0)
    result = sw.run(filt, case.x0, case.P0, case.z, dt=0.01, mask=arrived)
    assert_equal(result, case.expected(arrived=arrived), EVERYTHING)


@pytest.mark.parametrize("gain_noise", GAIN_NOISE)
@pytest.mark.parametrize("b", FADING)
def test_sage_husa_with_a_missing_channel_is_sage_husa_without_its_row(case, b, gain_noise):
    arrived = some_missing(100)
    filt = sw.SageHusa(case.model, case.q0, case.r0, b=b, bounds=BOUNDS, gain_noise=gain_noise)
    z = np.where(arrived, case.z, np.nan)
    result = sw.run(filt, case.x0, case.P0, z, dt=0.01)
    expected = case.expected(
        attenuate=reference.fading(b), bounds=BOUNDS, gain_noise=gain_noise, arrived=arrived
    )
    assert_equal(result, expected, EVERYTHING)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_the_ekf_with_full_noise_matrices_equals_the_reference(case, missing):
    Q0, R0 = dense(case.q0), dense(case.r0)
    arrived = some_missing(100) if missing else np.ones((100, 2), bool)
    result = sw.run(sw.EKF(case.model, Q0, R0), case.x0, case.P0, case.z, dt=0.01, mask=arrived)
    assert_equal(result, case.expected(Q0=Q0, R0=R0, arrived=arrived), EVERYTHING)


def test_steps_of_uneven_length_equal_the_reference():
    case = simulated("lorenz", T=100)
    dt = np.random.default_rng(0).uniform(0.0, 0.03, 100)
    filt = sw.SageHusa(case.model, case.q0, case.r0, b=0.95, bounds=BOUNDS)
    result = sw.run(filt, case.x0, case.P0, case.z, dt=dt)
    expected = case.expected(attenuate=reference.fading(0.95), bounds=BOUNDS, dt=dt)
    assert_equal(result, expected)


def test_every_record_of_a_batch_equals_the_reference():
    cases = [simulated("rossler", T=100, seed=seed) for seed in range(3)]
    arrived = np.stack([some_missing(100, seed) for seed in range(3)])
    dt = np.random.default_rng(0).uniform(0.0, 0.02, (3, 100))
    first = cases[0]
    filt = sw.SageHusa(first.model, first.q0, first.r0, b=0.95, bounds=BOUNDS)
    x0, P0, z = (np.stack([getattr(c, name) for c in cases]) for name in ("x0", "P0", "z"))
    result = sw.run(filt, x0, P0, z, dt=dt, mask=arrived)
    for i, one in enumerate(cases):
        expected = one.expected(
            attenuate=reference.fading(0.95), bounds=BOUNDS, dt=dt[i], arrived=arrived[i]
        )
        record = jax.tree.map(lambda a, i=i: a[i], result._replace(state=None))
        assert_equal(record, expected, EVERYTHING)
