"""The universal policy: what makes no difference to it, and that it is a policy like any other."""

import json
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from linear import Linear, system

import sagewing as sw
from sagewing.filters import Attenuation, Frozen, StepInfo
from sagewing.filters.run import Result
from sagewing.filters.step import Linearization
from sagewing.policy.universal.curvature import curvature
from sagewing.studies.universal import TRAININGS
from sagewing.train.losses import state_loss

pytestmark = pytest.mark.usefixtures("float64")
STEPS, DT = 60, 0.1
ORDER_X, ORDER_Z = np.array([2, 0, 3, 1]), np.array([1, 0])


@pytest.fixture(scope="module")
def policy(float64):
    """The shipped one."""
    return sw.Universal.pretrained("universal")


class Curved(sw.Model):
    """x+ = A x + B sin(V x), z = H x: in any order, units and signs it is of this form."""

    A: jax.Array
    B: jax.Array
    V: jax.Array
    H: jax.Array

    def transition(self, x, u, dt):
        return self.A @ x + self.B @ jnp.sin(self.V @ x)

    def observe(self, x, u):
        return self.H @ x


class Plain(NamedTuple):
    """A record, the filter's matrices and noise, and what it makes of it."""

    matrices: tuple[np.ndarray, ...]
    q: np.ndarray
    r: np.ndarray
    z: np.ndarray
    made: Result


def estimates(policy, matrices, q, r, z):
    filt = sw.NDRSageHusa(Curved(*map(jnp.asarray, matrices)), q, r, policy)
    return sw.run(filt, np.zeros(len(q)), np.diag(10.0 * q), z, dt=DT)


@pytest.fixture(scope="module")
def plain(policy):
    A, H, q, r = system()
    rng = np.random.default_rng(1)
    B, V = 0.3 * rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    x, z = np.zeros(4), []
    for _ in range(STEPS):
        x = A @ x + B @ np.sin(V @ x) + 2.0 * np.sqrt(q) * rng.normal(size=4)
        z.append(H @ x + 2.0 * np.sqrt(r) * rng.normal(size=2))
    z = np.array(z)
    z[::9] *= 6.0  # some of them are outliers
    z[rng.random(z.shape) < 0.1] = np.nan
    return Plain((A, B, V, H), q, r, z, estimates(policy, (A, B, V, H), q, r, z))


def test_it_adapts_and_adds_curvature(policy, plain):
    for noise, base in ((plain.made.q, plain.q), (plain.made.r, plain.r)):
        assert np.ptp(np.log(noise / base), axis=0).min() > 0.1
    straight = sw.Universal(alarm_threshold=policy.alarm_threshold, key=jax.random.key(0))
    weights = (policy.measured, policy.state)
    straight = eqx.tree_at(lambda p: (p.measured, p.state), straight, weights)
    assert np.abs(estimates(straight, *plain[:-1]).x - plain.made.x).max() > 0.01


def test_the_order_of_states_and_channels_makes_no_difference(policy, plain):
    (A, B, V, H), q, r, z, made = plain
    o, c = ORDER_X, ORDER_Z
    matrices = (A[np.ix_(o, o)], B[o], V[:, o], H[np.ix_(c, o)])
    other = estimates(policy, matrices, q[o], r[c], z[:, c])
    np.testing.assert_allclose(other.x, made.x[:, o], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.q, made.q[:, o], rtol=1e-6)
    np.testing.assert_allclose(other.r, made.r[:, c], rtol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_units_and_signs_make_no_difference(policy, plain, sign):
    (A, B, V, H), q, r, z, made = plain
    s, t = np.array([1e-3, sign * 5.0, 1e2, 1.0]), np.array([sign * 30.0, 0.01])
    matrices = (s[:, None] * A / s, s[:, None] * B, V / s, t[:, None] * H / s)
    other = estimates(policy, matrices, s**2 * q, t**2 * r, t * z)
    np.testing.assert_allclose(other.x / s, made.x, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.q / s**2, made.q, rtol=1e-5)
    np.testing.assert_allclose(other.r / t**2, made.r, rtol=1e-5)


@pytest.mark.parametrize("axes", [1, 3])
def test_any_size_will_do_and_a_batch_is_its_records(policy, axes):
    z = np.random.default_rng(2).normal(size=(2, 10, axes))
    q = np.repeat([0.0, 0.1], axes)  # a state without noise of its own has none
    filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=axes), q, np.ones(axes), policy)
    made = sw.run(filt, np.zeros(2 * axes), np.eye(2 * axes), z, dt=DT)
    assert bool(jnp.all(made.ok))
    assert np.all(np.isfinite(made.x))
    assert np.all(made.q[..., :axes] <= 1e-9)
    alone = sw.run(filt, np.zeros(2 * axes), np.eye(2 * axes), z[1], dt=DT)
    np.testing.assert_allclose(alone.x, made.x[1], rtol=1e-7, atol=1e-9)


