"""The quadrotor: rotations against SciPy, Jacobians against automatic ones, and the physics."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sagewing as sw
from sagewing.models import rotations
from sagewing.models.quadrotor import B_A, B_G, Q, R, V, W

pytestmark = pytest.mark.usefixtures("float64")

DT = 0.01
HOVER = 0.538  # paper, Table 5
IMU = (0.3, -0.2, 9.7, 0.4, -0.5, 0.6)
MOTORS = (0.5, 0.55, 0.6, 0.52)


def some_states(count=20):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 19))
    x[:, Q] /= np.linalg.norm(x[:, Q], axis=1, keepdims=True)
    return x


def scipy_rotation(q):
    return Rotation.from_quat(np.roll(q, -1))  # SciPy's scalar comes last


def test_rotations_are_scipys():
    for q in jnp.asarray(some_states())[:, Q]:
        theirs = scipy_rotation(q)
        np.testing.assert_allclose(rotations.rotation_matrix(q), theirs.as_matrix(), atol=1e-12)
        angles = rotations.euler_angles(q)
        np.testing.assert_allclose(angles[::-1], theirs.as_euler("ZYX"), atol=1e-9)
        again = rotations.from_euler_angles(angles)
        np.testing.assert_allclose(abs(again @ q), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "u"),
    [
        (sw.models.QuadrotorKinematic, IMU),
        (sw.models.QuadrotorDynamic, MOTORS),
        (partial(sw.models.QuadrotorDrag, drag=(0.3, 0.4)), IMU),
    ],
)
def test_the_written_jacobians_are_the_derivatives(model, u):
    exact, euler, u = model(), model(jacobian="euler"), jnp.asarray(u)
    x = jnp.asarray(some_states())

    def agree(used, derivative):
        got, expected = (jax.jit(jax.vmap(f))(x) for f in (used, derivative))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    A = jax.jacfwd(lambda x: exact.drift(x, u))
    agree(lambda x: exact.drift_jacobian(x, u), A)
    agree(lambda x: exact.observe_jacobian(x, u), jax.jacfwd(lambda x: exact.observe(x, u)))
    agree(
        lambda x: exact.transition_jacobian(x, u, DT),
        jax.jacfwd(lambda x: exact.transition(x, u, DT)),
    )
    agree(lambda x: euler.transition_jacobian(x, u, DT), lambda x: jnp.eye(19) + DT * A(x))
    still = exact.transition_jacobian(x[0], u, DT)[19 - exact.constants :]
    np.testing.assert_array_equal(still, np.eye(19)[19 - exact.constants :])


def test_at_the_papers_hover_command_nothing_moves():
    x = jnp.zeros(19).at[6].set(1.0)
    model, u = sw.models.QuadrotorDynamic(), jnp.full(4, HOVER)
    np.testing.assert_allclose(model.drift(x, u), 0.0, atol=2e-3)
    np.testing.assert_allclose(model.observe(x, u)[2], 9.81, atol=2e-3)


@pytest.mark.parametrize(
    ("motors", "axis", "sign"),
    [((0, 0, 1, 1), 0, 1), ((1, 0, 1, 0), 1, 1), ((1, 0, 0, 1), 2, 1), ((1, 1, 0, 0), 0, -1)],
)
def test_a_motor_turns_the_body_as_the_papers_matrix_says(motors, axis, sign):
    _, torque = sw.models.QuadrotorDynamic().wrench(jnp.asarray(motors, float))
    assert np.sign(torque[axis]) == sign
    np.testing.assert_allclose(np.delete(torque, axis), 0.0, atol=1e-12)


def test_the_kinematic_model_follows_the_dynamic_one_that_its_imu_sits_on():
    dynamic, kinematic = sw.models.QuadrotorDynamic(), sw.models.QuadrotorKinematic()
    x = np.zeros(19)
    x[Q], x[V], x[B_A], x[B_G] = [1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.0], 0.1, -0.02
    followed = moved = jnp.asarray(x)

    def step(both, k):
        moved, followed = both
        u = HOVER + 0.02 * jnp.sin(0.005 * k + jnp.arange(4.0))
        middle = moved + 0.5e-3 * dynamic.drift(moved, u)  # the IMU in the middle of the step
        imu = dynamic.observe(middle, u)
        moved = dynamic.normalize(dynamic.transition(moved, u, 1e-3))
        return (moved, kinematic.normalize(kinematic.transition(followed, imu, 1e-3))), None

    (moved, followed), _ = jax.lax.scan(step, (moved, followed), jnp.arange(2000))
    assert np.linalg.norm(moved[R]) > 1.0
    for part, tolerance in ((R, 1e-3), (V, 1e-3), (Q, 1e-4)):
        np.testing.assert_allclose(followed[part], moved[part], atol=tolerance)
    assert np.abs(moved[W]).max() > 0.01


def test_drag_tells_the_airspeed_without_a_pose():
    """A blackout of ten seconds: the accelerometer's x and y bring a wrong velocity back."""
    model = sw.models.QuadrotorDrag(drag=(0.4, 0.4))
    x0 = np.zeros(19)
    x0[Q.start] = 1.0
    x0[V] = (2.0, -1.0, 0.0)  # the vehicle hovers
    imu = np.tile([0.0, 0.0, 9.81, 0.0, 0.0, 0.0], (1000, 1))
    P0, Q0 = np.diag(np.r_[np.full(16, 1e-3), np.full(3, 1e-6)]), np.full(19, 1e-8)
    P0[V, V] = np.eye(3)
    made = sw.run(sw.EKF(model, Q0, np.full(6, 1e-3)), x0, P0, imu, imu, dt=DT)
    assert np.max(np.abs(made.x[-1, V])) < 0.1
    assert made.P[-1, 3, 3] < 0.1


