"""The other filters, against plain NumPy readings of their papers that share nothing with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import sagewing as sw
from sagewing.filters import OracleEKF

pytestmark = pytest.mark.usefixtures("float64")

T, DT = 60, 0.01
Q0, R0 = np.array([0.01, 0.02, 0.03]), np.array([1.0, 2.0])
X0, P0 = np.array([-8.0, -6.0, 25.0]), np.diag([0.5, 0.4, 0.3])
OFFSET, SCALE, STEP_SCALE = (0.5, -0.2, 23.0), (8.0, 9.0, 8.5), (0.5, 0.7, 0.8)
LORENZ = sw.models.Lorenz(jacobian="exact")


@pytest.fixture(scope="module")
def z(float64):
    rng, x, seen = np.random.default_rng(1), X0 + 0.5, []
    for _ in range(T):
        x = reference.LORENZ.f(x, DT)[0] + rng.normal(0.0, 0.1, 3)
        outlier = np.where(rng.random(2) < 0.1, 10.0, 1.0)
        seen.append(reference.LORENZ.h(x) + outlier * rng.normal(0.0, np.sqrt(R0)))
    return np.array(seen)


def network(purpose, key=0):
    scales = (OFFSET, SCALE, STEP_SCALE)
    return sw.Network(purpose, 3, 2, 8, *scales, key=jax.random.key(key))


def filters():
    return {
        "vbakf": sw.VBAKF(LORENZ, Q0, R0),
        "enn-akf": sw.ENNAKF(LORENZ, Q0, R0, network("enn-akf")),
        "l-ekf": sw.LEKF(LORENZ, Q0, R0, network("l-ekf")),
        "kalmannet": sw.KalmanNet(LORENZ, Q0, R0, network("kalmannet")),
    }


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def predicted(x, P):
    x, F = reference.LORENZ.f(x, DT)
    return x, F @ P @ F.T + np.diag(Q0)


def huang(z, tau=3.0, iterations=10):
    """Huang et al. 2017, Algorithm 1, with the moments of the inverse Wishart written out."""
    x, P, n, m, rho = X0, P0, 3, 2, 1 - np.exp(-4)
    u, U = tau + m + 1, tau * np.diag(R0)
    H, xs, Ps, rs = reference.LORENZ.H(None), [], [], []
    for z_k in z:
        x_pred, P_pred = predicted(x, P)
        t, T_ = n + tau + 1, tau * P_pred
        u, U = rho * (u - m - 1) + m + 1, rho * U
        x, P = x_pred, P_pred
        for _ in range(iterations):
            A = P + np.outer(x - x_pred, x - x_pred)
            B = np.outer(z_k - H @ x, z_k - H @ x) + H @ P @ H.T
            E_P = np.linalg.inv((t + 1 - n - 1) * np.linalg.inv(T_ + A))
            E_R = np.linalg.inv((u + 1 - m - 1) * np.linalg.inv(U + B))
            K = E_P @ H.T @ np.linalg.inv(H @ E_P @ H.T + E_R)
            x = x_pred + K @ (z_k - H @ x_pred)
            P = E_P - K @ H @ E_P
        u, U = u + 1, U + B
        xs.append(x), Ps.append(P), rs.append(np.diag(U) / (u - m - 1))
    return np.array(xs), np.array(Ps), np.array(rs)


def test_vbakf_equals_huang_2017(z):
    result = sw.run(filters()["vbakf"], X0, P0, z, dt=DT)
    x, P, r = huang(z)
    close(result.x, x)
    close(result.P, P)
    close(result.r, r)


def test_enn_akf_is_sage_husa_plus_what_the_elman_network_says(z):
    net = network("enn-akf")
    inner = reference.run(
        reference.LORENZ,
        X0,
        P0,
        z,
        Q0=np.diag(Q0),
        R0=np.diag(R0),
        dt=DT,
        attenuate=reference.fading(0.99),
        bounds=(0.5, 100.0),
    )
    h, before, corrected = np.zeros(8), X0, []
    for z_k, x in zip(z, inner.x, strict=True):
        nu = z_k - reference.LORENZ.h(reference.LORENZ.f(before, DT)[0])
        y = np.concatenate(
            [(x - OFFSET) / np.array(SCALE), (x - before) / np.array(STEP_SCALE), nu / np.sqrt(R0)]
        )
        W, U, b = (np.asarray(a) for a in (net.cell.W, net.cell.U, net.cell.b))
        h = np.tanh(W @ y + U @ h + b)
        corrected.append(x + reference.mlp(net.after, h))
        before = x
    result = sw.run(filters()["enn-akf"], X0, P0, z, dt=DT)
    close(result.x, np.array(corrected))
    close(result.P, inner.P)


def joseph(P, K):
    H = reference.LORENZ.H(None)
    J = np.eye(3) - K @ H
    return J @ P @ J.T + K @ np.diag(R0) @ K.T


def test_l_ekf_multiplies_the_ekfs_gain_entry_by_entry(z):
    net, H = network("l-ekf"), reference.LORENZ.H(None)
    x, P, h, xs, Ps = X0, P0, np.zeros(8), [], []
    for z_k in z:
        x, P = predicted(x, P)
        nu = z_k - H @ x
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + np.diag(R0))
        y = np.concatenate([(x - OFFSET) / np.array(SCALE), nu / np.sqrt(R0)])
        h = reference.gru(net.cell, y, h)
        K = K * (1 + reference.mlp(net.after, h).reshape(3, 2))
        x, P = x + K @ nu, joseph(P, K)
        xs.append(x), Ps.append(P)
    result = sw.run(filters()["l-ekf"], X0, P0, z, dt=DT)
    close(result.x, np.array(xs))
    close(result.P, np.array(Ps))


def test_kalmannet_makes_its_gain_from_the_innovation_and_two_differences(z):
    net, H = network("kalmannet"), reference.LORENZ.H(None)
    x, before, last_pred, h, xs = X0, X0, X0, np.zeros(8), []
    for z_k in z:
        x_pred = reference.LORENZ.f(x, DT)[0]
        nu = z_k - H @ x_pred
        y = np.clip(np.concatenate([nu, x - before, x - last_pred]), -50, 50)
        h = reference.gru(net.cell, reference.relu(reference.mlp(net.before, y)), h)
        K = reference.mlp(net.after, h).reshape(3, 2)
        before, last_pred = x, x_pred
        x = np.clip(x_pred + K @ nu, -50, 50)
        xs.append(x)
    close(sw.run(filters()["kalmannet"], X0, P0, z, dt=DT).x, np.array(xs))


def test_the_oracle_told_constant_noise_is_the_ekf(z):
    told = OracleEKF(
        LORENZ, jnp.broadcast_to(jnp.asarray(Q0), (T, 3)), jnp.broadcast_to(jnp.asarray(R0), (T, 2))
    )
    result, expected = (sw.run(f, X0, P0, z, dt=DT) for f in (told, sw.EKF(LORENZ, Q0, R0)))
    for name in ("x", "P", "q", "r", "nis", "loglik"):
        close(getattr(result, name), getattr(expected, name))


@pytest.mark.parametrize("name", ["vbakf", "enn-akf", "l-ekf", "kalmannet"])
def test_batch_pieces_and_online_give_the_same_numbers_with_channels_missing(z, name):
    filt = filters()[name]
    mask = np.random.default_rng(0).random((T, 2)) < 0.7
    mask[20:25] = False
    whole = sw.run(filt, X0, P0, z, dt=DT, mask=mask)
    assert np.all(np.isfinite(whole.x))
    batch = sw.run(filt, X0, P0, np.stack([z, 2.0 * z]), dt=DT, mask=mask)
    close(batch.x[0], whole.x)
    first = sw.run(filt, X0, P0, z[:30], dt=DT, mask=mask[:30])
    close(sw.run_from(filt, first.state, z[30:], dt=DT, mask=mask[30:]).x, whole.x[30:])
    online = sw.Online(filt, X0, P0, "jax")
    close([online.step(z[k], dt=DT, mask=mask[k])[0] for k in range(30)], whole.x[:30])
    # Nothing measured: what the model says, and R as it was
    close(whole.r[20:25], np.broadcast_to(whole.r[19], (5, 2)))
    if name != "enn-akf":  # whose network goes on correcting
        close(whole.x[20], LORENZ.transition(whole.x[19], None, DT))


@pytest.mark.parametrize("name", ["vbakf", "enn-akf", "l-ekf", "kalmannet"])
def test_nothing_but_numbers_leaves_them(z, name):
    wild = np.tile(z, (2, 1))
    rng = np.random.default_rng(0)
    for value in (np.nan, np.inf, 1e12, 1e30, 1e160, 1e308):
        wild[rng.random(wild.shape) < 0.02] = value
    result = sw.run(filters()[name], X0, P0, wild, dt=DT)
    for a in jax.tree.leaves(result):
        assert np.all(np.isfinite(a))


def test_a_network_is_refused_by_another_filter_and_by_another_model(as_a_user_runs_it):
    with pytest.raises(sw.InputError, match="network was made for l-ekf, not for kalmannet"):
        sw.KalmanNet(LORENZ, Q0, R0, network("l-ekf"))
    with pytest.raises(sw.InputError, match="n_x = 3 states and n_z = 2 channels"):
        sw.LEKF(sw.models.ConstantVelocity(), [0.1] * 4, [1.0] * 2, network("l-ekf"))
    with pytest.raises(sw.InputError, match="purpose must be one of"):
        sw.Network("ekf", 3, 2, key=jax.random.key(0))  # pyright: ignore


@pytest.mark.parametrize("setting", [{"tau": 0.0}, {"rho": 0.0}, {"rho": 1.1}, {"iterations": 0}])
def test_vbakf_refuses_settings_that_mean_nothing(setting):
    with pytest.raises(sw.InputError, match=next(iter(setting))):
        sw.VBAKF(LORENZ, Q0, R0, **setting)
