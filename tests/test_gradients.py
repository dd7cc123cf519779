"""The derivatives that training descends along, in float64, against finite differences."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.flatten_util import ravel_pytree
from jax.test_util import check_grads

import sagewing as sw
from sagewing.filters import guards, kernels
from sagewing.filters.gain import gain
from sagewing.filters.loop import scan

T, B = 15, 3
Q0, R0 = np.full(3, 0.01), np.array([1.0, 2.0])


class Records(NamedTuple):
    """A batch of Lorenz records as training has them: time first, batch last."""

    truth: np.ndarray
    z: np.ndarray
    arrived: np.ndarray
    x0: np.ndarray
    P0: np.ndarray


pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def complete():
    rng = np.random.default_rng(0)
    truth, z = np.empty((T, 3, B)), np.empty((T, 2, B))
    x0 = np.array([-8.0, -6.0, 25.0])[:, None] + rng.normal(size=(3, B))
    for i in range(B):
        x = x0[:, i] + rng.normal(0.0, 0.5, 3)
        for k in range(T):
            x = reference.LORENZ.f(x, 0.01)[0] + rng.normal(0.0, 0.1, 3)
            outlier = np.where(rng.random(2) < 0.1, 5.0, 1.0)
            truth[k, :, i], z[k, :, i] = x, x[[0, 2]] + outlier * rng.normal(0.0, np.sqrt(R0))
    P0 = np.repeat(0.5 * np.eye(3)[:, :, None], B, axis=2)
    return Records(truth, z, np.ones((T, 2, B), bool), x0, P0)


@pytest.fixture(scope="module")
def gappy(complete):
    """Either channel may be missing; in one record both are, for three steps."""
    arrived = np.random.default_rng(1).random((T, 2, B)) < 0.7
    arrived[5:8, :, 0] = False
    return complete._replace(z=np.where(arrived, complete.z, 0.0), arrived=arrived)


@pytest.fixture(scope="module")
def policy(float64):
    return sw.Policy(sw.Architecture(3, 2, depth=2), key=jax.random.key(0))


def x_and_trace(step, extra):
    return step.x, step.trace


@partial(jax.jit, static_argnames="gain_noise")
@jax.value_and_grad
def training_loss(policy, records, gain_noise):
    """Squared error of the state, plus a tenth of that of the reconstructed features."""
    filt = sw.NDRSageHusa(sw.models.Lorenz(), Q0, R0, policy=policy, gain_noise=gain_noise)
    state = filt.init(records.x0, records.P0)
    dt = jnp.full(T, 0.01)
    _, (x, trace) = scan(filt, state, records.z, None, dt, records.arrived, x_and_trace)
    y, y_hat = trace.y, policy.reconstruct(trace.c)
    return jnp.mean((x - records.truth) ** 2) + 0.1 * jnp.mean((y - y_hat) ** 2)


@jax.jit
@jax.value_and_grad
def ekf_loss(parameters, records):
    """Squared error and likelihood, by shifts of x0 and P0's diagonal and by scales of Q and R."""
    x0, P0, q_scale, r_scale = jnp.split(parameters, [3, 6, 7])
    Q0 = jnp.array([[0.01, 0.004, 0.0], [0.004, 0.01, -0.003], [0.0, -0.003, 0.01]])
    R0 = jnp.array([[1.0, 0.5], [0.5, 2.0]])
    filt = sw.EKF(sw.models.Lorenz(), q_scale * Q0, r_scale * R0)
    state = filt.init(records.x0 + x0[:, None], records.P0 + jnp.diag(P0)[:, :, None])
    dt = jnp.full(T, 0.01)
    _, estimates = scan(filt, state, records.z, None, dt, records.arrived)
    return jnp.mean((estimates.x - records.truth) ** 2) - 0.1 * jnp.mean(estimates.loglik)