def test_before_training_it_is_the_nominal_filter(plain):
    A, H, q, r = system()
    z = np.where(np.arange(STEPS)[:, None] % 9, plain.z, np.nan)  # without the outliers
    model = Linear(jnp.asarray(A), jnp.asarray(H))
    start = (np.zeros(4), np.diag(10.0 * q), z)
    ekf = sw.run(sw.EKF(model, q, r), *start, dt=DT).x
    new = sw.run(sw.NDRSageHusa(model, q, r, sw.Universal(key=jax.random.key(0))), *start, dt=DT).x
    assert np.sqrt(np.mean((new - ekf) ** 2)) < 0.15 * np.sqrt(np.mean(np.asarray(ekf) ** 2))


def test_what_does_not_arrive_leaves_noise_and_memory_alone(policy, plain):
    matrices, q, r, z, _ = plain
    filt = sw.NDRSageHusa(Curved(*map(jnp.asarray, matrices)), q, r, policy)
    start = (np.zeros(4), np.diag(10.0 * q))
    before = sw.run(filt, *start, z, dt=DT).state
    gap = np.concatenate([z, np.full((7, 2), np.nan)])
    after = sw.run(filt, *start, gap, dt=DT).state
    kept, now = ((s.q, s.r, s.memory._replace(gain_sensitivity=None)) for s in (before, after))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, kept, now)))
    assert not np.array_equal(before.x, after.x)


def test_a_switch_of_sensors_starts_the_memory_of_channels_anew(policy):
    point = sw.models.ConstantVelocity(axes=1)
    model = sw.models.Switched((point, point), inputs=((0, 0), (0, 0)))
    filt = sw.NDRSageHusa(model, [0.1, 0.1], [[1.0], [4.0]], policy)
    z = np.random.default_rng(3).normal(size=(12, 1))
    modes = (np.arange(12) >= 10).astype(float)[:, None]
    channels, states, *_ = sw.run(filt, np.zeros(2), np.eye(2), z, modes, dt=DT).state.memory
    assert channels.times.tolist() == [2.0]
    assert states.times.tolist() == [12.0]


def test_the_gain_sensitivity_is_the_derivative_of_the_estimate_by_the_gain():
    """Against x of filters whose gains are all a little larger, and a little smaller."""
    A, H, q, r = system()
    z = np.random.default_rng(5).normal(size=(30, 2))
    K, eps = 0.3 * np.linalg.pinv(H), 1e-4

    def estimates(scale):
        x = np.zeros(4)
        for row in z:
            x = A @ x
            nu = row - H @ x
            x = x + scale * K @ nu
            yield x, nu

    policy = sw.Universal(key=jax.random.key(0))
    memory = policy.init(jnp.asarray(q), jnp.asarray(r))
    S = 1e4 * np.eye(2)  # much more than r: the gain is K whatever the policy says of r
    wide = 1e6 * np.eye(4)
    matrices = (wide, np.zeros(4), A, wide, wide, H, np.zeros((2, 2)), q, r)
    linear = Linearization(None, *map(jnp.asarray, matrices))
    for _, nu in estimates(1.0):
        seen = map(jnp.asarray, (nu, nu, S, np.sqrt(S), K, q, r, np.ones(2, bool)))
        memory = policy(memory, StepInfo(*seen, linear))[1]
    more, less = (list(estimates(scale))[-1][0] for scale in (1.0 + eps, 1.0 - eps))
    np.testing.assert_allclose(memory.gain_sensitivity, (more - less) / (2.0 * eps), rtol=1e-3)


class Parabola(sw.Model):
    """A parabola, which is measured."""

    def transition(self, x, u, dt):
        return x + jnp.stack([0.1 * x[1] ** 2, 0.0 * x[0]])

    def observe(self, x, u):
        return x[:1]


class Bending(Frozen):
    """An EKF that knows the curvature of f along (0.1, 0.6)."""

    def __call__(self, memory, info):
        along = jnp.array([0.1, 0.6])
        bent = curvature(info.linear, 2.0, along, info.linear.F @ along, info.arrived)
        return Attenuation(inflate_r=jnp.ones_like(info.r), curvature=bent), None, bent


