"""The quadrotor with an error state keeps its attitude where Euler angles are singular."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Reference

import sagewing as sw
from sagewing.models.error_state import N_DX, TURN
from sagewing.models.model import error_after, measured_after
from sagewing.models.quadrotor import GRAVITY, N_X, Q

DT = 0.01
MODELS = {
    "kinematic": (sw.models.QuadrotorKinematic(), 6),
    "dynamic": (sw.models.QuadrotorDynamic(), 4),
    "drag": (sw.models.QuadrotorDrag(drag=(0.3, 0.4)), 6),
}


def random_state(rng):
    x = 0.5 * rng.normal(size=N_X)
    x[Q] = Reference.random(random_state=rng).as_quat(scalar_first=True)
    return jnp.asarray(x)


@pytest.mark.parametrize("name", MODELS)
def test_F_and_H_are_the_derivatives_by_errors(name, float64):
    plain, n_u = MODELS[name]
    model, rng, none = sw.models.ErrorState(plain), np.random.default_rng(0), jnp.zeros(N_DX)
    for _ in range(5):
        x, u = random_state(rng), jnp.asarray(rng.uniform(0.0, 1.0, size=n_u))
        x_pred, z_hat = model.transition(x, u, DT), model.observe(x, u)
        F = jax.jacfwd(partial(error_after, model))(none, x, x_pred, u, DT)
        np.testing.assert_allclose(model.transition_jacobian(x, u, DT), F, atol=1e-12)
        H = jax.jacfwd(partial(measured_after, model))(none, x, z_hat, u)
        np.testing.assert_allclose(model.observe_jacobian(x, u), H, atol=1e-9)
        np.testing.assert_allclose(x_pred[: Q.start], plain.transition(x, u, DT)[: Q.start])


def loops(t):
    """Rates of a vehicle that turns over again and again, inverted and through any yaw."""
    return np.stack([0.7 * np.sin(0.9 * t), np.full_like(t, 2.5), 0.5 * np.cos(0.4 * t)], axis=1)


def nose_up(t):
    """Rates of a vehicle that pitches up to 90 degrees in a second, and stays there."""
    up = np.where(t <= 1.0, -0.5 * np.pi, 0.0)
    return np.stack([np.zeros_like(t), up, np.zeros_like(t)], axis=1)


def flight(rates, steps=1500, hz=100.0):
    """The IMU, and the true positions, velocities and attitudes.

    The position oscillates by less than a metre; the accelerometer measures what that needs.
    """
    t = np.arange(steps + 1) / hz
    body = rates(t)
    turns, attitude = Reference.from_rotvec(body[1:] / hz), [Reference.identity()]
    for turn in turns:
        attitude.append(attitude[-1] * turn)
    attitude = Reference.concatenate(attitude)
    p = 0.5 * np.stack([np.sin(t), np.cos(1.3 * t), np.sin(0.7 * t)], axis=1)
    a = -0.5 * np.stack([np.sin(t), 1.69 * np.cos(1.3 * t), 0.49 * np.sin(0.7 * t)], axis=1)
    middle = 0.5 * (a[1:] + a[:-1])
    halfway = attitude[:-1] * Reference.from_rotvec(0.5 * body[1:] / hz)
    force = halfway.inv().apply(middle + np.array([0.0, 0.0, GRAVITY]))
    v = 0.5 * np.stack([np.cos(t), -1.3 * np.sin(1.3 * t), 0.7 * np.cos(0.7 * t)], axis=1)
    return np.concatenate([force, body[1:]], axis=1), p, v, attitude


def attitude_errors(x, attitude):
    """In degrees."""
    found = Reference.from_quat(np.asarray(x)[:, Q], scalar_first=True)
    return np.rad2deg((attitude.inv() * found).magnitude())


def flown(rates, euler, start_off=0.0, noise=0.01):
    """The attitude errors of an EKF with Euler angles, or with an error state."""
    imu, p, v, attitude = flight(rates)
    rng = np.random.default_rng(1)
    position = p[1:] + 0.02 * rng.normal(size=(len(imu), 3))
    seen = attitude[1:] * Reference.from_rotvec(noise * rng.normal(size=(len(imu), 3)))
    x0 = np.zeros(N_X)
    x0[:3], x0[3:6] = p[0], attitude[0].inv().apply(v[0])
    x0[Q] = Reference.from_rotvec([0.0, 0.0, start_off]).as_quat(scalar_first=True)
    kinematic = sw.models.QuadrotorKinematic()
    q = np.repeat([1e-8, 1e-6, 1e-6, 1e-3, 1e-8, 1e-10], 3)
    P = np.repeat([1e-4, 1e-2, max(1e-4, start_off**2), 1e-2, 1e-4, 1e-6], 3)
    r = np.repeat([0.02**2, noise**2], 3)
    if euler:
        angles = seen.as_euler("ZYX")[:, ::-1]
        q, P = (np.insert(a, Q.start, a[Q.start]) for a in (q, P))
        filt = sw.EKF(kinematic, q, r)
    else:
        angles = seen.as_rotvec()
        filt = sw.EKF(sw.models.ErrorState(kinematic), q, r)
    z = np.concatenate([position, angles], axis=1)
    made = sw.run(filt, x0, np.diag(P), z, imu, dt=DT)
    return attitude_errors(made.x, attitude[1:]), made


@pytest.mark.parametrize("rates", [loops, nose_up])
def test_the_error_state_keeps_every_attitude(rates):
    errors, made = flown(rates, euler=False)
    assert bool(np.all(made.ok))
    assert errors.max() < 2.0


def test_Euler_angles_lose_a_vehicle_that_stands_on_its_tail():
    assert flown(nose_up, euler=True)[0].max() > 20.0


def test_an_attitude_that_is_off_by_120_degrees_is_found():
    errors, _ = flown(loops, euler=False, start_off=np.deg2rad(120.0))
    assert errors[100:].max() < 2.0


def test_its_P_is_that_of_the_errors_it_makes():
    """The mean NEES of the attitude's three errors is three."""
    _, made = flown(loops, euler=False)
    attitude = flight(loops)[-1]
    found = Reference.from_quat(np.asarray(made.x)[:, Q], scalar_first=True)
    turn = (found.inv() * attitude[1:]).as_rotvec()
    P = np.asarray(made.P, np.float64)[:, TURN, TURN]
    nees = np.einsum("ti,tij,tj->t", turn, np.linalg.inv(P), turn)
    assert 1.5 < np.mean(nees[50:]) < 6.0