def assert_slopes(loss_and_gradient, at, directions, step=1e-5):
    """Along each direction the gradient is what central differences of the loss say."""
    vector, unravel = ravel_pytree(at)
    gradient, _ = ravel_pytree(loss_and_gradient(at)[1])
    for direction in directions:
        ahead, _ = loss_and_gradient(unravel(vector + step * direction))
        behind, _ = loss_and_gradient(unravel(vector - step * direction))
        np.testing.assert_allclose(gradient @ direction, (ahead - behind) / (2.0 * step), rtol=1e-5)


def random_directions(size):
    directions = np.random.default_rng(0).normal(size=(5, size))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


# Through the filters


@pytest.mark.parametrize("gain_noise", ["prior", "posterior"])
@pytest.mark.parametrize("records", ["complete", "gappy"])
def test_the_training_gradient_is_the_slope_of_the_loss(records, gain_noise, policy, request):
    records = request.getfixturevalue(records)

    def loss_and_gradient(policy):
        return training_loss(policy, records, gain_noise)

    # Of every array of weights, the single one that matters most.
    gradient = jax.tree.leaves(loss_and_gradient(policy)[1])
    sizes = np.array([array.size for array in gradient])
    singles = np.cumsum(sizes) - sizes + [int(np.argmax(np.abs(array))) for array in gradient]
    directions = [*random_directions(sizes.sum()), *(np.arange(sizes.sum()) == singles[:, None])]
    assert_slopes(loss_and_gradient, policy, directions)


def test_what_stands_in_for_a_missing_measurement_does_not_touch_the_gradient(gappy, policy):
    expected, _ = ravel_pytree(training_loss(policy, gappy, "prior")[1])
    assert np.all(np.isfinite(expected))
    for stand_in in (1e6, np.nan):
        records = gappy._replace(z=np.where(gappy.arrived, gappy.z, stand_in))
        gradient, _ = ravel_pytree(training_loss(policy, records, "prior")[1])
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("gain_noise", ["prior", "posterior"])
@pytest.mark.parametrize("wild", [1e60, 1e76, 1e79, 1e160, 1e308])
def test_a_record_that_overflows_leaves_the_gradient_a_number(wild, gain_noise, complete, policy):
    z = complete.z.copy()
    z[5, 1, 0] = wild
    gradient, _ = ravel_pytree(training_loss(policy, complete._replace(z=z), gain_noise)[1])
    assert np.all(np.isfinite(gradient))


class Faint(sw.Model):
    """A state that is hardly seen."""

    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return 1e-80 * x


def test_a_correction_whose_square_overflows_leaves_the_gradient_a_number():
    given = (jnp.array([1e76]), None, jnp.asarray(1.0), jnp.array([True]))

    @jax.grad
    def gradient(policy):
        filt = sw.NDRSageHusa(Faint(), [1.0], [1.0], policy)
        said = filt.step(filt.init(jnp.zeros(1), jnp.full((1, 1), 1e200)), *given)[1]
        return jnp.sum(jnp.log(said.q))

    found = gradient(sw.Policy(sw.Architecture(1, 1, depth=1), key=jax.random.key(0)))
    assert np.all(np.isfinite(ravel_pytree(found)[0]))


@pytest.mark.parametrize("records", ["complete", "gappy"])
def test_the_gradient_of_the_ekf_by_its_start_and_its_noise_is_the_slope_of_the_loss(
    records, request
):
    records = request.getfixturevalue(records)
    parameters = jnp.array([0.1, -0.2, 0.3, 0.1, 0.2, 0.3, 1.5, 0.7])
    directions = [*random_directions(8), *np.eye(8)]
    assert_slopes(lambda p: ekf_loss(p, records), parameters, directions)


# The kernels with a derivative written by hand

check = partial(check_grads, order=1, modes=["rev"])
BATCHES = pytest.mark.parametrize("batch", [(), (4,)], ids=["one", "batch"])


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng([seed, *shape]).normal(size=shape))


def covariance(n, *batch, seed=0):
    """A random symmetric positive definite matrix, well conditioned."""
    A = normal(n, n, *batch, seed=seed)
    return jnp.einsum("ij...,kj...->ik...", A, A) / n + jnp.eye(n).reshape(n, n, *[1] * len(batch))


