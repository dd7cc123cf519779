"""A policy that carries the nominal noise it was trained with, and noise with a row a mode."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.train import state_loss

Q0, R0 = [0.1, 0.2, 0.3], [1.0, 2.0]


def policy(nominal=None):
    return sw.Policy(sw.Architecture(3, 2), nominal=nominal, key=jax.random.key(0))


def test_its_noise_travels_with_it_and_is_the_default(tmp_path):
    policy(sw.Noise(Q0, R0)).save(tmp_path / "p")
    again = sw.Policy.load(tmp_path / "p")
    filt = sw.NDRSageHusa(sw.models.Lorenz(), None, None, again)
    np.testing.assert_allclose(filt.q0, Q0, rtol=1e-6)
    np.testing.assert_allclose(filt.r0, R0, rtol=1e-6)
    other = sw.NDRSageHusa(sw.models.Lorenz(), None, [5.0, 5.0], again)
    np.testing.assert_allclose(other.q0, Q0, rtol=1e-6)
    np.testing.assert_allclose(other.r0, 5.0)


def test_a_policy_without_noise_asks_for_it(tmp_path):
    policy().save(tmp_path / "p")
    again = sw.Policy.load(tmp_path / "p")
    assert again.nominal is None
    with pytest.raises(sw.InputError, match="give Q0 and R0"):
        sw.NDRSageHusa(sw.models.Lorenz(), None, R0, again)


def test_noise_with_a_row_for_each_mode_is_read_as_it_was_written(tmp_path):
    rows = [[1.0, 2.0], [3.0, 4.0]]
    sw.Noise(Q0, rows).save(tmp_path / "n")
    np.testing.assert_allclose(sw.Noise.load(tmp_path / "n").r, rows, rtol=1e-6)


def test_gradients_reach_the_nominal_noise():
    z = jax.random.normal(jax.random.key(0), (2, 5, 2)) + 1.0
    truth = jnp.ones((2, 5, 3))

    def loss(p):
        filt = sw.NDRSageHusa(sw.models.Lorenz(), None, None, p)
        return state_loss(filt, jnp.ones((2, 3)), jnp.eye(3), z, truth, 0.01)

    slope = eqx.filter_grad(loss)(policy(sw.Noise(Q0, R0)))
    assert np.all(np.asarray(slope.nominal.log_r) != 0.0)