def test_angles_wrap_and_the_quaternion_keeps_its_length():
    model = sw.models.QuadrotorKinematic()
    z = jnp.array([0.0, 0.0, 0.0, 3.1, 0.0, -3.1])
    nu = model.innovation(z, -z)
    np.testing.assert_allclose(nu[3:], [6.2 - 2 * np.pi, 0.0, 2 * np.pi - 6.2], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(model.normalize(jnp.ones(19))[Q]), 1.0)
    np.testing.assert_allclose(model.normalize(jnp.zeros(19))[Q], [1.0, 0.0, 0.0, 0.0])


class Raw(sw.models.QuadrotorKinematic):
    """The same, with a quaternion of any length."""

    def normalize(self, x):
        return x


def steps(model, count):
    """An EKF that is told a pose which is off."""
    x0 = np.zeros(19)
    x0[Q] = (0.9, 0.1, -0.3, 0.2)
    x0[Q] /= np.linalg.norm(x0[Q])
    filt = sw.EKF(model, np.full(19, 1e-3), np.full(6, 1e-2))
    z = np.tile([0.1, -0.2, 0.3, 0.4, -0.5, 0.2], (count, 1))
    return sw.run(filt, x0, 0.05 * np.eye(19), z, np.tile(IMU, (count, 1)), dt=DT)


def test_the_covariance_is_that_of_the_quaternion_at_its_length():
    model = sw.models.QuadrotorKinematic()
    made, raw = steps(model, 1), steps(Raw(), 1)
    E = jax.jacfwd(model.normalize)(jnp.asarray(raw.x[0]))
    assert abs(np.linalg.norm(raw.x[0, Q]) - 1.0) > 1e-3
    np.testing.assert_allclose(made.P[0], E @ raw.P[0] @ E.T, atol=1e-12)
    long = steps(model, 50)
    length = np.einsum("ti,tij,tj->t", long.x[:, Q], long.P[:, Q, Q], long.x[:, Q])
    assert np.max(np.abs(length)) < 1e-12  # it is one, whatever Q says
    assert np.min(np.linalg.eigvalsh(long.P)) > -1e-12
    again = sw.run(
        sw.EKF(model, np.full(19, 1e-3), np.full(6, 1e-2)),
        long.x[-1],
        long.P[-1],
        np.full((3, 6), np.nan),
        np.tile(IMU, (3, 1)),
        dt=DT,
    )  # a P to go on from
    assert np.all(np.isfinite(again.P))


@pytest.mark.parametrize("states", [slice(6, 10, 2), (6, 10)])
def test_the_normalized_states_are_neighbours(states):
    class Odd(sw.models.QuadrotorKinematic):
        curved = property(lambda self: states)

    with pytest.raises(sw.InputError, match="a slice of neighbouring"):
        steps(Odd(), 1)


