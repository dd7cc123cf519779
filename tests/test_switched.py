"""A filter whose model changes on the way: a pose and then speeds, in one run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw


class Posed(sw.Model):
    """A cart that sees its place and its heading; it is given an acceleration and a turn rate."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1] * jnp.cos(x[2]), x[1] + dt * u[0], x[2] + dt * u[1]])

    def observe(self, x, u):
        return x[jnp.array([0, 2])]

    def residual(self, z, z_hat, u):
        apart = z - z_hat
        return apart.at[1].set(jnp.mod(apart[1] + jnp.pi, 2 * jnp.pi) - jnp.pi)


class Driven(sw.Model):
    """The cart that sees its speed along its axis and across; it is given a force."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1] * jnp.cos(x[2]), x[1] + dt * (u[0] - x[1]), x[2]])

    def observe(self, x, u):
        return x[1] * jnp.stack([jnp.cos(x[2]), jnp.sin(x[2])])


POSED, DRIVEN = Posed(), Driven()
MODEL = sw.models.Switched((POSED, DRIVEN), inputs=((0, 2), (2, 3)))
R0 = np.array([[0.05] * 2, [0.2, 0.01]])
Q0 = np.full(3, 1e-3)
X0 = np.array([0.0, 1.0, 0.0])
P0 = 0.1 * np.eye(3)
T, FIRST, LAST = 60, 20, 40


@pytest.fixture(scope="module")
def record():
    """A slow drive that sees its pose, then its speeds, then its pose."""
    rng = np.random.default_rng(0)
    mode = np.zeros(T)
    mode[FIRST:LAST] = 1
    u = np.concatenate([mode[:, None], 0.1 * rng.normal(size=(T, 2)), np.ones((T, 1))], axis=1)
    speeds = np.array([1.0, 0.0]) + 0.1 * rng.normal(size=(T, 2))
    z = np.where(mode[:, None] == 1, speeds, 0.2 * rng.normal(size=(T, 2)))
    return z, u


def a_policy(adapts_in=None):
    sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
    arch = sw.Architecture(3, 2, depth=2, hidden=4, **sizes)
    return sw.Policy(arch, adapts_in=adapts_in, key=jax.random.key(0))


def filters():
    policy = a_policy()
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
        (slice(0, FIRST), POSED, slice(1, 3), R0[0]),
        (slice(FIRST, LAST), DRIVEN, slice(3, 4), R0[1]),
        (slice(LAST, T), POSED, slice(1, 3), R0[0]),
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


def test_a_switch_forgets_the_correlations_of_R_and_keeps_those_of_Q(record):
    z, u = record
    filt = sw.SageHusa(MODEL, Q0, R0, b=0.95, gain_noise="posterior", dense=True)
    silent = np.where(np.arange(T)[:, None] == FIRST, np.nan, z)
    Q, R = sw.run(filt, X0, P0, silent, u, save=lambda step, _: (step.Q, step.R)).values
    np.testing.assert_allclose(R[FIRST], np.diag(R0[1]), rtol=1e-6)
    np.testing.assert_array_equal(Q[FIRST], Q[FIRST - 1])
    assert abs(R[FIRST - 1, 0, 1]) > 1e-6
    assert abs(R[FIRST + 20, 0, 1]) > 1e-6


def test_a_policy_may_adapt_in_one_mode_only(record):
    """In the other mode the filter is the EKF of the base noise; q is back with the first mode."""
    z, u = record
    policy = a_policy(adapts_in=(0,))
    made = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, policy), X0, P0, z, u)
    np.testing.assert_array_equal(made.d[FIRST:LAST], 0.0)
    np.testing.assert_allclose(made.q[FIRST:LAST], np.tile(Q0, (LAST - FIRST, 1)), rtol=1e-6)
    np.testing.assert_allclose(made.r[FIRST:LAST], np.tile(R0[1], (LAST - FIRST, 1)), rtol=1e-6)
    at_switch = made.x[FIRST - 1], made.P[FIRST - 1]
    inside = slice(FIRST, LAST)
    alone = sw.run(sw.EKF(DRIVEN, Q0, R0[1]), *at_switch, z[inside], u[inside, 3:])
    np.testing.assert_allclose(made.x[inside], alone.x, atol=1e-5)
    silent = np.where(np.arange(T)[:, None] == LAST, np.nan, z)
    back = sw.run(sw.NDRSageHusa(MODEL, Q0, R0, policy), X0, P0, silent, u)
    np.testing.assert_array_equal(back.q[LAST], back.q[FIRST - 1])
    assert np.max(np.abs(back.q[LAST] / Q0 - 1.0)) > 0.01


def test_only_the_model_with_angles_wraps_them():
    z = jnp.full(2, 3.0)
    u = jnp.zeros(4)
    wrapped = MODEL.residual(z, -z, u)
    np.testing.assert_allclose(wrapped, [6.0, 6.0 - 2 * np.pi], rtol=1e-5)
    np.testing.assert_allclose(MODEL.residual(z, -z, u.at[0].set(1.0)), 6.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sw.EKF(MODEL, Q0, R0[0]), ["R0", "mode", "(2, n_z)", "(2,)"]),
        (lambda: sw.SageHusa(MODEL, Q0, -R0), ["R0", "positive"]),
        (
            lambda: sw.models.Switched((POSED,), inputs=((0, 2), (2, 3))),
            ["1 models", "2 places"],
        ),
        (
            lambda: sw.run(sw.EKF(MODEL, Q0, R0), X0, P0, np.zeros((3, 2)), np.zeros((3, 3))),
            ["u", "mode", "4 numbers", "(3,)"],
        ),
        (
            lambda: sw.run(sw.EKF(MODEL, Q0, R0), X0, P0, np.zeros((3, 2))),
            ["u", "mode", "4 numbers", "none"],
        ),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(sw.InputError) as error:
        call()
    for word in words:
        assert word in str(error.value)
