"""Smoothed estimates are those of Rauch, Tung and Striebel, of every filter and state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from linear import Linear, system
from reference import smooth as reference_smooth
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation as Reference

import sagewing as sw
from sagewing.models import Switched
from sagewing.models.manifolds import Rotation
from sagewing.models.rotations import from_rotation_vector, rotation_vector

pytestmark = pytest.mark.usefixtures("float64", "unchecked_shapes")

F, H, Q, R = system()
with jax.enable_x64(True):
    LINEAR = Linear(jnp.asarray(F), jnp.asarray(H))
    TRANSPOSED = Linear(jnp.asarray(F.T), jnp.asarray(H[::-1]))
X0, P0 = np.zeros(4), np.eye(4)
Q2, R1, START = [1e-3, 2e-3], [0.09], np.array([0.8, 0.0])


def linear_record(rng, steps=40, batch=()):
    return rng.normal(size=(*batch, steps, 2))


class Pendulum(sw.Model):
    """Angle and rate; the angle's sine is measured."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] - dt * jnp.sin(x[0])])

    def observe(self, x, u):
        return jnp.sin(x[:1])


def pendulum_record(steps=40):
    t = 0.2 * np.arange(steps)
    z = np.sin(np.cos(t))[:, None] + 0.3 * np.random.default_rng(0).normal(size=(steps, 1))
    z[10:16] = np.nan
    return z


def kept(step, extra):
    return step.x, step.P, step.x_pred, step.P_pred, step.F


def expected(filt, x0, P0, z, **options):
    """The reference's smoother on what the filter computed."""
    run = sw.run(filt, x0, P0, z, save=kept, **options).values
    return reference_smooth(*(np.asarray(a) for a in run))


def test_on_a_linear_model_it_equals_filterpy():
    z = linear_record(np.random.default_rng(1))
    z[10:20] = np.nan
    made = sw.run(sw.EKF(LINEAR, Q, R), X0, P0, z, smooth=True)
    filterpy = KalmanFilter(4, 2)
    x, P, *_ = filterpy.rts_smoother(
        np.asarray(made.x), np.asarray(made.P), [F] * len(z), [np.diag(Q)] * len(z)
    )
    np.testing.assert_allclose(made.smoothed.x, x, atol=1e-9)
    np.testing.assert_allclose(made.smoothed.P, P, atol=1e-9)


def test_on_a_linear_model_it_is_the_least_squares_solution_of_the_whole_record():
    steps = 12
    z = linear_record(np.random.default_rng(2), steps)
    rows = [np.eye(4, 4 * (steps + 1))]
    weights, targets = [np.linalg.inv(P0)], [X0]
    for k in range(steps):
        row = np.zeros((4, 4 * (steps + 1)))
        row[:, 4 * k : 4 * k + 4], row[:, 4 * k + 4 : 4 * k + 8] = -F, np.eye(4)
        seen = np.zeros((2, 4 * (steps + 1)))
        seen[:, 4 * k + 4 : 4 * k + 8] = H
        rows += [row, seen]
        weights += [np.diag(1 / Q), np.diag(1 / R)]
        targets += [np.zeros(4), z[k]]
    A, W = np.concatenate(rows), block_diag(*weights)
    P = np.linalg.inv(A.T @ W @ A)
    x = P @ A.T @ W @ np.concatenate(targets)
    made = sw.run(sw.EKF(LINEAR, Q, R), X0, P0, z, smooth=True).smoothed
    np.testing.assert_allclose(made.x, x.reshape(-1, 4)[1:], atol=1e-9)
    for k in range(steps):
        own = slice(4 * k + 4, 4 * k + 8)
        np.testing.assert_allclose(made.P[k], P[own, own], atol=1e-9)


FILTERS = {
    "unscented": lambda m: sw.SageHusa(m, Q2, R1, b=0.95, linearization="unscented"),
    "correlated": lambda m: sw.SageHusa(m, np.diag(Q2) + 5e-4, R1, b=0.95, gain_noise="posterior"),
    "universal": lambda m: sw.NDRSageHusa(m, Q2, R1, sw.Policy.pretrained("universal")),
    "vbakf": lambda m: sw.VBAKF(m, Q2, R1, iterations=2),
    "oracle": lambda m: sw.OracleEKF(m, jnp.asarray([Q2]), jnp.asarray([R1])),
}


