"""Noise that depends on the state, the input or the sample, and errors that drift."""

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw

pytestmark = pytest.mark.usefixtures("float64")
DT, STEPS = 0.1, 60
Q0, R0 = np.array([1e-4, 1e-2]), np.array([0.2])


class Car(sw.Model):
    """A place and a speed; the place is measured."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], 0.99 * x[1]])

    def observe(self, x, u):
        return x[:1]


class Loud(Car):
    def process_noise(self, x, u, dt):
        return jnp.ones(3)


class Deaf(Car):
    def measurement_noise(self, x, u):
        return jnp.ones(2)


INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]


class RoughRoad(Car):
    """Its noise grows with the speed, and its sensor's with the distance and an input."""

    def process_noise(self, x, u, dt):
        return jnp.stack([jnp.nan, dt * (0.1 + x[1] ** 2)])

    def measurement_noise(self, x, u):
        return 0.2 + 0.01 * x[:1] ** 2 + u


@pytest.fixture(scope="module")
def record(float64):
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(STEPS, 1)), axis=0)
    z[20:25] = np.nan
    return z, rng.uniform(0.0, 1.0, size=(STEPS, 1))


def plain_ekf(z, q_of, r_of):
    """A textbook EKF of the car with noise of any kind."""
    x, P, out = np.array([0.0, 1.0]), np.eye(2), []
    F, H = np.array([[1.0, DT], [0.0, 0.99]]), np.array([[1.0, 0.0]])
    for k in range(len(z)):
        Q = np.diag(q_of(x, k))
        x, P = F @ x, F @ P @ F.T + Q
        if np.isfinite(z[k, 0]):
            S = H @ P @ H.T + r_of(x, k)
            K = P @ H.T / S
            x, P = x + K @ (z[k] - H @ x), P - K @ S @ K.T
        out.append((x, P))
    return tuple(np.array(a) for a in zip(*out, strict=True))


START = ([0.0, 1.0], np.eye(2))


def EKF():
    return sw.EKF(Car(), Q0, R0)


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_noise_of_the_state_and_the_input_is_that_of_a_plain_EKF(record, backend):
    z, u = record
    made = sw.run(sw.EKF(RoughRoad(), Q0, R0), *START, z, u, dt=DT, backend=backend)
    x, P = plain_ekf(
        z,
        lambda x, k: [Q0[0], DT * (0.1 + x[1] ** 2)],
        lambda x, k: 0.2 + 0.01 * x[0] ** 2 + u[k, 0],
    )
    np.testing.assert_allclose(made.x, x, atol=1e-10)
    np.testing.assert_allclose(made.P, P, atol=1e-10)
    np.testing.assert_allclose(made.q[1:, 1], DT * (0.1 + x[:-1, 1] ** 2), rtol=1e-9)


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_the_noise_that_a_sensor_reports_is_that_of_the_sample(record, backend):
    z, u = record
    R = 0.1 + u
    R[7] = np.nan  # nothing was reported: R0
    made = sw.run(sw.EKF(Car(), Q0, R0), *START, z, dt=DT, R=R, backend=backend)
    x, P = plain_ekf(z, lambda x, k: Q0, lambda x, k: np.nan_to_num(R[k, 0], nan=R0[0]))
    np.testing.assert_allclose(made.x, x, atol=1e-10)
    np.testing.assert_allclose(made.P, P, atol=1e-10)


class Pair(Car):
    """Place and speed are measured, by sensors whose errors are correlated."""

    def observe(self, x, u):
        return x


R_PAIR = np.array([[0.2, 0.1], [0.1, 0.1]])


def pair_record():
    """Measurements with gaps, and the covariance that came with each."""
    rng = np.random.default_rng(3)
    z, G = np.cumsum(rng.normal(size=(STEPS, 2)), axis=0), rng.normal(size=(STEPS, 2, 2))
    z[rng.random((STEPS, 2)) < 0.2] = np.nan
    return z, G @ np.swapaxes(G, 1, 2) + 0.05 * np.eye(2)


