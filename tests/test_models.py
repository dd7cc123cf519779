"""The systems: their derivatives, their integration, their angles, and a user's own."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sagewing as sw
from sagewing.filters.lifting import closed_form, derivative
from sagewing.models import wrap_angle

DT = 0.01
CHAOTIC = {"lorenz": sw.models.Lorenz, "rossler": sw.models.Rossler, "thomas": sw.models.Thomas}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def random_states(seed=0, count=50):
    return jnp.asarray(np.random.default_rng(seed).normal(scale=10.0, size=(count, 3)))


def F_of(model, x, u=None):
    """F as a filter takes it: in closed form, or automatic."""
    given = closed_form(model.transition_jacobian, x, u, jnp.asarray(DT))
    return derivative(model.transition, x, u, jnp.asarray(DT)) if given is None else given


@pytest.mark.parametrize("name", CHAOTIC)
def test_the_written_jacobians_are_the_derivatives(name):
    exact, euler = CHAOTIC[name](), CHAOTIC[name](jacobian="euler")
    x = random_states()

    def agree(used, derivative):
        got, expected = jax.jit(jax.vmap(used))(x), jax.jit(jax.vmap(derivative))(x)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)

    A = jax.jacfwd(lambda x: exact.drift(x, None))
    agree(lambda x: exact.drift_jacobian(x, None), A)
    agree(lambda x: exact.observe_jacobian(x, None), jax.jacfwd(lambda x: exact.observe(x, None)))
    agree(lambda x: F_of(exact, x), jax.jacfwd(lambda x: exact.transition(x, None, DT)))
    agree(lambda x: F_of(euler, x), lambda x: jnp.eye(3) + DT * A(x))


@pytest.mark.parametrize("setting", ["exact", "euler"])
def test_a_batch_has_the_jacobians_of_its_records(setting):
    model, x = sw.models.Lorenz(jacobian=setting), random_states()
    together = jax.jit(lambda x: jnp.moveaxis(F_of(model, x.T), -1, 0))(x)
    each = jax.jit(jax.vmap(lambda x: F_of(model, x)))(x)
    np.testing.assert_allclose(together, each, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CHAOTIC)
def test_the_jacobian_setting_changes_F_and_not_f(name):
    exact, euler = CHAOTIC[name](), CHAOTIC[name](jacobian="euler")
    x, dt = random_states()[0], jnp.asarray(DT)
    np.testing.assert_array_equal(exact.transition(x, None, dt), euler.transition(x, None, dt))
    assert np.abs(F_of(exact, x) - F_of(euler, x)).max() > 1e-5


@pytest.mark.parametrize("name", CHAOTIC)
def test_the_integration_has_order_four(name):
    model = CHAOTIC[name]()

    def after_a_fifth_of_a_second(steps):
        dt = jnp.asarray(0.2 / steps)
        return jax.lax.fori_loop(
            0, steps, lambda _, x: model.transition(x, None, dt), jnp.array([-8.0, -6.0, 2.0])
        )

    truth = after_a_fifth_of_a_second(4096)
    coarse, fine = (np.linalg.norm(after_a_fifth_of_a_second(n) - truth) for n in (32, 64))
    assert 14.0 < coarse / fine < 18.0


def test_rossler_measures_range_and_bearing():
    z = sw.models.Rossler().observe(jnp.array([-3.0, 4.0, 7.0]), None)
    np.testing.assert_allclose(z, [5.0, np.arctan2(4.0, -3.0)], rtol=1e-12)


def test_rossler_has_finite_derivatives_at_the_origin():
    model, x = sw.models.Rossler(), jnp.zeros(3)
    assert np.all(np.isfinite(model.observe_jacobian(x, None)))
    assert np.all(np.isfinite(model.observe(x, None)))


def test_rossler_takes_the_bearing_the_shorter_way_round_unless_told_not_to():
    z, z_hat = jnp.array([5.0, 3.1]), jnp.array([4.0, -3.1])
    wrapped = sw.models.Rossler().innovation(z, z_hat)
    np.testing.assert_allclose(wrapped, [1.0, 6.2 - 2.0 * np.pi], rtol=1e-12)
    raw = sw.models.Rossler(wrap_bearing=False).innovation(z, z_hat)
    np.testing.assert_allclose(raw, [1.0, 6.2], rtol=1e-12)


# The neighbours of an odd multiple of pi are where rounding may leave the interval.
@settings(deadline=None, derandomize=True, database=None, max_examples=200)
@given(angle=st.floats(-1e6, 1e6))
@example(angle=np.pi)
@example(angle=-np.pi)
@example(angle=float(np.nextafter(-np.pi, -4.0)))
@example(angle=float(np.nextafter(np.pi, 0.0)))
@example(angle=-3.0 * np.pi)
def test_a_wrapped_angle_is_the_same_angle_within_minus_pi_and_pi(angle):
    for width in (np.float32, np.float64):
        given_angle = width(angle)
        wrapped = np.asarray(wrap_angle(jnp.asarray(given_angle)))
        assert wrapped.dtype == width
        assert -width(np.pi) <= wrapped < width(np.pi)
        rounding = 4.0 * np.finfo(width).eps * max(1.0, abs(float(given_angle)))
        turn = np.exp(1j * np.float64(given_angle)) - np.exp(1j * np.float64(wrapped))
        assert abs(turn) <= rounding


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_constant_velocity_moves_the_position_and_measures_it(axes):
    model = sw.models.ConstantVelocity(axes)
    position, velocity = np.arange(axes) + 1.0, -0.5 * np.arange(axes) + 2.0
    x = jnp.asarray(np.concatenate([position, velocity]))
    moved = model.transition(x, None, jnp.asarray(0.25))
    np.testing.assert_array_equal(moved, [*(position + 0.25 * velocity), *velocity])
    np.testing.assert_array_equal(model.observe(x, None), position)
    np.testing.assert_array_equal(F_of(model, x), np.kron([[1.0, DT], [0.0, 1.0]], np.eye(axes)))


class Cart(sw.Model):
    """A user's own: position and speed, pushed by u, measured through a gain that u also moves."""

    mass: float = 2.0

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] + dt * u[0] / self.mass])

    def observe(self, x, u):
        return jnp.stack([x[0] + u[1]])