@pytest.mark.parametrize("name", FILTERS)
def test_it_is_that_of_the_noise_which_the_filter_used(name):
    """P_pred is the step's own, with what an adaptive filter or a linearisation added."""
    filt, z = FILTERS[name](Pendulum()), pendulum_record()
    dt = np.where(np.arange(len(z)) % 3 == 0, 0.1, 0.2)
    made = sw.run(filt, START, np.eye(2), z, dt=dt, smooth=True).smoothed
    x, P = expected(filt, START, np.eye(2), z, dt=dt)
    np.testing.assert_allclose(made.x, x, atol=1e-7)
    np.testing.assert_allclose(made.P, P, atol=1e-7)
    assert np.all(np.linalg.eigvalsh(made.P) > 0.0)


class Turning(sw.ManifoldModel):
    """A body turned by a gyroscope, whose attitude is measured."""

    space = Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, u * dt)

    def observe(self, x, u):
        return rotation_vector(x)

    def innovation(self, z, z_hat):
        return self.space.minus(from_rotation_vector(z), from_rotation_vector(z_hat))


def change(x_pred, dx, x):
    """By differences, with scipy's rotations."""

    def error(e):
        moved = turned(x_pred) * Reference.from_rotvec(dx + e)
        return (turned(x).inv() * moved).as_rotvec()

    step = 1e-5 * np.eye(3)
    return np.stack([(error(e) - error(-e)) / 2e-5 for e in step], axis=1)


def turned(q):
    return Reference.from_quat(np.roll(q, -1))


def plus(x, dx):
    return np.roll((turned(x) * Reference.from_rotvec(dx)).as_quat(), 1)


def minus(a, b):
    return (turned(b).inv() * turned(a)).as_rotvec()


@pytest.mark.parametrize("name", ["ekf", "vbakf"])
def test_on_rotations_it_is_that_of_the_errors_and_knows_no_sign(name):
    rng, build = np.random.default_rng(12), {"ekf": sw.EKF, "vbakf": sw.VBAKF}[name]
    u, z = rng.normal(size=(2, 30, 3))
    z[10:15] = np.nan
    filt = build(Turning(), np.full(3, 0.02), np.full(3, 0.5))
    start = np.array([0.9, 0.3, -0.3, 0.1])
    start /= np.linalg.norm(start)
    both = np.stack([start, -start])
    inputs = (np.stack([z, z]), u, 0.2)
    run = sw.run(filt, both, 0.2 * np.eye(3), *inputs, save=kept).values
    made = sw.run(filt, both, 0.2 * np.eye(3), *inputs, smooth=True).smoothed
    x, P = reference_smooth(*(np.asarray(a[0]) for a in run), plus, minus, change)
    signs = np.sign(np.sum(x * made.x[0], axis=1, keepdims=True))
    np.testing.assert_allclose(signs * made.x[0], x, atol=1e-7)
    np.testing.assert_allclose(made.P[0], P, atol=1e-7)
    np.testing.assert_allclose(made.x[1], -made.x[0], atol=1e-10)
    np.testing.assert_allclose(made.P[1], made.P[0], atol=1e-10)


def test_its_P_is_that_of_its_errors():
    """On linear Gaussian data: the error's variances are P's, and NEES is the number of states."""
    rng, batch, steps = np.random.default_rng(3), 400, 30
    x = rng.normal(size=(batch, 4)) @ np.linalg.cholesky(P0).T
    truth, z = np.zeros((batch, steps, 4)), np.zeros((batch, steps, 2))
    for k in range(steps):
        x = x @ F.T + np.sqrt(Q) * rng.normal(size=(batch, 4))
        truth[:, k], z[:, k] = x, x @ H.T + np.sqrt(R) * rng.normal(size=(batch, 2))
    made = sw.run(sw.EKF(LINEAR, Q, R), X0, P0, z, smooth=True)
    error = truth - np.asarray(made.smoothed.x)
    P = np.asarray(made.smoothed.P)
    expected = np.mean(np.einsum("...ii->...i", P), axis=(0, 1))
    np.testing.assert_allclose(np.mean(error**2, axis=(0, 1)), expected, rtol=0.05)
    nees = np.einsum("bti,btij,btj->bt", error, np.linalg.inv(P), error)
    assert abs(np.mean(nees) - 4.0) < 0.15
    filtered = np.mean(np.einsum("...ii->...i", np.asarray(made.P)), axis=(0, 1))
    assert np.all(expected < 0.9 * filtered)


