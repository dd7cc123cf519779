"""What a bad sensor does to a filter: nothing that is not a number, and nothing for long."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.filters import Attenuation, Frozen

STEPS = 4_000
OUTPUTS = ("x", "P", "q", "r", "d", "nis", "loglik")
# Far off, so far that the square of its square overflows, and so far that any sum with it does.
OUTLIERS = (1e9, 1e12, 3e38)

MODELS = {
    "lorenz": (sw.models.Lorenz(), [-8.0, -6.0, 25.0], [0.01] * 3, [1.0, 2.0]),
    "rossler": (sw.models.Rossler(), [-5.0, -5.0, 0.1], [0.01] * 3, [1.0, 0.1]),
    "constant velocity": (sw.models.ConstantVelocity(), [0.0] * 4, [1e-3] * 4, [1.0, 1.0]),
}


@cache
def policy(n_x):
    sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
    arch = sw.Architecture(n_x, 2, depth=2, hidden=4, **sizes)
    return sw.Policy(arch, key=jax.random.key(0))


FILTERS = {
    "ekf": lambda model, Q0, R0: sw.EKF(model, Q0, R0),
    "sage-husa 0.95": lambda model, Q0, R0: sw.SageHusa(model, Q0, R0, b=0.95),
    "sage-husa 0.99": lambda model, Q0, R0: sw.SageHusa(model, Q0, R0, b=0.99),
    "sage-husa 0.95 posterior": lambda model, Q0, R0: sw.SageHusa(
        model, Q0, R0, b=0.95, gain_noise="posterior"
    ),
    "sage-husa 0.99 posterior": lambda model, Q0, R0: sw.SageHusa(
        model, Q0, R0, b=0.99, gain_noise="posterior"
    ),
    "learned": lambda model, Q0, R0: sw.NDRSageHusa(model, Q0, R0, policy=policy(len(Q0))),
    "learned posterior": lambda model, Q0, R0: sw.NDRSageHusa(
        model, Q0, R0, policy=policy(len(Q0)), gain_noise="posterior"
    ),
}


def bad_sensor(shape, outlier, quiet=0):
    """Noise around zero, lost channels, lost steps, infinities, outliers; a quiet end."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(*shape, 2))
    fate = rng.random(z.shape)
    z[fate < 0.03] = np.nan
    z[(fate > 0.03) & (fate < 0.05)] = np.inf
    z[(fate > 0.05) & (fate < 0.07)] = -np.inf
    wild = (fate > 0.07) & (fate < 0.09)
    if quiet:
        wild[..., -quiet:, :] = False
    z[wild] = np.where(rng.random(z.shape) < 0.5, outlier, -outlier)[wild]
    return z, rng.random(shape) > 0.05


@cache
def ran(system, name, quiet=0):
    """A batch with an outlier each, run once for all tests: its z, its mask and the result."""
    model, x0, Q0, R0 = MODELS[system]
    given = [bad_sensor((STEPS,), outlier, quiet) for outlier in OUTLIERS]
    z, mask = (np.stack(arrays) for arrays in zip(*given, strict=True))
    filt, P0 = FILTERS[name](model, Q0, R0), 0.1 * np.eye(len(x0))
    return z, mask, sw.run(filt, x0, P0, z, mask=mask, dt=0.1 if quiet else 0.01)


def wild(z, mask):
    return mask[..., None] & np.isfinite(z) & (np.abs(z) > 0.9 * min(OUTLIERS))


# Another test proves that a batch equals its records.
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("system", MODELS)
def test_nothing_but_numbers_leaves_a_filter(system, name):
    _, _, result = ran(system, name)
    for output in OUTPUTS:
        finite = np.isfinite(np.asarray(getattr(result, output)))
        assert finite.all(), f"{output} after outliers of {OUTLIERS}"
    for leaf in jax.tree.leaves(result.state):
        assert np.isfinite(np.asarray(leaf)).all(), f"memory after outliers of {OUTLIERS}"


@pytest.mark.parametrize("name", FILTERS)
def test_ok_is_false_at_an_outlier_and_nowhere_else(name):
    z, mask, result = ran("constant velocity", name)
    np.testing.assert_array_equal(np.asarray(result.ok), ~wild(z, mask).any(axis=-1))


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_recovers_some_hundred_steps_after_the_last_outlier(name):
    # The truth rests at zero.
    _, _, result = ran("constant velocity", name, quiet=1000)
    assert np.abs(result.x[:, -300:, :2]).max() < 5.0


