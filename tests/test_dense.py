"""Covariances of the noise with correlations that are adapted.

With FUZZ_EXAMPLES set the records in single precision have 10^5 steps.
"""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import Linear

import sagewing as sw
from sagewing.filters.correlations import LEAST, definite, inflated

pytestmark = pytest.mark.usefixtures("float64", "unchecked_shapes")

A = np.array([[0.9, 0.3], [-0.2, 0.8]])
H = np.array([[1.0, 0.5], [0.2, 1.0]])
Q0 = np.array([[0.2, 0.05], [0.05, 0.3]])
R0 = np.array([[1.0, -0.3], [-0.3, 0.5]])
START = np.zeros(2), np.eye(2)
STEPS = 60


class Constant(eqx.Module):
    """Shares that are given."""

    q: jax.Array
    r: jax.Array

    def init(self, q, r):
        return None

    def __call__(self, memory, info):
        return sw.Attenuation(q=self.q + 0.0 * info.q, r=self.r + 0.0 * info.r), None, None


def off(M):
    return jnp.asarray(M - np.diag(np.diag(M)))


def with_shares(q, r, bounds=(1e-3, 1e3)):
    """A dense filter with constant shares."""
    policy = Constant(jnp.asarray(q), jnp.asarray(r))
    return sw.AdaptiveFilter(
        Linear(jnp.asarray(A), jnp.asarray(H)),
        jnp.asarray(np.diag(Q0)),
        jnp.asarray(np.diag(R0)),
        off(Q0),
        off(R0),
        sw.AttenuationRule(policy, bounds, 1e-10, "posterior"),
        dense=True,
    )


def sage_husa(dense=True, gate=3.0, **options):
    model = Linear(jnp.asarray(A), jnp.asarray(H))
    options = {"b": 0.95, "gain_noise": "posterior"} | options
    return sw.SageHusa(model, Q0, R0, gate=gate, dense=dense, **options)


def noise_of(step, _):
    return step.x, step.Q, step.R


@pytest.fixture(scope="module")
def record(float64):
    """Three records with a spike, gaps of one channel and of both."""
    rng = np.random.default_rng(1)
    x, z = np.zeros((3, 2)), np.empty((3, STEPS, 2))
    L = np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 0.5]]))
    for k in range(STEPS):
        x = x @ A.T + rng.normal(size=x.shape) * 0.5
        z[:, k] = x @ H.T + rng.normal(size=(3, 2)) @ L.T
    z[0, 20:26, 0] = np.nan
    z[1, 30] += 1e5
    z[2, 40:50] = np.nan
    return z


def classical(z, d_q, d_r):
    """Sage and Husa's blends R + D (R_hat - R) D in plain NumPy, without bounds of any kind."""
    (x, P), Q, R = START, Q0, R0
    out = []
    for row in z:
        seen = np.isfinite(row)
        F_P = A @ P @ A.T
        x, P = A @ x, F_P + Q
        nu, Hk = np.where(seen, row - H @ x, 0.0), H * seen[:, None]
        D = np.diag(np.sqrt(d_r) * seen)
        R = R + D @ (np.outer(nu, nu) - Hk @ P @ Hk.T - R) @ D
        K = np.zeros((2, 2))
        S = (Hk @ P @ Hk.T + R)[np.ix_(seen, seen)]
        K[:, seen] = P @ Hk.T[:, seen] @ np.linalg.inv(S)
        dx = K @ nu
        x, P = x + dx, P - K[:, seen] @ S @ K[:, seen].T
        if seen.any():
            D = np.diag(np.sqrt(d_q))
            Q = Q + D @ (np.outer(dx, dx) + P - F_P - Q) @ D
        for M in (Q, R):  # otherwise the bounds would act
            s = np.sqrt(np.diag(M))
            assert np.linalg.eigvalsh(M / np.outer(s, s)).min() > 2 * LEAST
        out.append((x, Q, R))
    return [np.array(a) for a in zip(*out, strict=True)]


@pytest.mark.parametrize("shares", [([0.01, 0.01], [0.01, 0.01]), ([0.0, 0.02], [0.03, 0.001])])
def test_the_blend_is_the_classical_one_where_that_is_positive_definite(record, shares):
    """With one share it is (1 - d) R + d R_hat; a missing channel keeps its row to the bit."""
    z = record[0]
    made = sw.run(with_shares(*shares), *START, z, dt=1.0, save=noise_of).values
    for given, expected in zip(made, classical(z, *map(np.array, shares)), strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made[2][20:26, 0], made[2][19:25, 0], rtol=1e-12)


def test_without_a_share_it_is_the_EKF_of_the_correlated_noise(record):
    made = sw.run(with_shares([0.0, 0.0], [0.0, 0.0]), *START, record[0], dt=1.0)
    model = Linear(jnp.asarray(A), jnp.asarray(H))
    expected = sw.run(sw.EKF(model, Q0, R0), *START, record[0], dt=1.0)
    np.testing.assert_allclose(made.x, expected.x, rtol=1e-12)
    np.testing.assert_allclose(made.P, expected.P, rtol=1e-12)


