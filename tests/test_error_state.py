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
from sagewing.models.quadrotor import N_X, Q
from sagewing.studies.attitude import ON_TAIL, aerobatics, flight, flown, loops, still

DT = 0.01
LEVEL = np.zeros(3)  # a start that is not off
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


@pytest.mark.parametrize("rates", [loops, aerobatics])
def test_the_error_state_keeps_every_attitude(rates):
    made = flown(flight(rates), "error-state", LEVEL)
    assert bool(np.all(made.result.ok))
    assert made.errors.max() < 2.0


def test_Euler_angles_lose_a_vehicle_that_stands_on_its_tail():
    errors = flown(flight(aerobatics), "euler", LEVEL).errors
    assert errors[310:490].max() > 20.0
    assert errors[910:1090].max() > 20.0


def test_an_attitude_that_is_off_by_120_degrees_is_found_at_once():
    """In flight, and standing nose up, where Euler angles do not find it in 15 s."""
    axes = np.random.default_rng(0).normal(size=(4, 3))
    starts = np.deg2rad(120.0) * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    assert flown(flight(loops), "error-state", starts).errors.max() < 2.0
    on_tail = flight(still, ON_TAIL)
    assert flown(on_tail, "error-state", starts).errors.max() < 2.0
    assert flown(on_tail, "euler", starts).errors[:, -1].min() > 10.0


def test_its_P_is_that_of_the_errors_it_makes():
    """The mean NEES of the attitude's three errors is three."""
    flew = flight(loops)
    made = flown(flew, "error-state", LEVEL).result
    found = Reference.from_quat(np.asarray(made.x)[:, Q], scalar_first=True)
    turn = (found.inv() * flew.attitude[1:]).as_rotvec()
    P = np.asarray(made.P, np.float64)[:, TURN, TURN]
    nees = np.einsum("ti,tij,tj->t", turn, np.linalg.inv(P), turn)
    assert 1.5 < np.mean(nees[50:]) < 6.0