def test_every_record_of_a_batch_is_smoothed_as_alone():
    rng = np.random.default_rng(4)
    z, mask = rng.normal(size=(3, 25, 1)), rng.random((3, 25, 1)) < 0.7
    dt = rng.uniform(0.1, 0.3, size=(3, 25))
    filt = sw.SageHusa(Pendulum(), Q2, R1)
    made = sw.run(filt, START, np.eye(2), z, dt=dt, mask=mask, smooth=True).smoothed
    alone = sw.run(filt, START, np.eye(2), z[1], dt=dt[1], mask=mask[1], smooth=True).smoothed
    np.testing.assert_allclose(made.x[1], alone.x, atol=1e-12)
    np.testing.assert_allclose(made.P[1], alone.P, atol=1e-12)
    x, P = expected(filt, START, np.eye(2), z[1], dt=dt[1], mask=mask[1])
    np.testing.assert_allclose(alone.x, x, atol=1e-9)
    np.testing.assert_allclose(alone.P, P, atol=1e-9)
    history = sw.run(filt, START, np.eye(2), z, dt=dt, mask=mask, history=True)
    again = sw.smooth(filt, history)
    np.testing.assert_allclose(again.x, made.x, atol=1e-12)
    np.testing.assert_allclose(again.P, made.P, atol=1e-12)


def test_a_model_that_switches_and_a_drift_are_smoothed():
    z = linear_record(np.random.default_rng(5), 30)
    u = (np.arange(30) % 3 == 0).astype(float)[:, None]
    switched = sw.SageHusa(Switched((LINEAR, TRANSPOSED), ((0, 0), (0, 0))), Q, [R, 2.0 * R])
    drifting = sw.EKF(sw.models.with_drift(LINEAR, (1,), 1.0, 5.0), Q, R)
    for filt, options in ((switched, {"u": u}), (drifting, {})):
        made = sw.run(filt, X0, P0, z, **options, smooth=True).smoothed
        x, P = expected(filt, X0, P0, z, **options)
        np.testing.assert_allclose(made.x, x, atol=1e-9)
        np.testing.assert_allclose(made.P, P, atol=1e-9)


def test_no_information_goes_backward_past_a_restart():
    """Six steps with a wrong clock in a row restart the filter."""
    z, filt = linear_record(np.random.default_rng(6), 40), sw.EKF(LINEAR, Q, R)
    dt = np.ones(40)
    dt[20:26] = 1e9
    other = z.copy()
    other[26:] += 1.0
    made, moved = (sw.run(filt, X0, P0, a, dt=dt, smooth=True) for a in (z, other))
    assert made.restarts[-1] == 1.0
    jump = int(np.argmax(np.diff(made.restarts) > 0.0))
    np.testing.assert_array_equal(made.smoothed.x[: jump + 1], moved.smoothed.x[: jump + 1])
    np.testing.assert_allclose(made.smoothed.P[jump], made.P[jump], atol=1e-12)
    assert np.all(np.abs(made.smoothed.x[jump + 1] - moved.smoothed.x[jump + 1]) > 0.0)


def test_a_step_that_was_refused_is_one_without_motion():
    z, filt = linear_record(np.random.default_rng(7), 30), sw.EKF(LINEAR, Q, R)
    dt = np.ones(30)
    dt[10] = 1e9
    made = sw.run(filt, X0, P0, z, dt=dt, smooth=True)
    x, P, x_pred, P_pred, F_all = (
        np.array(a) for a in sw.run(filt, X0, P0, z, dt=dt, save=kept).values
    )
    F_all[10] = np.eye(4)
    x, P = reference_smooth(x, P, x_pred, P_pred, F_all)
    np.testing.assert_allclose(made.smoothed.x, x, atol=1e-9)
    np.testing.assert_allclose(made.smoothed.P, P, atol=1e-9)