def test_channels_that_are_never_seen_together_give_the_diagonal_filter(record):
    """Two systems side by side: nothing is ever correlated, and every number is the same."""
    z = np.where((np.arange(STEPS) % 2 == 0)[:, None] ^ np.array([True, False]), record[2], np.nan)
    model = Linear(jnp.diag(jnp.array([0.9, 0.8])), jnp.eye(2))
    made = [
        sw.run(sw.SageHusa(model, [0.2, 0.3], [1.0, 0.5], 0.9, dense=dense), *START, z, dt=1.0)
        for dense in (True, False)
    ]
    for name in ("x", "P", "q", "r", "d", "nis", "loglik"):
        a, b = (getattr(result, name) for result in made)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, err_msg=name)


def test_correlations_are_made_positive_definite_and_kept_where_they_are():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5):
        raw = rng.normal(size=(n, n + 3, 100)) * rng.uniform(0.0, 1.0, size=(n, 1, 100))
        M = np.einsum("ikb,jkb->ijb", raw, raw)
        s = np.sqrt(np.einsum("iib->ib", M))
        good, eye = M / (s[:, None] * s[None]), np.eye(n)
        bad = np.clip(good + 3.0 * np.tril(rng.normal(size=(n, n)), -1)[..., None], -5.0, 5.0)
        bad = np.tril(np.moveaxis(bad, -1, 0), -1)
        bad = np.moveaxis(bad + np.swapaxes(bad, 1, 2), 0, -1)
        for C in (good - eye[..., None], bad):
            made = np.moveaxis(np.asarray(definite(jnp.asarray(C))), -1, 0)
            np.testing.assert_array_equal(made, np.swapaxes(made, 1, 2))
            assert np.all(np.diagonal(made, axis1=1, axis2=2) == 0.0)
            assert np.linalg.eigvalsh(made + eye).min() > LEAST * (1.0 - 1e-9)
            given = np.moveaxis(C, -1, 0)
            kept = np.linalg.eigvalsh(given + eye).min(axis=1) >= 2 * LEAST
            np.testing.assert_allclose(made[kept], given[kept], atol=1e-12)


def test_noise_that_is_added_to_a_channel_keeps_its_covariances():
    """A channel that a gate leaves out says nothing of the others' noise."""
    C, factor = jnp.asarray(np.array([[0.0, 0.8], [0.8, 0.0]])), jnp.asarray([9.0, 1.0])
    np.testing.assert_allclose(inflated(C, factor)[0, 1], 0.8 / 3.0)


@pytest.fixture(scope="module")
def made(record):
    return sw.run(sage_husa(), *START, record, dt=1.0, smooth=True)


def assert_same(given, expected, names=("x", "P", "q", "r", "nis", "loglik", "ok")):
    for name in names:
        a, b = getattr(given, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9, err_msg=name)


def test_a_batch_is_its_records_and_C_gives_the_same(record, made):
    for i in (0, 1):
        row = type(made)(*(None if a is None else a[i] for a in made[:9]), state=None)
        assert_same(sw.run(sage_husa(), *START, record[i], dt=1.0, backend="c"), row)
    online = sw.Online(sage_husa(), *START, backend="c")
    for k in range(40):
        x, _ = online.step(record[0, k], dt=1.0)
        np.testing.assert_allclose(x, made.x[0, k], rtol=1e-8)


def test_the_root_of_P_gives_the_same(record, made):
    rooted = sw.run(sage_husa(square_root=True), *START, record, dt=1.0)
    assert_same(rooted, made)


