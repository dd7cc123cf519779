"""States on manifolds: their laws, and that no filter depends on the chart or the sign."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Reference

import sagewing as sw
from sagewing.filters.equations import correct
from sagewing.models.manifolds import Angle, Direction, Product, Rotation, Vector
from sagewing.models.rotations import (
    from_rotation_vector,
    product,
    rotation_matrix,
    rotation_vector,
)

pytestmark = pytest.mark.usefixtures("float64")
SPACES = {
    "vector": Vector(3),
    "angle": Angle(),
    "direction": Direction(),
    "rotation": Rotation(),
    "product": Product(Vector(2), Rotation(), Angle(), Direction(), Vector(1)),
}
DT = 0.1


def point(space, rng):
    """A random point of a space: any error from any start that is in it."""
    dx = jnp.asarray(rng.uniform(-1.5, 1.5, size=space.n_dx))
    return space.plus(space.origin, dx)


@pytest.mark.parametrize("name", SPACES)
def test_plus_and_minus_obey_their_laws(name):
    space, rng = SPACES[name], np.random.default_rng(0)
    none = jnp.zeros(space.n_dx)
    for _ in range(20):
        a, b = point(space, rng), point(space, rng)
        dx = jnp.asarray(rng.uniform(-1.5, 1.5, size=space.n_dx))
        np.testing.assert_allclose(space.plus(a, none), a, atol=1e-14)
        np.testing.assert_allclose(space.minus(a, a), none, atol=1e-14)
        np.testing.assert_allclose(space.minus(space.plus(a, dx), a), dx, atol=1e-12)
        reached = space.plus(a, space.minus(b, a))
        np.testing.assert_allclose(space.minus(reached, b), none, atol=1e-12)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-3, 0.99e-3, 1.01e-3, 0.3])
def test_their_derivatives_are_numbers_and_those_of_differences(name, size):
    """Also at zero, where norms have none, and on both sides of where series end."""
    space, rng = SPACES[name], np.random.default_rng(1)
    a = point(space, rng)
    dx = rng.normal(size=space.n_dx)
    dx = jnp.asarray(size * dx / np.linalg.norm(dx))

    def there_and_back(dx):
        return space.minus(space.plus(a, dx), a)

    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(there_and_back)(dx), np.eye(space.n_dx), atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-3, 0.099, 0.101, 1.0, 3.0])
def test_the_change_of_errors_in_closed_form_is_the_derivative(size):
    rng, some = np.random.default_rng(7), Product(Vector(2), Rotation(), Angle(), Rotation())
    x, dx = point(some, rng), rng.normal(size=some.n_dx)
    dx = jnp.asarray(size * dx / np.linalg.norm(dx[2:5]))
    reached = some.plus(x, dx)
    by_jax = jax.jacfwd(lambda e: some.minus(some.plus(x, dx + e), reached))(jnp.zeros(some.n_dx))
    np.testing.assert_allclose(some.plus_jacobian(x, dx), by_jax[2:, 2:], atol=1e-12)
    assert SPACES["product"].plus_jacobian(point(SPACES["product"], rng), jnp.zeros(9)) is None


def test_rotations_are_those_of_scipy():
    rng = np.random.default_rng(2)
    for _ in range(20):
        v, w = rng.normal(size=(2, 3))
        q = from_rotation_vector(jnp.asarray(v))
        ours = rotation_matrix(product(q, from_rotation_vector(jnp.asarray(w))))
        theirs = (Reference.from_rotvec(v) * Reference.from_rotvec(w)).as_matrix()
        np.testing.assert_allclose(ours, theirs, atol=1e-14)
        np.testing.assert_allclose(rotation_vector(q), Reference.from_rotvec(v).as_rotvec())
        np.testing.assert_allclose(rotation_vector(-q), rotation_vector(q))


def test_the_curved_errors_of_a_product_are_found():
    assert SPACES["product"].curved == slice(2, 8)
    assert Product(Vector(3), Angle()).curved == slice(0, 0)
    assert Product(Rotation(), Vector(2)).curved == slice(0, 3)


class Tumbling(sw.ManifoldModel):
    """A body turned by a gyroscope; two directions are measured, and the attitude itself."""

    space = Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, u * dt)

    def observe(self, x, u):
        R = rotation_matrix(x)
        return jnp.concatenate([R[2], R[0], rotation_vector(x)])

    def innovation(self, z, z_hat):
        turned = self.space.minus(from_rotation_vector(z[6:]), from_rotation_vector(z_hat[6:]))
        return jnp.concatenate([z[:6] - z_hat[:6], turned])


class Precession(sw.ManifoldModel):
    """A direction that precesses; two of its three coordinates are measured."""

    space = Product(Direction(), Vector(1))

    def transition(self, x, u, dt):
        axis = jnp.stack([0.2 * jnp.ones_like(x[3]), jnp.zeros_like(x[3]), x[3]])
        q = from_rotation_vector(axis * dt)
        return jnp.append(rotation_matrix(q) @ x[:3], x[3])

    def observe(self, x, u):
        return x[:2]


def noise(rng):
    return jnp.asarray(0.02 * rng.normal(size=3))


def tumbling_record(steps=80):
    rng = np.random.default_rng(3)
    u = np.array([0.9, -1.4, 2.2]) + 0.3 * rng.normal(size=(steps, 3))
    x, z = jnp.asarray([1.0, 0.0, 0.0, 0.0]), []
    model = Tumbling()
    for k in range(steps):
        x = model.plus(model.transition(x, jnp.asarray(u[k]), DT), noise(rng))
        z.append(model.observe(x, None))
    std = np.repeat([0.05, 0.05, 0.1], 3)
    z = np.array(z) + std * rng.normal(size=(steps, 9))
    z[rng.random(z.shape) < 0.1] = np.nan
    return z, u, np.asarray(x), std**2


def filters(model, Q0, R0):
    return {
        "ekf": sw.EKF(model, Q0, R0),
        "gated": sw.EKF(model, Q0, R0, gate=3.0),
        "sage-husa": sw.SageHusa(model, Q0, R0, b=0.95),
        "vbakf": sw.VBAKF(model, Q0, R0),
        "universal": sw.NDRSageHusa(model, Q0, R0, sw.Policy.pretrained("universal")),
    }


@pytest.mark.parametrize("name", ["ekf", "sage-husa", "vbakf", "universal"])
def test_a_filter_on_rotations_keeps_track_and_knows_no_sign(name):
    z, u, truth, r = tumbling_record()
    filt = filters(Tumbling(), np.full(3, 4e-4), r)[name]
    start = np.asarray(from_rotation_vector(jnp.array([0.3, -0.2, 0.4])))
    made = sw.run(filt, start, 0.2 * np.eye(3), z, u, dt=DT)
    other = sw.run(filt, -start, 0.2 * np.eye(3), z, u, dt=DT)
    assert bool(np.all(made.ok))
    assert made.P.shape == (80, 3, 3)
    error = Rotation().minus(jnp.asarray(truth), made.x[-1])
    assert np.linalg.norm(error) < 0.1
    np.testing.assert_allclose(np.linalg.norm(made.x, axis=1), 1.0, atol=1e-12)
    for ours, theirs in ((other.x, -made.x), (other.P, made.P), (other.q, made.q)):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


class Turned(sw.ManifoldModel):
    """Another model, whose states are written from a frame outside that is turned by `q`."""

    model: sw.ManifoldModel
    q: tuple[float, float, float, float]

    @property
    def space(self):
        return self.model.space

    def written(self, x, sign=1.0):
        q = jnp.array(self.q) * jnp.array([1.0, sign, sign, sign])
        if isinstance(self.space, Rotation):
            return product(q, x)
        return jnp.append(rotation_matrix(q) @ x[:3], x[3:])

    def transition(self, x, u, dt):
        return self.written(self.model.transition(self.written(x, -1.0), u, dt))

    def observe(self, x, u):
        return self.model.observe(self.written(x, -1.0), u)

    def innovation(self, z, z_hat):
        return self.model.innovation(z, z_hat)


QUARTER = (0.5, -0.5, 0.5, 0.5)  # the axes change places


def precession_record(steps=80):
    rng = np.random.default_rng(4)
    model, x, z = Precession(), jnp.asarray([0.6, 0.0, 0.8, 2.0]), []
    for _ in range(steps):
        x = model.plus(model.transition(x, None, DT), noise(rng))
        z.append(model.observe(x, None) + 0.1 * rng.normal(size=2))
    return np.array(z)


@pytest.mark.parametrize("name", ["ekf", "sage-husa"])
def test_the_frame_in_which_an_attitude_is_written_makes_no_difference(name):
    z, u, _, r = tumbling_record()
    turned = Turned(Tumbling(), QUARTER)
    start = jnp.array([1.0, 0.0, 0.0, 0.0])
    made, other = (
        sw.run(filters(model, np.full(3, 4e-4), r)[name], x0, 0.2 * np.eye(3), z, u, dt=DT)
        for model, x0 in ((turned.model, start), (turned, turned.written(start)))
    )
    np.testing.assert_allclose(other.x, jax.vmap(turned.written)(made.x), atol=1e-10)
    np.testing.assert_allclose(other.P, made.P, atol=1e-10)


@pytest.mark.parametrize("name", ["ekf", "universal"])
def test_the_frame_in_which_a_direction_is_written_makes_no_difference(name):
    """Its errors lie along other axes there, so that their covariances are compared in space."""
    z = precession_record()
    turned = Turned(Precession(), QUARTER)
    start = jnp.asarray([0.8, 0.0, 0.6, 1.5])
    made, other = (
        sw.run(filters(model, np.full(3, 4e-4), [0.01] * 2)[name], x0, 0.2 * np.eye(3), z, dt=DT)
        for model, x0 in ((turned.model, start), (turned, turned.written(start)))
    )
    assert np.all(np.isfinite(made.x))
    atol = 1e-9 if name == "ekf" else 1e-3  # the policy adapts q along either pair of axes
    np.testing.assert_allclose(other.x, jax.vmap(turned.written)(made.x), atol=atol)

    def in_space(x, P):
        E = jax.jacfwd(lambda dx: turned.plus(x, dx)[:3])(jnp.zeros(3))
        return E @ P @ E.T

    if name == "ekf":
        R = np.asarray(rotation_matrix(jnp.array(QUARTER)))
        expected = R @ jax.vmap(in_space)(made.x, made.P) @ R.T
        np.testing.assert_allclose(jax.vmap(in_space)(other.x, other.P), expected, atol=1e-9)


class Hand(sw.ManifoldModel):
    """The hand of a clock and its speed; the hand's end is measured."""

    space = Product(Angle(), Vector(1))

    def transition(self, x, u, dt):
        return self.space.plus(x, jnp.stack([dt * x[1], 0.0 * x[1]]))

    def observe(self, x, u):
        return jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])])


