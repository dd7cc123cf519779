"""Sensors that are late: by a known time, by one that is estimated, in a record that is at hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw

pytestmark = pytest.mark.usefixtures("float64")
DT, LATE, RECORDS, STEPS = 0.02, 6, 40, 600  # the place is 0.12 s late, the speed is not
DELAY = DT * LATE
Q0, R0 = np.array([1e-10, 1e-4]), np.array([0.05**2, 0.1**2])
X0, P0 = np.array([1.0, 0.0]), np.diag([0.01, 0.01])


class Swing(sw.ContinuousModel):
    """Place and speed of a swing; both are measured."""

    jacobian: str = "exact"

    def drift(self, x, u):
        return jnp.stack([x[1], -4.0 * x[0]])

    def observe(self, x, u):
        return x

    def observe_jacobian(self, x, u):
        return jnp.eye(2, dtype=x.dtype)


@pytest.fixture(scope="module")
def swings(float64):
    """Forty swings, of which the place comes late."""
    w = 2.0
    F = np.array([[np.cos(w * DT), np.sin(w * DT) / w], [-w * np.sin(w * DT), np.cos(w * DT)]])
    rng = np.random.default_rng(0)
    x = X0 + 0.1 * rng.normal(size=(RECORDS, 2))
    truth = [x]
    for _ in range(STEPS + LATE - 1):
        x = x @ F.T + np.sqrt(Q0) * rng.normal(size=x.shape)
        truth.append(x)
    truth = np.stack(truth, axis=1)
    now, past = truth[:, LATE:], truth[:, :STEPS]
    z = np.stack([past[..., 0], now[..., 1]], axis=-1)
    return now, z + np.sqrt(R0) * rng.normal(size=z.shape)


def filtered(model, z, **settings):
    start = np.linalg.matrix_power(np.array([[1.0, DT], [-4 * DT, 1.0]]), LATE) @ X0
    return sw.run(sw.EKF(model, Q0, R0), start, P0, z, dt=DT, **settings)


def rmse(made, truth):
    return np.sqrt(np.mean((np.asarray(made.x)[:, 100:, 0] - truth[:, 100:, 0]) ** 2))


def test_the_delay_is_found_with_its_uncertainty(swings):
    truth, z = swings
    model = sw.models.with_delay(Swing(), channels=[0], delay=0.1, std=0.05)
    made = filtered(model, z)
    x, P = np.asarray(made.x), np.asarray(made.P)
    found, std = 0.1 + x[:, -1, 2], np.sqrt(P[:, -1, 2, 2])
    assert abs(found.mean() - DELAY) < 0.002
    assert std.max() < 0.005
    error = np.concatenate([x[..., :2] - truth, x[..., 2:] - (DELAY - 0.1)], axis=-1)[:, 100::50]
    nees = np.einsum("...i,...ij,...j", error, np.linalg.inv(P[:, 100::50]), error)
    assert 0.8 < nees.mean() / 3.0 < 1.25
    assert 0.6 < np.mean((found - DELAY) ** 2 / std**2) < 1.6


def test_a_known_delay_removes_the_error(swings):
    truth, z = swings
    ignorant = filtered(Swing(), z)
    aware = filtered(sw.models.with_delay(Swing(), [0], DELAY), z)
    assert rmse(ignorant, truth) > 3.0 * rmse(aware, truth)


def test_a_record_is_put_in_order_of_its_time(swings):
    """To the bit the record whose samples stand where they were taken."""
    truth, z = swings
    made = filtered(Swing(), z, delay=[DELAY, 0.0])
    in_order = np.full_like(z, np.nan)
    in_order[:, :-LATE, 0], in_order[..., 1] = z[:, LATE:, 0], z[..., 1]
    np.testing.assert_array_equal(made.x, filtered(Swing(), in_order).x)
    ignorant = filtered(Swing(), z)
    assert rmse(ignorant, truth) > 3.0 * rmse(made, truth)


def test_masks_reported_noise_and_varying_dt_go_along(swings):
    _, z = swings
    z, rng = z[0, :30], np.random.default_rng(0)
    R, mask = rng.uniform(1e-3, 1e-2, z.shape), rng.random(z.shape) < 0.8
    dt = np.where(np.arange(30) < 10, 0.04, 0.02)
    mask[[10, 12], 0] = False  # 0.08 s before them is no row
    shifted, R_shifted = np.full_like(z, np.nan), np.full_like(z, np.nan)
    for k in range(30):
        before = np.flatnonzero(np.isclose(np.cumsum(dt), np.sum(dt[: k + 1]) - 0.08))
        if len(before) and mask[k, 0]:
            shifted[before[0], 0], R_shifted[before[0], 0] = z[k, 0], R[k, 0]
    shifted[:, 1], R_shifted[:, 1] = np.where(mask[:, 1], z[:, 1], np.nan), R[:, 1]
    ekf = sw.EKF(Swing(), Q0, R0)
    made = sw.run(ekf, X0, P0, z, dt=dt, mask=mask, R=R, delay=[0.08, 0.0])
    expected = sw.run(ekf, X0, P0, shifted, dt=dt, R=R_shifted)
    np.testing.assert_allclose(made.x, expected.x, atol=1e-12)


@pytest.mark.parametrize("std", [None, 0.05])
def test_it_is_the_same_in_C(swings, std):
    _, z = swings
    model = sw.models.with_delay(Swing(), [0], 0.1, std)
    by_c, by_jax = (filtered(model, z[0, :60], backend=b) for b in ("c", "jax"))
    np.testing.assert_allclose(by_c.x, by_jax.x, atol=1e-10)


def test_a_state_on_a_manifold_may_be_seen_late(float64):
    """A spinning top whose attitude is 0.1 s old: the delay is found from its turning."""

    rotations = sw.models.rotations

    class Top(sw.ManifoldModel):
        space = sw.models.manifolds.Rotation()

        def transition(self, x, u, dt):
            return self.space.plus(x, u * dt)

        def observe(self, x, u):
            matrix = rotations.rotation_matrix(x)
            return jnp.concatenate([matrix[0], matrix[:, 2]])

    top, rng = Top(), np.random.default_rng(0)
    rate = jnp.array([0.3, -0.2, 1.5])

    def seen(t):
        return jax.vmap(lambda t: top.observe(rotations.from_rotation_vector(rate * t), None))(t)

    t = 0.02 * jnp.arange(1, 301)
    z = np.concatenate([seen(t - 0.1)[:, :3], seen(t)[:, 3:]], axis=1)
    z += 0.01 * rng.normal(size=z.shape)
    model = sw.models.with_delay(top, [0, 1, 2], 0.05, std=0.1)
    ekf = sw.EKF(model, [1e-8] * 3, [1e-4] * 6)
    made = sw.run(
        ekf, [1.0, 0.0, 0.0, 0.0], 1e-2 * np.eye(3), z, u=np.tile(rate, (len(z), 1)), dt=0.02
    )
    assert abs(0.05 + float(made.x[-1, 4]) - 0.1) < 3.0 * float(made.P[-1, 3, 3]) ** 0.5 < 0.01


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z: sw.models.with_delay(Swing(), [0], -0.1), ["delay", "not negative", "-0.1"]),
        (lambda z: sw.models.with_delay(Swing(), [0], 0.1, 0.0), ["std", "positive", "0.0"]),
        (lambda z: sw.models.with_delay(Swing(), [], 0.1), ["channels", "[]"]),
        (lambda z: filtered(sw.models.with_delay(Swing(), [2], 0.1), z), ["channels", "below 2"]),
        (lambda z: filtered(Swing(), z, delay=-0.1), ["delay", "not negative", "-0.1"]),
        (lambda z: filtered(Swing(), z, delay=[0.1] * 3), ["delay", "each of 2 channels"]),
        (lambda z: filtered(Swing(), z, delay="late"), ["delay", "'late'"]),
        (lambda z: filtered(Swing(), z, delay=0.03), ["0.03 s", "whole", "with_delay"]),
        (
            lambda z: jax.jit(
                lambda dt: sw.run(sw.EKF(Swing(), Q0, R0), X0, P0, z, dt=dt, delay=0.1).x
            )(DT),
            ["delay=", "dt as numbers"],
        ),
    ],
)
def test_a_wrong_delay_is_a_sentence(swings, call, words, as_a_user_runs_it):
    with pytest.raises(sw.InputError) as error:
        call(swings[1][0, :20])
    for word in words:
        assert word in str(error.value)