def test_the_smoother_is_that_of_the_noise_that_was_used(record, made):
    """Against the textbook's equations in NumPy, from the filter's own predictions."""
    kept = sw.run(
        sage_husa(), *START, record[0], dt=1.0, save=lambda s, _: (s.x, s.P, s.x_pred, s.P_pred)
    ).values
    x, P, x_pred, P_pred = (np.asarray(a) for a in kept)
    smooth_x, smooth_P = x.copy(), P.copy()
    for k in reversed(range(STEPS - 1)):
        G = P[k] @ A.T @ np.linalg.inv(P_pred[k + 1])
        smooth_x[k] += G @ (smooth_x[k + 1] - x_pred[k + 1])
        smooth_P[k] += G @ (smooth_P[k + 1] - P_pred[k + 1]) @ G.T
    np.testing.assert_allclose(made.smoothed.x[0], smooth_x, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(made.smoothed.P[0], smooth_P, rtol=1e-8, atol=1e-9)


def test_derivatives_are_those_of_finite_differences(record):
    z = jnp.asarray(record[0, 14:26])

    @jax.jit
    def loss(theta):
        """Also through a missing channel and bounds that act."""
        filt = with_shares(theta[:2], theta[2:4], bounds=(0.8, 1.5))
        filt = eqx.tree_at(lambda f: f.r0, filt, theta[4:])
        return jnp.sum(sw.run(filt, *START, z, dt=1.0).loglik)

    theta = jnp.array([0.02, 0.1, 0.3, 0.05, 1.0, 0.5])
    found, h = jax.jit(jax.grad(loss))(theta), 1e-6
    for i in (0, 2, 3, 5):
        e = h * np.eye(6)[i]
        difference = (loss(theta + e) - loss(theta - e)) / (2 * h)
        np.testing.assert_allclose(found[i], difference, rtol=1e-5, atol=1e-7)
    assert np.all(np.isfinite(jax.jit(jax.grad(loss))(theta.at[:4].set(0.0))))


def test_R_finds_the_correlation_of_its_sensors():
    """Errors with a correlation of 0.9, of which R0 says nothing."""
    rng, x, steps = np.random.default_rng(0), 0.0, 1500
    z, v = np.empty((steps, 2)), np.linalg.cholesky(np.array([[1.0, 0.9], [0.9, 1.0]]))
    for k in range(steps):
        x = 0.95 * x + 0.3 * rng.normal()
        z[k] = x + v @ rng.normal(size=2)
    model = Linear(jnp.array([[0.95]]), jnp.ones((2, 1)))
    filt = sw.SageHusa(model, [0.09], [1.0, 1.0], 0.998, gain_noise="posterior", dense="R")
    R = sw.run(filt, [0.0], np.eye(1), z, dt=1.0, save=lambda step, _: step.R).values[-1]
    assert 0.8 < R[0, 1] / np.sqrt(R[0, 0] * R[1, 1]) < 0.97


def test_a_policy_remembers_that_it_was_trained_with_correlations(tmp_path):
    sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
    arch = sw.Architecture(2, 2, depth=1, hidden=4, **sizes)
    for dense in (False, True, "R"):
        policy = sw.Policy(arch, dense=dense, key=jax.random.key(0))
        policy.save(tmp_path / str(dense))
        policy = sw.Policy.load(tmp_path / str(dense))
        model = Linear(jnp.asarray(A), jnp.asarray(H))
        assert sw.NDRSageHusa(model, Q0, R0, policy).dense == dense
        assert sw.NDRSageHusa(model, Q0, R0, policy, dense="R").dense == "R"


def test_what_cannot_be_dense_is_a_sentence():
    class Own(Linear):
        def process_noise(self, x, u, dt):
            return jnp.eye(2)

    model = Own(jnp.asarray(A), jnp.asarray(H))
    with pytest.raises(sw.InputError, match=r"dense=True .* Own.process_noise returns a matrix"):
        sw.run(sw.SageHusa(model, Q0, R0, dense=True), *START, np.zeros((3, 2)))
    sw.run(sw.SageHusa(model, Q0, R0, dense="R"), *START, np.zeros((3, 2)))
    with pytest.raises(sw.InputError, match='dense must be False, "R" or True'):
        sw.SageHusa(model, Q0, R0, dense="Q")


def wild(steps, seed=0):
    """Records with spikes of all sizes, gaps, sensors that agree to the last bit, and stillness."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(6, steps, 2)) * 10.0 ** rng.integers(
        -3, 3, size=(6, steps // 50, 1)
    ).repeat(50, axis=1)
    spikes = rng.random(z.shape) < 0.02
    z[spikes] *= 10.0 ** rng.uniform(0, 30, size=spikes.sum())
    z[rng.random(z.shape) < 0.1] = np.nan
    z[1, :, 1] = z[1, :, 0]
    z[2] = 0.0
    z[3, steps // 2 :] = np.nan
    return z


def test_single_precision_keeps_all_covariances_positive_definite():
    steps = 100_000 if "FUZZ_EXAMPLES" in os.environ else 1_000
    with jax.enable_x64(False):
        model = sw.models.ConstantVelocity(axes=2)
        filt = sw.SageHusa(
            model, [1e-4, 1e-4, 0.1, 0.1], [1.0, 0.5], 0.8, (1e-3, 1e4), "posterior", dense=True
        )
        dt = np.random.default_rng(1).choice([0.0, 1e-3, 0.1, 5.0], size=steps)
        start = np.zeros(4), np.eye(4)
        for M in sw.run(filt, *start, wild(steps), dt=dt, save=covariances).values:
            M = np.asarray(M)
            assert M.dtype == np.float32
            assert np.all(np.swapaxes(M, -1, -2) == M)
            s = np.sqrt(np.diagonal(M, axis1=-2, axis2=-1).astype(float))
            assert np.linalg.eigvalsh(M / (s[..., None] * s[..., None, :])).min() > 0.0


def covariances(step, _):
    return step.P, step.Q, step.R