def test_full_turns_make_no_difference_on_a_circle():
    t = DT * np.arange(100)
    z = np.stack([np.cos(2.0 * t), np.sin(2.0 * t)], axis=1)
    z += 0.05 * np.random.default_rng(5).normal(size=z.shape)
    filt = sw.SageHusa(Hand(), [1e-4, 1e-3], [0.0025] * 2, b=0.95)
    made, other = (sw.run(filt, [x, 1.0], np.eye(2), z, dt=DT) for x in (0.1, 0.1 + 4.0 * np.pi))
    np.testing.assert_allclose(other.x, made.x, atol=1e-9)
    assert np.max(np.abs(made.x[:, 0])) <= np.pi
    np.testing.assert_allclose(
        Angle().minus(made.x[-1, :1], jnp.array(2.0 * t[-1:])), 0.0, atol=0.1
    )


def test_P_is_carried_to_the_new_estimate():
    """After a large correction of a rotation, against errors drawn around the prediction."""
    rng, model = np.random.default_rng(6), Tumbling()
    q = jnp.asarray([1.0, 0.0, 0.0, 0.0])
    P = np.diag([0.04, 0.01, 0.02]) ** 2
    dx = jnp.array([0.9, -0.6, 0.5])
    x, carried, _ = correct(model, q, jnp.asarray(P), dx, jnp.asarray(P))
    errors = jnp.asarray(rng.multivariate_normal(np.zeros(3), P, size=100_000))
    drawn = jax.vmap(lambda e: model.minus(model.plus(q, dx + e), x))(errors)
    sigma = np.sqrt(np.diag(carried))
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(sigma, sigma), carried / np.outer(sigma, sigma), atol=0.02
    )
    assert np.max(np.abs(carried - P)) > 0.1 * np.max(P)