@pytest.mark.parametrize("name", [n for n in FILTERS if n != "ekf"])
def test_an_outlier_does_not_lower_the_noise_it_is_judged_by(name):
    z, mask, result = ran("constant velocity", name)
    first = np.broadcast_to(np.float32(MODELS["constant velocity"][3]), (len(OUTLIERS), 1, 2))
    before = np.concatenate([first, np.asarray(result.r)[:, :-1]], axis=1)
    at = wild(z, mask)
    assert at.any(axis=(1, 2)).all()
    assert np.all(np.asarray(result.r)[at] >= before[at])


class LosesItself(sw.models.ConstantVelocity):
    """A state that no manifold takes back."""

    def normalize(self, x):
        return jnp.full_like(x, jnp.nan)


def test_a_correction_that_fails_is_a_prediction():
    z, P0 = np.ones((1, 2)), 0.1 * np.eye(4)
    failed, predicted = (
        sw.run(sw.EKF(model, [0.1] * 4, [1.0] * 2), np.ones(4), P0, z, mask=mask)
        for model, mask in ((LosesItself(), None), (sw.models.ConstantVelocity(), np.zeros(1)))
    )
    assert not np.any(failed.ok)
    np.testing.assert_array_equal(failed.x, predicted.x)
    np.testing.assert_array_equal(failed.P, predicted.P)


class Inflating(Frozen):
    """An EKF that takes the noise for ten times as large, once it has seen the innovation."""

    def __call__(self, memory, info):
        return Attenuation(inflate_r=jnp.full_like(info.r, 10.0)), None, None


def test_where_the_first_gain_fails_the_second_has_no_measurement_either():
    filt = sw.EKF(sw.models.ConstantVelocity(), [1e-3] * 4, [0.1, 0.1])
    filt = eqx.tree_at(lambda f: f.rule.policy, filt, Inflating())
    # S is not positive definite with r, and is with the unit variance of what did not arrive
    P = jnp.eye(4).at[0, 1].set(1.5).at[1, 0].set(1.5)
    state, given = filt.init(jnp.zeros(4), P), (jnp.ones(2), None, jnp.asarray(0.1))
    said, without = (filt.step(state, *given, jnp.array([a, a]))[1] for a in (True, False))
    assert not said.ok
    np.testing.assert_array_equal(said.x, without.x)
    np.testing.assert_array_equal(said.P, without.P)


class Counted(sw.Model):
    """Counts how often it is traced, which is how often something is compiled."""

    pace: jax.Array
    traces = 0

    def transition(self, x, u, dt):
        Counted.traces += 1
        return x * (1.0 - dt * self.pace)

    def observe(self, x, u):
        return x[:1]


def test_other_numbers_need_no_other_program():
    x0, P0, z = np.ones(2), np.eye(2), np.ones((7, 1))

    def ekf(Q0, R0, n):
        return sw.EKF(Counted(jnp.asarray(0.1 * n)), Q0, R0)

    def sage_husa(Q0, R0, n):
        return sw.SageHusa(Counted(jnp.asarray(0.1 * n)), Q0, R0, b=1.0 - 0.1 * n)

    def learned(Q0, R0, n):
        sizes = {"encoder": (4,), "context": (4,), "head": (4,), "decoder": (4,)}
        made = sw.Policy(sw.Architecture(2, 1, depth=1, hidden=4, **sizes), key=jax.random.key(n))
        return sw.NDRSageHusa(Counted(jnp.asarray(0.1 * n)), Q0, R0, policy=made)

    for make in (ekf, sage_husa, learned):
        one, other = make([0.1, 0.1], [1.0], 1), make([0.3, 0.2], [2.0], 2)
        first = sw.run(one, x0, P0, z, dt=0.01)
        traces = Counted.traces
        second = sw.run(other, 2.0 * x0, 3.0 * P0, 4.0 * z, dt=0.5)
        assert Counted.traces == traces
        assert np.abs(first.x - second.x).max() > 0.1  # the new numbers were used

    x, _ = sw.Online(ekf([0.1, 0.1], [1.0], 1), x0, P0, "jax").step(z[0])
    traces = Counted.traces
    other_x, _ = sw.Online(ekf([0.3, 0.2], [2.0], 2), 2.0 * x0, 3.0 * P0, "jax").step(z[0], dt=0.5)
    assert Counted.traces == traces
    assert np.abs(x - other_x).max() > 0.1
