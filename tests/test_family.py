"""The random family that the universal policy is trained on, and what counts in its training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.problems.family import draw as family
from sagewing.problems.family.model import BEARING, FamilyModel, unpack
from sagewing.train.universal import Errors, Running, in_loss

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def drawn(float64):
    """Systems of the family; of half of those in which something is wrong, the model is, too."""
    keys = jax.random.split(jax.random.key(0), 300)
    return jax.jit(lambda keys: family.draw(keys, 0.5))(keys)


@pytest.fixture(scope="module")
def derivatives(drawn):
    """Their F and H, and the same taken by JAX."""
    model = FamilyModel()

    def both(x, u):
        closed = model.transition_jacobian(x, u, 1.0), model.observe_jacobian(x, u)
        derived = jax.jacfwd(model.transition)(x, u, 1.0), jax.jacfwd(model.observe)(x, u)
        return closed, derived

    made = jax.jit(jax.vmap(both, in_axes=-1, out_axes=-1))(drawn.start, drawn.u)
    return jax.tree.map(np.asarray, made)


def test_what_is_padded_in_the_family_touches_nothing(drawn, derivatives):
    F, H = derivatives[0]
    states, channels = np.asarray(drawn.states), np.asarray(drawn.channels)
    assert np.all(F[states[:, None] & ~states[None]] == 0.0)
    assert np.all(H[:, ~states] == 0.0)
    assert np.all(H.swapaxes(1, 2)[~channels] == 0.0)
    assert set(states.sum(axis=0)) == {2, 3, 4, 5}
    assert set(channels.sum(axis=0)) == {1, 2, 3}
    moved = jax.jit(family.step)(drawn, drawn.start, jnp.asarray(0), jax.random.key(1))
    assert not np.any(np.asarray(moved.arrived) & ~channels)
    assert np.all(np.asarray(moved.x)[~states] == 0.0)


def test_the_familys_derivatives_are_those_of_its_functions(derivatives):
    for closed, derived in zip(*derivatives, strict=True):
        apart = np.abs(closed - derived) / (1.0 + np.max(np.abs(closed), axis=(0, 1)))
        assert np.max(apart) < 1e-9


def test_where_its_model_is_wrong_a_filter_is_not_told_so(drawn):
    wrong = np.asarray(drawn.truth.wrong)
    told, true = np.asarray(drawn.u), np.asarray(drawn.truth.u)
    off = np.any(np.abs(told - true) > 1e-14 * np.abs(true), axis=0)  # beyond rounding
    pushed = np.any(np.asarray(drawn.truth.force) != 0.0, axis=0)
    assert 0.3 < wrong.mean() < 0.5  # of those in which something is
    assert not np.any((off | pushed) & ~wrong)
    assert np.mean((off | pushed)[wrong]) > 0.9
    assert not np.any(wrong & np.asarray(drawn.nominal_noise))


def test_what_counts_in_training(drawn):
    some = jax.tree.map(lambda a: a[..., :5], drawn)
    wrong = jnp.array([False, False, False, False, True])
    some = some._replace(truth=some.truth._replace(wrong=wrong))
    at = jnp.zeros((some.start.shape[0], 5)).at[0, 3].set(family.RUNAWAY)
    ekf = jnp.array([2.0, 1.0, 90.0, 2.0, 90.0])
    oracle = jnp.array([1.0, 90.0, 80.0, 1.0, 80.0])
    found = in_loss(some, Running(at, None, None, None), Errors(ekf, ekf, oracle, ekf))
    # As ever; the oracle alone is lost; all are; the truth has run away; the model was wrong
    np.testing.assert_array_equal(found, [True, True, False, False, True])


def test_a_bearing_wraps(drawn):
    model = FamilyModel()
    z = jax.jit(jax.vmap(model.observe, in_axes=-1, out_axes=-1))(drawn.start, drawn.u)
    turn = 2.0 * np.pi * jax.vmap(lambda u: unpack(u).wave, in_axes=-1, out_axes=-1)(drawn.u)
    form = np.asarray(jax.vmap(lambda u: unpack(u).form, in_axes=-1, out_axes=-1)(drawn.u))
    nu = jax.vmap(model.residual, in_axes=-1, out_axes=-1)(z + 1.01 * turn, z, drawn.u)
    bearing = (form == BEARING) & np.asarray(drawn.channels)
    assert bearing.sum() > 20
    np.testing.assert_allclose(nu[bearing], 0.01 * turn[bearing], rtol=1e-6)
    others = form != BEARING
    assert np.all(np.asarray(nu)[others] > np.asarray(turn)[others])