def test_curvature_is_f_less_its_linearisation_and_widens_P():
    x, P = jnp.array([1.0, 2.0]), jnp.array([[0.04, 0.0], [0.0, 0.09]])
    filt = sw.EKF(Parabola(), [0.01, 0.01], [1.0])
    filt = eqx.tree_at(lambda f: f.rule.policy, filt, Bending())

    def step(arrived):
        return filt.step(
            filt.init(x, P), jnp.zeros(1), None, jnp.asarray(DT), jnp.asarray([arrived])
        )[1]

    made = step(True)
    # Two standard deviations of the second state
    np.testing.assert_allclose(made.trace, [0.1 * 0.6**2, 0.0], atol=1e-12)
    F = np.array([[1.0, 0.4], [0.0, 1.0]])
    wide = F @ P @ F.T + 0.01 * np.eye(2) + np.outer(made.trace, made.trace)
    K = wide[:, :1] / (wide[0, 0] + 1.0)
    np.testing.assert_allclose(made.P, wide - K @ wide[:1], atol=1e-12)
    np.testing.assert_array_equal(step(False).trace, 0.0)


def test_what_is_saved_comes_back_by_either_name(policy, tmp_path):
    policy.save(tmp_path / "p", {"trained on": "nothing"})
    for kind in (sw.Policy, sw.Universal):
        again = kind.load(tmp_path / "p")
        assert eqx.tree_equal(again, policy)
    with pytest.raises(sw.InputError, match='reads "noise"'):
        sw.Noise.load(tmp_path / "p")
    card = json.loads((tmp_path / "p" / "policy.json").read_text())
    card["architecture"]["hidden"] = [0]
    (tmp_path / "p" / "policy.json").write_text(json.dumps(card))
    with pytest.raises(sw.InputError, match="damaged"):
        sw.Policy.load(tmp_path / "p")


def test_the_shipped_one_is_what_a_new_user_tries():
    policy = sw.Policy.pretrained("universal")
    assert isinstance(policy, sw.Universal)
    filt = sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy=policy)
    assert (filt.n_x, filt.n_z) == (3, 2)
    made = [sw.Universal.pretrained(name) for name in TRAININGS]
    assert not eqx.tree_equal(made[0], made[1])


WIDE = sw.models.ConstantVelocity(axes=4)  # enough states that C has loops over them


@pytest.mark.parametrize(("model", "n_z"), [(sw.models.Lorenz(), 2), (WIDE, 4)], ids=["3", "8"])
def test_C_says_what_JAX_says(policy, model, n_z, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jaxtyping.config.update("jaxtyping_disable", True)
    rng = np.random.default_rng(4)
    n_x = 3 if n_z == 2 else 8
    filt = sw.NDRSageHusa(model, [0.01] * n_x, [1.0, 2.0] * (n_z // 2), policy)
    x0 = np.resize([-8.0, -6.0, 25.0], n_x)
    by_c, by_jax = (sw.Online(filt, x0, np.eye(n_x), backend=b) for b in ("c", "jax"))
    for k in range(100):
        z = None if k == 7 else x0[:n_z] + 3.0 * rng.normal(size=n_z)
        mask = np.arange(n_z) >= (k % 5 == 0)
        (x, P), (x_jax, P_jax) = (o.step(z, dt=0.01, mask=mask) for o in (by_c, by_jax))
        np.testing.assert_allclose(x, x_jax, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(P, P_jax, rtol=1e-9, atol=1e-9)
    jaxtyping.config.update("jaxtyping_disable", False)


def test_a_gradient_is_a_number_for_every_weight(policy):
    rng = np.random.default_rng(5)
    z, truth = rng.normal(size=(2, 12, 1)), jnp.asarray(rng.normal(size=(2, 12, 2)))
    z[0, 3], z[1, 3], z[1, 5] = np.nan, 1e6, 50.0

    @jax.jit
    @jax.grad
    def gradient(policy):
        filt = sw.NDRSageHusa(sw.models.ConstantVelocity(axes=1), [0.1, 0.1], [1.0], policy)
        return state_loss(
            filt, jnp.zeros((2, 2)), jnp.eye(2), jnp.asarray(z), jnp.asarray(truth), DT
        )

    sizes = [float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(gradient(policy))]
    assert np.all(np.isfinite(sizes))
    assert max(sizes) > 0.0
