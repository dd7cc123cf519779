"""Whole records on C: the numbers of JAX, whatever the batch shares and whatever is missing."""

import jax
import numpy as np
import pytest

import sagewing as sw

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

X0, P0 = np.array([-8.0, -6.0, 25.0]), 0.1 * np.eye(3)
RNG = np.random.default_rng(5)
B, T = 5, 40


class Cart(sw.Model):
    def transition(self, x, u, dt):
        return x + dt * np.array([[0.0, 1.0], [0.0, 0.0]]) @ x + dt * u

    def observe(self, x, u):
        return x[:1]


def lorenz():
    policy = sw.Policy(sw.Architecture(3, 2), key=jax.random.key(0))
    return sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0], policy)


def same(a, b):
    for name in sw.Estimate._fields:
        close = dict(rtol=2e-4, atol=2e-4, err_msg=name)
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), **close)
    for x, y in zip(jax.tree.leaves(a.state), jax.tree.leaves(b.state), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("batch", [(), (B,)])
def test_C_gives_the_numbers_of_JAX(batch):
    z = X0[[0, 2]] + RNG.normal(size=(*batch, T, 2))
    z[..., 3, 0] = np.nan
    mask = RNG.random((*batch, T)) > 0.2
    x0 = X0 + RNG.normal(size=(*batch, 3))
    dt = np.full((*batch, T), 0.01) + 0.001 * RNG.random((*batch, T))
    by_jax, by_c = (sw.run(lorenz(), x0, P0, z, dt=dt, mask=mask, backend=b) for b in ("jax", "c"))
    same(by_jax, by_c)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dt", [0.01, np.full(T, 0.02)])
def test_inputs_and_durations_may_be_shared(shared, dt):
    u = RNG.normal(size=(T, 2) if shared else (B, T, 2))
    z = RNG.normal(size=(B, T, 1))
    filt = sw.SageHusa(Cart(), [0.01] * 2, [1.0])
    by_jax, by_c = (
        sw.run(filt, np.zeros(2), np.eye(2), z, u=u, dt=dt, backend=b) for b in ("jax", "c")
    )
    same(by_jax, by_c)


def test_a_record_in_pieces_on_either_backend_is_the_whole():
    z = X0[[0, 2]] + RNG.normal(size=(B, T, 2))
    filt = lorenz()
    whole = sw.run(filt, X0, P0, z)
    first = sw.run(filt, X0, P0, z[:, :15], backend="c")
    rest = sw.run_from(filt, first.state, z[:, 15:])
    np.testing.assert_allclose(whole.x[:, 15:], rest.x, rtol=1e-3, atol=1e-3)
    begun = sw.run(filt, X0, P0, z[:, :15])
    ended = sw.run_from(filt, begun.state, z[:, 15:], backend="c")
    np.testing.assert_allclose(whole.x[:, 15:], ended.x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "filt", [lorenz, lambda: sw.VBAKF(sw.models.Rossler(), [0.01] * 3, [1, 2])]
)
def test_no_number_brings_many_records_down(filt):
    odd = [np.nan, np.inf, -np.inf, 0.0, 1e-42, -1e-38, 1e30, -1e30, 1e19, 3e38]
    usual = RNG.normal(size=(37, 400, 2))
    z = np.where(RNG.random(usual.shape) < 0.5, RNG.choice(odd, size=usual.shape), usual)
    result = sw.run(filt(), X0, P0, z, backend="c")
    for a in jax.tree.leaves(result):
        assert np.all(np.isfinite(a))


def test_every_record_is_a_lane_of_its_own():
    z = X0[[0, 2]] + RNG.normal(size=(53, T, 2))
    filt = sw.EKF(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0])
    all_of_them = sw.run(filt, X0, P0, z, backend="c")
    for i in (0, 15, 16, 52):
        alone = sw.run(filt, X0, P0, z[i], backend="c")
        np.testing.assert_allclose(all_of_them.x[i], alone.x, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(all_of_them.loglik[i], alone.loglik, rtol=1e-4, atol=1e-4)


def test_what_C_cannot_do_is_said():
    z = np.zeros((T, 2))
    with pytest.raises(sw.InputError, match='backend must be "jax", "c" or "auto"'):
        sw.run(lorenz(), X0, P0, z, backend="fortran")
    with pytest.raises(sw.InputError, match="no transformation of JAX"):
        jax.grad(lambda z: sw.run(lorenz(), X0, P0, z, backend="c").x.sum())(z)


@pytest.mark.parametrize("batch", [(), (2,), (B,)])
def test_an_empty_record_has_no_estimates_and_leaves_the_state(batch):
    z = np.zeros((*batch, 0, 2))
    by_jax, by_c = (sw.run(lorenz(), X0, P0, z, backend=b) for b in ("jax", "c"))
    assert by_c.x.shape == (*batch, 0, 3)
    same(by_jax, by_c)