def test_the_empirical_q_does_not_know_of_the_normalization():
    """Of a length that nothing measures, what a step adds is what Q says."""
    x0 = np.zeros(19)
    x0[Q] = (1.0, 0.0, 0.0, 0.0)
    hover = np.tile([0.0, 0.0, 9.81, 0.0, 0.0, 0.0], (20, 1))
    filt = sw.SageHusa(
        sw.models.QuadrotorKinematic(),
        np.full(19, 1e-4),
        np.full(6, 1e-2),
        b=0.9,
        bounds=(1e-4, 1e4),
    )
    made = sw.run(filt, x0, 1e-3 * np.eye(19), np.zeros((20, 6)), hover, dt=DT)
    np.testing.assert_allclose(made.q[:, 6], 1e-4, rtol=1e-3)


class Heading(sw.Model):
    """A walker in the plane, whose heading is a unit vector."""

    def transition(self, x, u, dt):
        return jnp.concatenate([x[:2] + dt * x[2:], x[2:]])

    def observe(self, x, u):
        return x[:2]

    def normalize(self, x):
        return jnp.concatenate([x[:2], x[2:] / jnp.linalg.norm(x[2:])])


class NamedHeading(Heading):
    """The same, with a word about which states `normalize` changes."""

    curved = property(lambda self: slice(2, 4))


def test_a_model_need_not_say_which_states_it_normalizes():
    z = np.cumsum(np.random.default_rng(0).normal(size=(30, 2)), axis=0)
    given = ([0.0, 0.0, 0.6, 0.8], 0.1 * np.eye(4), z)
    named, unnamed, in_c = (
        sw.run(sw.EKF(model, [0.1] * 4, [0.5] * 2), *given, dt=0.1, backend=backend)
        for model, backend in ((NamedHeading(), "jax"), (Heading(), "jax"), (Heading(), "c"))
    )
    np.testing.assert_allclose(np.linalg.norm(named.x[:, 2:], axis=1), 1.0)
    for other in (unnamed, in_c):
        np.testing.assert_allclose(other.x, named.x, atol=1e-12)
        np.testing.assert_allclose(other.P, named.P, atol=1e-12)


def test_pointing_straight_up_gives_numbers_and_a_finite_derivative():
    q = rotations.from_euler_angles(jnp.array([0.3, np.pi / 2, -0.2]))
    assert np.all(np.isfinite(rotations.euler_angles(q)))
    assert np.all(np.isfinite(rotations.euler_by_quaternion(q)))


def test_an_ekf_with_it_finds_a_hovering_vehicle():
    rng = np.random.default_rng(0)
    steps = 300
    std = np.array([0.05] * 3 + [0.02] * 3)
    z = np.array([1.0, 2.0, 3.0, 0.0, 0.0, 1.0]) + std * rng.normal(size=(steps, 6))
    u = np.tile([0.0, 0.0, 9.81, 0.0, 0.0, 0.0], (steps, 1))
    x0 = np.zeros(19)
    x0[Q] = [1.0, 0.0, 0.0, 0.0]
    filt = sw.EKF(sw.models.QuadrotorKinematic(), np.full(19, 1e-6), std**2)
    result = sw.run(filt, x0, np.diag([10.0] * 3 + [0.1] * 3 + [1.0] * 4 + [0.1] * 9), z, u, DT)
    np.testing.assert_allclose(result.x[-1, R], [1.0, 2.0, 3.0], atol=0.05)
    np.testing.assert_allclose(rotations.euler_angles(result.x[-1, Q])[2], 1.0, atol=0.05)


def test_a_missing_input_is_named():
    z, P0 = np.zeros((3, 6)), np.eye(19)
    for model, words in (
        (sw.models.QuadrotorKinematic(), "accelerometer and gyroscope, 6 numbers"),
        (sw.models.QuadrotorDynamic(), "motor commands, 4 numbers"),
    ):
        with pytest.raises(sw.InputError, match=words):
            sw.run(sw.EKF(model, np.ones(19), np.ones(6)), np.zeros(19), P0, z)
