"""A filter whose model changes on the way: pose and IMU of a quadrotor in one run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.models.quadrotor import GRAVITY, N_X, QDRONE

KINEMATIC, DYNAMIC = sw.models.QuadrotorKinematic(), sw.models.QuadrotorDynamic()
MODEL = sw.models.Switched((KINEMATIC, DYNAMIC), inputs=((0, 6), (6, 10)))
R0 = np.array([[0.05] * 6, [0.2] * 3 + [0.01] * 3])
Q0 = np.full(N_X, 1e-3)
X0 = np.zeros(N_X)
X0[6] = 1.0
P0 = 0.1 * np.eye(N_X)
T, FIRST, LAST = 60, 20, 40
HOVER = QDRONE.mass * GRAVITY / (4 * QDRONE.thrust)


@pytest.fixture(scope="module")
def record():
    """A hover that sees its pose, then its IMU, then its pose."""
    rng = np.random.default_rng(0)
    mode = np.zeros(T)
    mode[FIRST:LAST] = 1
    imu = np.array([0, 0, GRAVITY, 0, 0, 0]) + 0.1 * rng.normal(size=(T, 6))
    motors = np.full((T, 4), HOVER)
    z = np.where(mode[:, None] == 1, imu, 0.2 * rng.normal(size=(T, 6)))
    return z, np.concatenate([mode[:, None], imu, motors], axis=1)


def filters():
    policy = sw.Policy(sw.Architecture.flight(), key=jax.random.key(0))
    return {
        "ekf": sw.EKF(MODEL, Q0, R0),
        "gated": sw.EKF(MODEL, Q0, R0, gate=3.0),
        "sage-husa": sw.SageHusa(MODEL, Q0, R0, b=0.99),
        "ndr": sw.NDRSageHusa(MODEL, Q0, R0, policy),
    }


def test_a_switched_run_is_the_runs_of_its_parts(record, float64):
    """Each stretch is a run of its own model from the state before it, with r at its base."""
    z, u = record
    whole = sw.run(sw.EKF(MODEL, Q0, R0), X0, P0, z, u)
    x, P = X0, P0
    for part, model, inputs, r0 in (
        (slice(0, FIRST), KINEMATIC, slice(1, 7), R0[0]),
        (slice(FIRST, LAST), DYNAMIC, slice(7, 11), R0[1]),
        (slice(LAST, T), KINEMATIC, slice(1, 7), R0[0]),
    ):
        alone = sw.run(sw.EKF(model, Q0, r0), x, P, z[part], u[part, inputs])
        np.testing.assert_allclose(whole.x[part], alone.x, atol=1e-12)
        np.testing.assert_allclose(whole.P[part], alone.P, atol=1e-12)
        np.testing.assert_array_equal(whole.r[part], alone.r)
        x, P = alone.x[-1], alone.P[-1]


@pytest.mark.parametrize("name", ["ekf", "gated", "sage-husa", "ndr"])
def test_batch_and_online_give_the_numbers_of_one_run(name, record, float64):
    z, u = record
    filt = filters()[name]
    whole = sw.run(filt, X0, P0, z, u)
    still = u.copy()
    still[:, 0] = 0  # a neighbour that never switches
    batch = sw.run(filt, X0, P0, np.stack([z, z]), np.stack([u, still]))
    np.testing.assert_allclose(batch.x[0], whole.x, atol=1e-10)
    assert np.max(np.abs(batch.x[1, -1] - whole.x[-1])) > 1e-6
    online = sw.Online(filt, X0, P0, backend="jax")
    for k in range(T):
        x, _ = online.step(z[k], u[k])
        np.testing.assert_allclose(x, whole.x[k], atol=1e-10)


@pytest.mark.parametrize("name", ["sage-husa", "ndr"])
def test_a_switch_sets_r_back_and_keeps_q(name, record):
    z, u = record
    filt = filters()[name]
    silent = np.where(np.arange(T)[:, None] == FIRST, np.nan, z)  # nothing to adapt to
    made = sw.run(filt, X0, P0, silent, u)
    np.testing.assert_allclose(made.r[FIRST], R0[1], rtol=1e-6)
    np.testing.assert_array_equal(made.q[FIRST], made.q[FIRST - 1])
    assert np.max(np.abs(made.r[FIRST - 1] / R0[0] - 1.0)) > 0.01
    low, high = (b * R0[1] for b in filt.rule.bounds)
    inside = np.asarray(made.r[FIRST:LAST])
    assert np.all((inside >= low * (1 - 1e-5)) & (inside <= high * (1 + 1e-5)))


def test_a_policy_may_adapt_in_one_mode_only(record):
    """In the other mode the filter is the EKF of the base noise; q is back with the first mode."""
    z, u = record
    policy = sw.Policy(sw.Architecture.flight(), adapts_in=(0,), key=jax.random.key(0))
    made = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, policy), X0, P0, z, u)
    np.testing.assert_array_equal(made.d[FIRST:LAST], 0.0)
    np.testing.assert_allclose(made.q[FIRST:LAST], np.tile(Q0, (LAST - FIRST, 1)), rtol=1e-6)
    np.testing.assert_allclose(made.r[FIRST:LAST], np.tile(R0[1], (LAST - FIRST, 1)), rtol=1e-6)
    at_switch = made.x[FIRST - 1], made.P[FIRST - 1]
    inside = slice(FIRST, LAST)
    alone = sw.run(sw.EKF(DYNAMIC, Q0, R0[1]), *at_switch, z[inside], u[inside, 7:])
    np.testing.assert_allclose(made.x[inside], alone.x, atol=1e-5)
    silent = np.where(np.arange(T)[:, None] == LAST, np.nan, z)
    back = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, policy), X0, P0, silent, u)
    np.testing.assert_array_equal(back.q[LAST], back.q[FIRST - 1])
    assert np.max(np.abs(back.q[LAST] / Q0 - 1.0)) > 0.01


def test_only_the_model_with_angles_wraps_them():
    z = jnp.full(6, 3.0)
    u = jnp.zeros(11)
    wrapped = MODEL.residual(z, -z, u)
    np.testing.assert_allclose(wrapped[3:], 6.0 - 2 * np.pi, rtol=1e-5)
    np.testing.assert_allclose(MODEL.residual(z, -z, u.at[0].set(1.0))[3:], 6.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sw.EKF(MODEL, Q0, R0[0]), ["R0", "mode", "(2, n_z)", "(6,)"]),
        (lambda: sw.SageHusa(MODEL, Q0, -R0), ["R0", "positive"]),
        (
            lambda: sw.models.Switched((KINEMATIC,), inputs=((0, 6), (6, 10))),
            ["1 models", "2 places"],
        ),
        (
            lambda: sw.run(sw.EKF(MODEL, Q0, R0), X0, P0, np.zeros((3, 6)), np.zeros((3, 10))),
            ["u", "mode", "11 numbers", "(10,)"],
        ),
        (
            lambda: sw.run(sw.EKF(MODEL, Q0, R0), X0, P0, np.zeros((3, 6))),
            ["u", "mode", "11 numbers", "none"],
        ),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(sw.InputError) as error:
        call()
    for word in words:
        assert word in str(error.value)
