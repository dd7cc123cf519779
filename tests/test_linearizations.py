"""The UKF and the iterated EKF are the textbook's, in every filter that has one recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from scipy.optimize import least_squares

import sagewing as sw
from sagewing.models.manifolds import Rotation
from sagewing.models.rotations import rotation_matrix

pytestmark = pytest.mark.usefixtures("float64")
DT, STEPS = 0.1, 40
Q0, R0 = np.array([1e-3, 1e-3, 2e-3]), np.array([0.02, 0.01])
X0, P0 = np.array([3.0, 1.0, 0.3]), np.diag([0.5, 0.4, 0.2])


class Rover(sw.Model):
    """A place and a heading; the distance and the bearing of the origin are measured."""

    def transition(self, x, u, dt):
        return x + dt * jnp.stack([jnp.cos(x[2]), jnp.sin(x[2]), 0.5 * jnp.sin(x[0])])

    def observe(self, x, u):
        return jnp.stack([jnp.hypot(x[0], x[1]), jnp.sin(jnp.arctan2(x[1], x[0]) - x[2])])


class Tumbling(sw.ManifoldModel):
    """A body turned by a gyroscope; two axes are measured."""

    space = Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, u * dt)

    def observe(self, x, u):
        R = rotation_matrix(x)
        return jnp.concatenate([R[2], R[0]])


@pytest.fixture(scope="module")
def record(float64):
    rng, model, x, z = np.random.default_rng(0), Rover(), jnp.asarray(X0), []
    for _ in range(STEPS):
        x = model.transition(x, None, DT) + np.sqrt(Q0) * rng.normal(size=3)
        z.append(model.observe(x, None) + np.sqrt(R0) * rng.normal(size=2))
    return np.array(z)


def run(filt, z, mask=None, backend="jax"):
    return sw.run(filt, X0, P0, z, dt=DT, mask=mask, backend=backend)


@pytest.mark.parametrize("weights", [(1.0, 2.0, 0.0), (0.5, 2.0, 1.0)])
def test_the_UKF_is_that_of_filterpy(record, weights):
    model = Rover()
    f = jax.jit(lambda x: model.transition(x, None, DT))
    h = jax.jit(lambda x: model.observe(x, None))
    points = MerweScaledSigmaPoints(3, *weights)
    theirs = UnscentedKalmanFilter(
        3, 2, DT, hx=lambda x: np.asarray(h(x)), fx=lambda x, dt: np.asarray(f(x)), points=points
    )
    theirs.x, theirs.P, theirs.Q, theirs.R = X0, P0, np.diag(Q0), np.diag(R0)
    ours = run(sw.EKF(model, Q0, R0, linearization=sw.Unscented(*weights)), record)
    for k in range(STEPS):
        theirs.predict()
        theirs.sigmas_f = points.sigma_points(theirs.x, theirs.P)  # of the predicted P, with Q
        theirs.update(record[k])
        np.testing.assert_allclose(ours.x[k], theirs.x, atol=1e-9)
        np.testing.assert_allclose(ours.P[k], theirs.P, atol=1e-9)


def test_the_iterated_EKF_ends_at_the_most_likely_state(record):
    """Of one prediction and one measurement: the minimum that Gauss and Newton find."""
    model = Rover()
    filt = sw.EKF(model, Q0, R0, linearization=sw.Iterated(iterations=30))
    F = jax.jacfwd(lambda x: model.transition(x, None, DT))(jnp.asarray(X0))
    x_pred, P_pred = model.transition(jnp.asarray(X0), None, DT), F @ P0 @ F.T + np.diag(Q0)
    root = np.linalg.inv(np.linalg.cholesky(P_pred))

    def weighted(x):
        nu = record[0] - np.asarray(model.observe(jnp.asarray(x), None))
        return np.concatenate([root @ (x - x_pred), nu / np.sqrt(R0)])

    best = least_squares(weighted, x_pred, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    made = run(filt, record[:1])
    np.testing.assert_allclose(made.x[0], best.x, atol=1e-6)
    H = jax.jacfwd(lambda x: model.observe(x, None))(made.x[0])
    expected = np.linalg.inv(np.linalg.inv(P_pred) + H.T @ np.diag(1.0 / R0) @ H)
    np.testing.assert_allclose(made.P[0], expected, atol=1e-7)
    plain = run(sw.EKF(model, Q0, R0), record[:1])
    assert np.max(np.abs(plain.x[0] - made.x[0])) > 1e-4


def test_one_iteration_is_the_EKF(record):
    once = run(sw.EKF(Rover(), Q0, R0, linearization=sw.Iterated(iterations=1)), record)
    plain = run(sw.EKF(Rover(), Q0, R0), record)
    np.testing.assert_allclose(once.x, plain.x, atol=1e-12)
    np.testing.assert_allclose(once.P, plain.P, atol=1e-12)


def policies():
    tiny = sw.Architecture(3, 2, depth=1, hidden=4, head=(4,), decoder=(4,))
    return {
        "ekf": lambda how: sw.EKF(Rover(), Q0, R0, gate=4.0, linearization=how),
        "sage-husa": lambda how: sw.SageHusa(Rover(), Q0, R0, b=0.95, linearization=how),
        "ndr": lambda how: sw.NDRSageHusa(
            Rover(), Q0, R0, sw.Policy(tiny, key=jax.random.key(0)), linearization=how
        ),
    }


@pytest.mark.parametrize("how", ["iterated", "unscented"])
@pytest.mark.parametrize("name", ["ekf", "sage-husa", "ndr"])
def test_they_adapt_batch_and_run_in_C(record, name, how):
    filt = policies()[name](how)
    z = record.copy()
    z[5:8], z[12, 0] = np.nan, np.nan
    made = run(filt, z)
    assert bool(np.all(np.isfinite(made.x)))
    assert not np.allclose(made.x, run(policies()[name]("taylor"), z).x, atol=1e-4)
    batch = run(filt, np.stack([z, record]))
    np.testing.assert_allclose(batch.x[0], made.x, atol=1e-10)
    in_C = run(filt, z, backend="c")
    for field in ("x", "P", "q", "r", "nis"):
        np.testing.assert_allclose(
            getattr(in_C, field), getattr(made, field), rtol=1e-8, atol=1e-10, err_msg=field
        )


@pytest.mark.parametrize("how", ["iterated", "unscented"])
def test_on_rotations_they_find_an_attitude_and_know_no_sign(how):
    rng, model = np.random.default_rng(1), Tumbling()
    u = jnp.asarray([0.9, -1.4, 2.2]) + 0.1 * rng.normal(size=(30, 3))
    x, z = jnp.asarray([1.0, 0.0, 0.0, 0.0]), []
    for k in range(30):
        x = model.transition(x, u[k], DT)
        z.append(model.observe(x, None) + 0.02 * rng.normal(size=6))
    filt = sw.EKF(model, np.full(3, 1e-4), np.full(6, 4e-4), linearization=how)
    start = Rotation().plus(jnp.asarray([1.0, 0.0, 0.0, 0.0]), jnp.array([0.9, -0.6, 0.5]))
    made, other = (sw.run(filt, s * start, 0.8 * np.eye(3), np.array(z), u, dt=DT) for s in (1, -1))
    assert np.linalg.norm(Rotation().minus(made.x[-1], x)) < 0.05
    np.testing.assert_allclose(other.x, -made.x, atol=1e-10)
    np.testing.assert_allclose(other.P, made.P, atol=1e-10)


def test_on_a_linear_model_all_are_the_Kalman_filter(record):
    model = sw.models.ConstantVelocity(axes=1)
    given = [0.0, 0.0], np.eye(2), record[:, :1]
    taylor, *others = (
        sw.run(sw.EKF(model, [1e-3, 1e-2], [0.1], linearization=how), *given, dt=DT)
        for how in ("taylor", "iterated", "unscented")
    )
    for other in others:
        np.testing.assert_allclose(other.x, taylor.x, atol=1e-10)
        np.testing.assert_allclose(other.P, taylor.P, atol=1e-10)
        np.testing.assert_allclose(other.loglik, taylor.loglik, atol=1e-9)


@pytest.mark.parametrize("backend", ["jax", "c"])
def test_sigma_points_do_not_spread_what_is_known(record, backend):
    """A state whose variance is zero, at the start and for ever."""
    model = sw.models.ConstantVelocity(axes=1)
    taylor, unscented = (
        sw.run(
            sw.EKF(model, [1e-3, 0.0], [0.1], linearization=how),
            [0.0, 1.0],
            np.diag([1.0, 0.0]),
            record[:, :1],
            dt=DT,
            backend=backend,
        )
        for how in ("taylor", "unscented")
    )
    np.testing.assert_allclose(unscented.x, taylor.x, atol=1e-10)
    np.testing.assert_allclose(unscented.P, taylor.P, atol=1e-10)
    assert bool(np.all(unscented.ok))


def test_the_error_of_a_refused_channel_is_no_measurement(record):
    """The filter is that of a record without it, also where the noise of the step is chosen."""
    z, without = record[:10].copy(), record[:10].copy()
    z[5, 0], without[5, 0] = 1e9, np.nan
    filt = sw.RobustEKF(Rover(), Q0, R0, linearization="unscented")
    np.testing.assert_allclose(run(filt, z).x, run(filt, without).x, atol=1e-9)


@pytest.mark.parametrize("how", ["iterated", "unscented"])
def test_gradients_pass_through_them(record, how):
    def loss(log_q):
        filt = sw.EKF(Rover(), jnp.exp(log_q), R0, linearization=how)
        return -jnp.sum(run(filt, record[:10]).loglik)

    at, eps = jnp.log(jnp.asarray(Q0)), 1e-5
    numeric = [(loss(at + d) - loss(at - d)) / (2 * eps) for d in eps * np.eye(3)]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(at), numeric, rtol=1e-5, atol=1e-6)


def wrong(**settings):
    return lambda: sw.EKF(Rover(), Q0, R0, **settings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (wrong(linearization="ukf"), ["linearization", "unscented", "'ukf'"]),
        (lambda: sw.Iterated(iterations=0), ["iterations", "1..100", "0"]),
        (lambda: sw.Unscented(alpha=0.0), ["alpha", "positive"]),
        (lambda: run(wrong(linearization=sw.Unscented(kappa=-3.0))(), np.zeros((2, 2))), ["-3"]),
    ],
)
def test_wrong_settings_are_a_sentence(make, words, as_a_user_runs_it):
    with pytest.raises(sw.InputError) as error:
        make()
    for word in words:
        assert word in str(error.value)