@pytest.mark.parametrize("name", ["ekf", "sage-husa"])
def test_batch_online_and_C_give_the_numbers_of_one_run(name):
    z, u, _, r = tumbling_record(40)
    filt = filters(Tumbling(), np.full(3, 4e-4), r)[name]
    start = np.array([1.0, 0.0, 0.0, 0.0]), 0.1 * np.eye(3)
    one = sw.run(filt, *start, z, u, dt=DT)
    batch = sw.run(filt, *start, np.stack([z, z]), u, dt=DT)
    np.testing.assert_allclose(batch.x[1], one.x, atol=1e-12)
    online = sw.Online(filt, *start, backend="c")
    for k in range(len(z)):
        x, P = online.step(z[k], u[k], DT)
        np.testing.assert_allclose(x, one.x[k], atol=1e-10)
        np.testing.assert_allclose(P, one.P[k], atol=1e-10)


class Half(sw.Model):
    """A model that has only some of what a manifold needs."""

    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return x[:1]


class OnlyPlus(Half):
    def plus(self, x, dx):
        return x + dx


class OnlyMinus(Half):
    def minus(self, a, b):
        return a - b


class OnlySize(Half):
    n_x = 4


class TooMany(OnlyPlus):
    n_x = 4

    def minus(self, a, b):
        return a - b