def biased(rng, dtype):
    """A constant with no noise at all beside a moving state."""
    motion = jnp.asarray([[0.9, 0.1], [0.0, 1.0]], dtype)
    filt = sw.EKF(Linear(motion, jnp.asarray([[1.0, 0.0]], dtype)), [0.01, 0.0], [0.1])
    return sw.run(filt, [0.0, 0.0], np.diag([1.0, 1.0]), rng.normal(size=(300, 1)), smooth=True)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_constant_without_noise_is_its_last_estimate_at_all_times(bits):
    with jax.enable_x64(bits == 64):
        made = biased(np.random.default_rng(8), f"float{bits}")
        rtol = 1e-10 if bits == 64 else 1e-3
        last, variance = made.x[-1, 1], made.P[-1, 1, 1]
        np.testing.assert_allclose(made.smoothed.x[:, 1], last, rtol=rtol)
        np.testing.assert_allclose(made.smoothed.P[:, 1, 1], variance, rtol=rtol)


def test_what_is_known_exactly_stays_known():
    filt = sw.EKF(LINEAR, 0.0 * Q, R)
    P = np.diag([1.0, 0.0, 0.0, 0.0])
    made = sw.run(filt, X0, P, linear_record(np.random.default_rng(9)), smooth=True).smoothed
    assert np.all(np.isfinite(made.x))
    assert np.all(np.linalg.eigvalsh(made.P) > -1e-12)


def test_in_single_precision_a_long_record_stays_symmetric_positive_and_right():
    rng, steps = np.random.default_rng(10), 20_000
    motion = np.array([[1.0, 1e-3, 0.0], [0.0, 1.0, 1e-3], [0.0, 0.0, 1.0]])
    z = np.cumsum(1e-3 * rng.normal(size=(steps, 1)), axis=0)
    z[np.arange(steps) % 20 != 0] = np.nan
    z[5000:9000] = np.nan
    results = {}
    for bits in (32, 64):
        with jax.enable_x64(bits == 64):
            model = Linear(jnp.asarray(motion), jnp.asarray([[1.0, 0.0, 0.0]]))
            filt = sw.EKF(model, [0.0, 1e-6, 1e-10], [1e-4])
            results[bits] = sw.run(filt, np.zeros(3), 0.1 * np.eye(3), z, smooth=True)
    made, exact = results[32].smoothed, results[64].smoothed
    P = np.asarray(made.P, float)
    np.testing.assert_array_equal(P, np.swapaxes(P, 1, 2))
    assert np.all(np.linalg.eigvalsh(P) > 0.0)
    std = np.sqrt(np.einsum("tii->ti", np.asarray(exact.P)))
    assert np.max(np.abs(np.asarray(made.x) - exact.x) / std) < 0.1
    np.testing.assert_allclose(np.sqrt(np.einsum("tii->ti", P)), std, rtol=0.02)


def test_gradients_pass_through_it():
    z = pendulum_record(20)

    @jax.jit
    def total(q):
        filt = sw.EKF(Pendulum(), q, R1)
        made = sw.run(filt, START, np.eye(2), z, dt=0.2, smooth=True).smoothed
        return jnp.sum(made.x) + jnp.sum(made.P)

    q = jnp.asarray(Q2)
    by_hand = [(total(q + e) - total(q - e)) / 2e-6 for e in 1e-6 * jnp.eye(2)]
    np.testing.assert_allclose(jax.grad(total)(q), by_hand, rtol=1e-5)


def test_what_cannot_be_smoothed_is_said(as_a_user_runs_it):
    filt, z = sw.EKF(LINEAR, Q, R), linear_record(np.random.default_rng(11))
    with pytest.raises(sw.InputError, match="needs the history of a run"):
        sw.smooth(filt, sw.run(filt, X0, P0, z))
    with pytest.raises(sw.InputError, match="needs the filter of the run"):
        sw.smooth(sw.EKF(Pendulum(), Q2, R1), sw.run(filt, X0, P0, z, history=True))
    with pytest.raises(sw.InputError, match="without smooth"):
        sw.run(filt, X0, P0, z, smooth=True, save=kept)