def plain_pair(z, R):
    """A textbook Kalman filter of the pair, with an R for each sample."""
    x, P, F, out = np.array([0.0, 1.0]), np.eye(2), np.array([[1.0, DT], [0.0, 0.99]]), []
    for z_k, R_k in zip(z, R, strict=True):
        x, P, H = F @ x, F @ P @ F.T + np.diag(Q0), np.eye(2)[np.isfinite(z_k)]
        if len(H):
            K = P @ H.T @ np.linalg.inv(H @ P @ H.T + H @ R_k @ H.T)
            x, P = x + K @ (z_k[np.isfinite(z_k)] - H @ x), P - K @ H @ P
        out.append((x, P))
    return tuple(np.array(a) for a in zip(*out, strict=True))


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_a_sensor_may_report_covariances(backend, float64):
    z, R = pair_record()
    reported = R.copy()
    reported[7], R[7] = np.nan, R_PAIR  # nothing was reported: R0
    reported[9, 1, 1], R[9] = np.nan, np.diag([R[9, 0, 0], R_PAIR[1, 1]])
    filt = sw.EKF(Pair(), Q0, R_PAIR)
    made = sw.run(filt, *START, z, dt=DT, R=reported, backend=backend)
    x, P = plain_pair(z, R)
    np.testing.assert_allclose(made.x, x, atol=1e-10)
    np.testing.assert_allclose(made.P, P, atol=1e-10)
    batch = sw.run(filt, *START, np.stack([z] * 4), dt=DT, R=reported, backend=backend)
    np.testing.assert_allclose(batch.x[3], x, atol=1e-10)


def test_variances_that_are_reported_keep_the_correlations_of_R0(float64):
    z, R = pair_record()
    variances = np.diagonal(R, axis1=1, axis2=2)
    made = sw.run(sw.EKF(Pair(), Q0, R_PAIR), *START, z, dt=DT, R=variances)
    rho = 0.1 / np.sqrt(0.2 * 0.1)
    off = rho * np.sqrt(variances[:, 0] * variances[:, 1])[:, None, None]
    whole = off * (1.0 - np.eye(2)) + variances[:, :, None] * np.eye(2)
    np.testing.assert_allclose(made.x, plain_pair(z, whole)[0], atol=1e-10)


def test_covariances_move_with_samples_that_come_late(float64):
    """Between channels that were taken at different times nothing is correlated."""
    z, R = pair_record()
    z = np.where(np.isnan(z), 0.0, z)
    filt = sw.EKF(Pair(), Q0, R_PAIR)
    made = sw.run(filt, *START, z, dt=DT, R=R, delay=[2 * DT, 0.0])
    moved, apart = np.full_like(z, np.nan), R * np.eye(2)
    moved[:-2, 0], moved[:, 1], apart[:-2, 0, 0] = z[2:, 0], z[:, 1], R[2:, 0, 0]
    np.testing.assert_allclose(made.x, plain_pair(moved, apart)[0], atol=1e-10)


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_noise_that_is_no_number_is_that_of_the_base(backend, record):
    """A report that is infinite, negative or zero, once: the adapted r goes on."""
    z, u = record
    online, known = (
        sw.Online(
            sw.with_reported_noise(sw.SageHusa(Car(), Q0, R0, b=0.95)), *START, backend=backend
        )
        for _ in range(2)
    )
    wrong = {10: np.inf, 30: -1.0, 40: 0.0, 50: np.nan}
    for k in range(STEPS):
        x, _ = online.step(z[k], [wrong.get(k, 0.1 + u[k, 0])], DT)
        x_known, _ = known.step(z[k], [R0[0] if k in wrong else 0.1 + u[k, 0]], DT)
    np.testing.assert_allclose(x, x_known, atol=1e-12)
    np.testing.assert_allclose(online.estimate.r, known.estimate.r, atol=1e-12)