class Narrow(sw.ManifoldModel):
    """Two errors for three entries, of which `minus` may forget one."""

    space = Direction()
    forgets: bool = False

    def transition(self, x, u, dt):
        return x

    def observe(self, x, u):
        return x[:1]

    def minus(self, a, b):
        dx = self.space.minus(a, b)
        return dx[:1] if self.forgets else dx


@pytest.mark.parametrize(
    ("model", "Q0", "P0", "words"),
    [
        (Narrow(), [0.1] * 3, np.eye(3), ["Narrow.plus", "Narrow.n_x is 3", "n_dx = 3"]),
        (Narrow(), [0.1] * 2, np.eye(3), ["P0", "(2, 2)", "(3, 3)"]),
        (Narrow(forgets=True), [0.1] * 2, np.eye(2), ["Narrow.minus", "(2,)", "n_dx = 2", "(1,)"]),
    ],
)
def test_sizes_that_do_not_fit_the_errors_are_a_sentence(model, Q0, P0, words, as_a_user_runs_it):
    filt, x0, z = sw.EKF(model, Q0, [0.1]), [1.0, 0.0, 0.0], np.zeros((2, 1))
    for backend in ("jax", "c"):
        with pytest.raises(sw.InputError) as error:
            sw.run(filt, x0, P0, z, dt=DT, backend=backend)
        for word in words:
            assert word in str(error.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (OnlyPlus(), ["OnlyPlus", "plus", "minus"]),
        (OnlyMinus(), ["OnlyMinus", "plus", "minus"]),
        (OnlySize(), ["OnlySize", "n_x", "plus"]),
        (TooMany(), ["TooMany.plus", "(4,)", "(3,)"]),
    ],
)
def test_a_manifold_that_is_not_complete_is_a_sentence(model, words):
    filt = sw.EKF(model, [0.1] * 3, [0.1])
    with pytest.raises(sw.InputError) as error:
        sw.run(filt, np.zeros(filt.n_x), np.eye(3), np.zeros((2, 1)), dt=DT)
    for word in words:
        assert word in str(error.value)


def test_so_is_one_that_another_model_is_built_on():
    drifting = sw.models.with_drift(OnlyPlus(), channels=[0], std=1.0, time_constant=5.0)
    filt = sw.EKF(drifting, [0.1] * 3, [0.1])
    with pytest.raises(sw.InputError, match="OnlyPlus has only some of plus, minus"):
        sw.run(filt, np.zeros(3), np.eye(3), np.zeros((2, 1)), dt=DT)


def test_networks_that_take_states_refuse_a_manifold():
    network = sw.Network("kalmannet", 3, 9, 8, key=jax.random.key(0))
    with pytest.raises(sw.InputError, match="KalmanNet takes states that are vectors"):
        sw.KalmanNet(Tumbling(), [0.1] * 3, [0.1] * 9, network)