def cart_by_hand(x, P, Q, R, z, u, dt):
    H = np.array([[1.0, 0.0]])
    for z_k, u_k, dt_k in zip(z, u, dt, strict=True):
        F = np.array([[1.0, dt_k], [0.0, 1.0]])
        x = F @ x + np.array([0.0, dt_k * u_k[0] / 2.0])
        P = F @ P @ F.T + Q
        K = P @ H.T / (H @ P @ H.T + R)
        x = x + K[:, 0] * (z_k[0] - x[0] - u_k[1])
        P = P - K @ H @ P
        yield x, P


@pytest.mark.parametrize("batched", [False, True])
def test_a_users_model_with_inputs_and_a_dt_for_every_step(batched):
    rng = np.random.default_rng(1)
    z, u = rng.normal(size=(2, 15, 1)), rng.normal(size=(2, 15, 2))
    dt = rng.uniform(0.01, 0.5, (2, 15))
    x0, P0, Q, R = np.array([1.0, -1.0]), np.diag([2.0, 3.0]), np.diag([0.1, 0.2]), np.eye(1)
    filt = sw.EKF(Cart(), np.diag(Q), np.diag(R))
    if batched:
        result = sw.run(filt, x0, P0, z, u, dt)
        x, P = result.x, result.P
    else:
        alone = [sw.run(filt, x0, P0, z[i], u[i], dt[i]) for i in range(2)]
        x, P = np.stack([r.x for r in alone]), np.stack([r.P for r in alone])
    for i in range(2):
        by_hand = list(cart_by_hand(x0, P0, Q, R, z[i], u[i], dt[i]))
        np.testing.assert_allclose(x[i], [x_k for x_k, _ in by_hand], rtol=1e-10)
        np.testing.assert_allclose(P[i], [P_k for _, P_k in by_hand], rtol=1e-10, atol=1e-12)


def test_a_batch_may_share_its_inputs_and_its_steps():
    rng = np.random.default_rng(2)
    z, u, dt = rng.normal(size=(2, 15, 1)), rng.normal(size=(15, 2)), rng.uniform(0.1, 0.5, 15)
    filt, x0, P0 = sw.EKF(Cart(), [0.1, 0.2], [1.0]), np.zeros(2), np.eye(2)
    shared = sw.run(filt, x0, P0, z, u, dt)
    each = sw.run(filt, x0, P0, z, np.stack([u, u]), np.stack([dt, dt]))
    np.testing.assert_allclose(shared.x, each.x, rtol=1e-12)


def test_a_users_differential_equation_needs_nothing_but_its_drift():
    class Pendulum(sw.ContinuousModel):
        jacobian: Literal["exact", "euler"] = eqx.field(static=True, default="exact")

        def drift(self, x, u):
            return jnp.stack([x[1], -jnp.sin(x[0]) + u[0]])

        def observe(self, x, u):
            return x[:1]

    model, x, u = Pendulum(), jnp.array([0.5, 0.1]), jnp.array([0.2])
    A = np.array([[0.0, 1.0], [-np.cos(0.5), 0.0]])
    np.testing.assert_allclose(model.drift_jacobian(x, u), A, atol=1e-12)
    np.testing.assert_allclose(F_of(model, x, u), np.eye(2) + DT * A, atol=2e-4)
    result = sw.run(
        sw.EKF(model, [1e-4, 1e-4], [0.1]), x, 0.1 * np.eye(2), np.zeros((3, 1)), u=[u] * 3
    )
    assert bool(result.ok.all())
