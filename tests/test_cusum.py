"""The universal policy adapts nothing until a test raises an alarm, and then soon."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import Linear, system
from scipy.stats import norm

import sagewing as sw
from sagewing.policy.universal import cusum, settings

pytestmark = pytest.mark.usefixtures("float64")
DT = 0.1
PROOF = 10.5


@pytest.fixture(scope="module")
def policy(float64):
    """The shipped one."""
    return sw.Universal.pretrained("universal")


def nominal_record(A, H, q, r, runs, steps, times_q=1.0, times_r=1.0):
    """Starts and measurements of a linear system whose noise is so many times the nominal."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(runs, len(q))) * np.sqrt(10.0 * q)
    z = np.empty((runs, steps, len(r)))
    for k in range(steps):
        x = x @ A.T + np.sqrt(times_q * q) * rng.normal(size=x.shape)
        z[:, k] = x @ H.T + np.sqrt(times_r * r) * rng.normal(size=(runs, len(r)))
    return z


def alarms(z, A, H, q, r, policy):
    """The step from which on each record's noise is adapted; as many as there are where never."""
    filt = sw.NDRSageHusa(Linear(jnp.asarray(A), jnp.asarray(H)), q, r, policy)
    made = sw.run(filt, np.zeros(len(q)), np.diag(10.0 * q), z, dt=DT)
    acts = np.any(np.asarray(made.d) > 0.0, axis=-1)
    return made, np.where(acts.any(axis=1), acts.argmax(axis=1), z.shape[1])


def test_until_an_alarm_it_is_the_nominal_EKF(policy):
    A, H, q, r = system()
    z = nominal_record(A, H, q, r, runs=200, steps=300)
    made, since = alarms(z, A, H, q, r, policy)
    assert policy.alarm_threshold == PROOF
    assert np.mean(since < 300) < 0.08
    calm = since == 300
    model = Linear(jnp.asarray(A), jnp.asarray(H))
    ekf = sw.run(sw.EKF(model, q, r), np.zeros(4), np.diag(10.0 * q), z, dt=DT)
    np.testing.assert_allclose(made.x[calm], ekf.x[calm], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made.P[calm], ekf.P[calm], rtol=1e-9, atol=1e-12)


def test_many_channels_prove_no_more_where_nothing_is_wrong():
    rng, tests = np.random.default_rng(8), cusum.begin(jnp.ones((12, 2000)))
    arrived = jnp.ones((12, 2000), bool)
    more = jax.jit(lambda tests, w: cusum.update(tests, PROOF, w, 0.0 * w, w**2, arrived))
    for _ in range(300):
        tests = more(tests, jnp.asarray(rng.normal(size=(12, 2000))))
    assert jnp.mean(tests.alarm) < 0.06


def test_a_state_without_noise_has_none_before_an_alarm(policy):
    q = np.repeat([0.0, 1e-3], 2)
    filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=2), q, np.ones(2), policy)
    made = sw.run(filt, np.zeros(4), 0.1 * np.eye(4), 0.5 * np.ones((5, 2)), dt=DT)
    np.testing.assert_array_equal(made.q, np.broadcast_to(q, (5, 4)))


@pytest.mark.parametrize(
    ("times_q", "times_r", "median"),
    [(1.0, 20.0, 2), (30.0, 1.0, 25), (1.0, 0.05, 25), (1e-3, 1.0, 120)],
)
def test_what_is_wrong_raises_an_alarm_soon(policy, times_q, times_r, median):
    A, H, q, r = system()
    z = nominal_record(A, H, q, r, 100, 200, times_q, times_r)
    _, since = alarms(z, A, H, q, r, policy)
    assert np.median(since) <= median
    assert np.mean(since < 200) > 0.95


def test_the_tests_are_ratios_of_likelihoods():
    """Against the densities of scipy."""
    rng = np.random.default_rng(7)
    white, by_gain = rng.normal(size=(2, 3))
    arrived = np.array([True, False, True])
    white, by_gain = (np.where(arrived, a, 0.0) for a in (white, by_gain))
    before = cusum.begin(jnp.ones(3))
    after = cusum.update(before, PROOF, *map(jnp.asarray, (white, by_gain, white**2, arrived)))
    null = norm.logpdf(white[arrived])
    for now, (rho, c, first) in zip(after.joint, settings.JOINT_TESTS, strict=True):
        other = norm.logpdf(white[arrived], c * by_gain[arrived], np.sqrt(rho))
        assert np.isclose(now, max(first + np.sum(other - null), 0.0))
    for now, (rho, first) in zip(after.channels, settings.CHANNEL_TESTS, strict=True):
        other = norm.logpdf(white[arrived], 0.0, np.sqrt(rho))
        first = max(first - np.log(3.0), 0.0)
        np.testing.assert_allclose(now[arrived], np.maximum(first + other - null, 0.0))
        assert np.isclose(now[1], first)