def test_an_adaptive_filter_adapts_the_factor_between_reported_and_real():
    """A GPS whose reports go up and down, and which is three times as wrong as it says."""
    rng, steps = np.random.default_rng(1), 2000
    R = np.where(np.arange(steps)[:, None] // 50 % 2, 4.0, 0.25)
    truth = 0.1 * np.cumsum(rng.normal(size=(steps, 1)), axis=0)
    z = truth + 3.0 * np.sqrt(R) * rng.normal(size=(steps, 1))
    model = sw.models.ConstantVelocity(axes=1)
    filt = sw.SageHusa(model, [1e-2, 1e-6], [1.0], b=0.998, gain_noise="posterior")
    made = sw.run(filt, [0.0, 0.0], np.eye(2), z, dt=DT, R=R)
    factor = np.asarray(made.r[500:] / R[500:])
    assert 5.0 < factor.mean() < 14.0
    jump = np.flatnonzero(np.diff(R[500:, 0])) + 501
    changed = np.asarray(made.r[jump] / made.r[jump - 1]) * np.asarray(R[jump - 1] / R[jump])
    np.testing.assert_allclose(changed, 1.0, atol=0.1)


def test_online_takes_reported_noise_as_inputs(record):
    z, u = record
    R = 0.1 + u
    whole = sw.run(sw.EKF(Car(), Q0, R0), *START, z, dt=DT, R=R)
    online = sw.Online(sw.with_reported_noise(sw.EKF(Car(), Q0, R0)), *START)
    for k in range(STEPS):
        x, _ = online.step(z[k], R[k], DT)
        np.testing.assert_allclose(x, whole.x[k], atol=1e-10)


def test_correlated_noise_keeps_its_correlations_while_it_is_adapted(record):
    z, _ = record
    G = np.array([[0.5 * DT**2, 0.0], [DT, 1e-3]])
    Q = G @ G.T
    made = sw.run(sw.SageHusa(Car(), Q, R0, b=0.95), *START, z, dt=DT)
    diagonal = sw.run(sw.SageHusa(Car(), np.diag(Q), R0, b=0.95), *START, z, dt=DT)
    assert np.max(np.abs(made.x - diagonal.x)) > 1e-6
    assert np.all(np.linalg.eigvalsh(np.asarray(made.P)) > 0.0)
    assert np.ptp(np.log(made.q), axis=0).min() > 0.1


def test_a_drift_is_the_state_that_a_user_would_add(record):
    """Against the same model with the drift written into it, with a Q0 and a P0 of three."""

    class Wandering(Car):
        def transition(self, x, u, dt):
            return jnp.append(super().transition(x[:2], u, dt), jnp.exp(-dt / 5.0) * x[2])

        def observe(self, x, u):
            return x[:1] + x[2:]

    z, _ = record
    model = sw.models.with_drift(Car(), channels=[0], std=1.5, time_constant=5.0)
    made = sw.run(sw.EKF(model, Q0, R0), *START, z, dt=DT)
    own = 1.5**2 * (1.0 - np.exp(-2 * DT / 5.0))
    P0 = np.diag([1.0, 1.0, 1.5**2])
    expected = sw.run(sw.EKF(Wandering(), [*Q0, own], R0), [0.0, 1.0, 0.0], P0, z, dt=DT)
    np.testing.assert_allclose(made.x, expected.x, atol=1e-10)
    np.testing.assert_allclose(made.P, expected.P, atol=1e-10)
    batch = sw.run(sw.EKF(model, Q0, R0), *START, np.stack([z, z]), dt=DT)
    np.testing.assert_allclose(batch.x[1], made.x, atol=1e-10)


def test_with_a_drift_state_coloured_noise_is_no_motion():
    """P then holds the truth, which it does not where the noise is taken for white."""
    rng, steps, a = np.random.default_rng(2), 3000, np.exp(-DT / 20.0)
    truth, wander = np.zeros(steps), np.zeros(steps)
    v = 0.0
    for k in range(1, steps):
        v = 0.99 * v + 0.1 * rng.normal()
        truth[k] = truth[k - 1] + DT * v
        wander[k] = a * wander[k - 1] + 2.0 * np.sqrt(1 - a**2) * rng.normal()
    z = (truth + wander + 0.1 * rng.normal(size=steps))[:, None]
    plain = sw.EKF(Car(), [1e-8, 0.01], [4.01])
    drifting = sw.EKF(sw.models.with_drift(Car(), [0], 2.0, 20.0), [1e-8, 0.01], [0.01])
    shares = []
    for filt in (plain, drifting):
        made = sw.run(filt, [0.0, 0.0], np.eye(2), z, dt=DT)
        error = np.abs(np.asarray(made.x[:, 0]) - truth)
        shares.append(np.mean(error < 2.0 * np.sqrt(np.asarray(made.P[:, 0, 0]))))
    assert shares[0] < 0.7
    assert shares[1] > 0.9


def test_a_model_that_switches_has_the_noise_of_its_mode(record):
    z, u = record
    model = sw.models.Switched((Car(), RoughRoad()), inputs=((0, 0), (0, 1)))
    mode = (np.arange(STEPS) % 3 == 0).astype(float)[:, None]
    filt = sw.EKF(model, Q0, np.stack([R0, R0]))
    made = sw.run(filt, *START, z, np.concatenate([mode, u], axis=1), dt=DT)
    x, _ = plain_ekf(
        z,
        lambda x, k: [Q0[0], DT * (0.1 + x[1] ** 2)] if mode[k] else Q0,
        lambda x, k: 0.2 + 0.01 * x[0] ** 2 + u[k, 0] if mode[k] else R0[0],
    )
    np.testing.assert_allclose(made.x, x, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z: sw.models.with_drift(Car(), [], 1.0, 5.0), ["channels", "[]"]),
        (lambda z: sw.models.with_drift(Car(), [0], -1.0, 5.0), ["std", "positive", "-1.0"]),
        (
            lambda z: sw.models.with_drift(Car(), [0], 1.0, [5.0, 6.0]),
            ["time_constant", "1 channel"],
        ),
        (lambda z: sw.run(sw.EKF(Car(), Q0, R0), *START, z, R=-(z**2)), ["R", "positive"]),
        (
            lambda z: sw.run(sw.EKF(Car(), Q0, R0), *START, z, R=np.full_like(z, np.inf)),
            ["R", "finite", "60 other variances", "inf"],
        ),
        (
            lambda z: sw.run(sw.EKF(Car(), Q0, R0), *START, z, R=np.ones((3, 1))),
            ["R", "(60, 1)", "(3, 1)"],
        ),
        (lambda z: sw.run(sw.VBAKF(Car(), Q0, R0), *START, z, R=np.ones((STEPS, 1))), ["R", "EKF"]),
        (
            lambda z: sw.run(sw.EKF(Pair(), Q0, R_PAIR), *START, np.zeros((1, 2)), R=[INDEFINITE]),
            ["R", "positive definite"],
        ),
        (
            lambda z: sw.run(sw.EKF(Pair(), Q0, R_PAIR), *START, np.zeros((1, 2)), R=[-np.eye(2)]),
            ["R", "positive", "-1"],
        ),
        (lambda z: sw.VBAKF(RoughRoad(), Q0, R0), ["VBAKF", "RoughRoad", "process_noise"]),
        (
            lambda z: sw.run(sw.EKF(Loud(), Q0, R0), *START, z),
            ["Loud.process_noise", "(2,) or (2, 2)", "n_x = 2", "(3,)"],
        ),
        (
            lambda z: sw.run(sw.Bank([EKF(), sw.EKF(Deaf(), Q0, R0)]), *START, z),
            ["Deaf.measurement_noise", "(1,) or (1, 1)", "n_z = 1", "(2,)"],
        ),
        (
            lambda z: sw.run(
                sw.SageHusa(Car(), Q0, R0, dense="R"), *START, z, R=np.ones((STEPS, 1, 1))
            ),
            ["dense", "matrix", "variances"],
        ),
    ],
)
def test_wrong_noise_is_a_sentence(record, call, words, as_a_user_runs_it):
    with pytest.raises(sw.InputError) as error:
        call(record[0])
    for word in words:
        assert word in str(error.value)