def lower(A):
    """The lower triangle, with a diagonal away from zero."""
    n = A.shape[0]
    shape = (n, n, *[1] * (A.ndim - 2))
    below, eye = jnp.tril(jnp.ones((n, n)), -1).reshape(shape), jnp.eye(n).reshape(shape)
    return A * below + (2.0 + jnp.abs(A)) * eye


@BATCHES
@pytest.mark.parametrize("inner", [3, 6, 30])
def test_derivative_of_matmul(inner, batch):
    check(jax.jit(kernels.matmul), (normal(2, inner, *batch), normal(inner, 4, *batch)))


@BATCHES
def test_derivative_of_diagonal(batch):
    check(jax.jit(kernels.diagonal), (normal(4, 4, *batch),))


@BATCHES
def test_derivative_of_diagonal_matrix(batch):
    check(jax.jit(kernels.diagonal_matrix), (normal(4, *batch),))


@BATCHES
@pytest.mark.parametrize(("first", "own"), [(0, 2), (2, 2), (3, 2), (0, 5)])
def test_project_is_a_product_and_has_its_derivative(first, own, batch):
    E = np.zeros((5, 5, *batch))
    E[range(5), range(5)] = 1.0
    N, P = normal(own, own, *batch), kernels.symmetric(covariance(5, *batch))
    E[first : first + own, first : first + own] = N
    made = jax.jit(kernels.project, static_argnums=2)(N, P, first)
    expected = np.einsum("ij...,jk...,lk...->il...", E, P, E)
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(made, np.swapaxes(made, 0, 1))
    check(jax.jit(lambda N, P: kernels.project(N, kernels.symmetric(P), first)), (N, P))


@BATCHES
@pytest.mark.parametrize(("n_x", "constants"), [(3, 0), (7, 0), (7, 2), (5, 4)])
def test_derivative_of_propagate_at_a_symmetric_P(n_x, constants, batch):
    moving = n_x - constants

    def propagate(F, P):
        still = jnp.broadcast_to(jnp.eye(n_x).reshape(n_x, n_x, *[1] * len(batch)), P.shape)
        F = jnp.concatenate([F, still[moving:]])
        P = kernels.symmetric(P)
        return kernels.propagate(F, P, constants)

    check(jax.jit(propagate), (normal(moving, n_x, *batch), covariance(n_x, *batch)))


@pytest.mark.parametrize("constants", [0, 2, 6])
def test_propagate_is_the_product_also_with_constants(constants):
    F, P = normal(7, 7), covariance(7)
    F = jnp.concatenate([F[: 7 - constants], jnp.eye(7)[7 - constants :]])
    np.testing.assert_allclose(kernels.propagate(F, P, constants), F @ P @ F.T, rtol=1e-10)


@BATCHES
@pytest.mark.parametrize(("n_x", "n_z"), [(3, 1), (2, 3), (5, 2), (6, 5), (26, 25)])
def test_derivative_of_gain_at_symmetric_P_and_R(n_x, n_z, batch):
    # check_grads weighs the entries of all outputs at random, those of P not symmetrically.
    def made(P, H, R):
        return gain(kernels.symmetric(P), H, kernels.symmetric(R))[:4]

    P, R = covariance(n_x, *batch), covariance(n_z, *batch, seed=1)
    check(jax.jit(made), (P, normal(n_z, n_x, *batch), R))


@BATCHES
@pytest.mark.parametrize("n_z", [1, 3, 6, 30])
def test_derivative_of_whiten_by_a_lower_triangle(n_z, batch):
    def whiten(L, nu):
        return kernels.whiten(lower(L), nu)

    check(jax.jit(whiten), (normal(n_z, n_z, *batch), normal(n_z, *batch)))


@BATCHES
def test_derivative_of_hold_is_the_identity(batch):
    values = {"a": normal(3, *batch), "b": (normal(2, 2, *batch),)}
    check(jax.jit(guards.prevent_fusion), (values,))
    bar = jax.tree.map(lambda a: a + 1.0, values)
    (back,) = jax.vjp(guards.prevent_fusion, values)[1](bar)
    jax.tree.map(np.testing.assert_array_equal, back, bar)
