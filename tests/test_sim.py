"""The chaotic episodes are what their protocol says."""

import dataclasses

import jax
import numpy as np
import pytest

from sagewing.problems.chaos import ALIGNED, DT, LORENZ, PAPER, ROSSLER, episodes, protocol_named

KEY = jax.random.key(5)


@pytest.mark.parametrize(("protocol", "old"), [(PAPER, 1), (ALIGNED, 0)])
def test_the_measurement_is_as_old_as_the_protocol_says(protocol, old):
    """With hardly any noise, z_k is h(s_{k+1}), or h(s_k) where it lags."""
    quiet = dataclasses.replace(LORENZ, outlier_probability=0.0)
    drawn = episodes(KEY, quiet, protocol, 300, 40)
    seen = np.asarray(drawn.truth)[..., [0, 2]]
    error = [np.std(np.asarray(drawn.z)[:, 1:] - seen[:, 1 - lag : 40 - lag]) for lag in (0, 1)]
    expected = np.sqrt((1.0 + 4.0) / 2.0)  # standard deviations 1 and 2
    np.testing.assert_allclose(error[old], expected, rtol=0.03)
    assert error[1 - old] > 1.05 * expected


@pytest.mark.parametrize("protocol", [PAPER, ALIGNED])
def test_the_variances_that_the_oracle_is_told_are_those_of_the_noise(protocol):
    drawn = episodes(KEY, LORENZ, protocol, 300, 60)
    model = LORENZ.model(protocol)
    step = jax.vmap(jax.vmap(lambda x: model.transition(x, None, DT)))
    w = np.asarray(drawn.truth[:, 1:] - step(drawn.truth[:, :-1]))
    np.testing.assert_allclose(np.mean(w**2 / drawn.q[:, 1:]), 1.0, rtol=0.03)
    seen = np.asarray(drawn.truth)[..., [0, 2]]
    v = drawn.z[:, 1:] - (seen[:, :-1] if protocol.lag else seen[:, 1:])
    np.testing.assert_allclose(np.mean(v**2 / drawn.r[:, 1:]), 1.0, rtol=0.03)
    assert len(np.unique(np.asarray(drawn.r[..., 0]))) == 2  # outliers are among them


@pytest.mark.parametrize("system", [LORENZ, ROSSLER])
def test_outliers_come_channel_by_channel_as_often_and_as_large_as_said(system):
    drawn = episodes(KEY, system, ALIGNED, 400, 200)
    model = system.model(ALIGNED)
    z_hat = jax.vmap(jax.vmap(lambda x: model.observe(x, None)))(drawn.truth)
    v = np.asarray(drawn.z - z_hat) / np.array([1.0, 2.0])
    v = v[np.all(np.isfinite(v), axis=(1, 2))]
    epsilon, eta = system.outlier_probability, system.outlier_scale
    np.testing.assert_allclose(v.var(axis=(0, 1)), 1.0 + epsilon * (eta**2 - 1.0), rtol=0.05)
    tail = np.abs(v) > 4.0
    both = np.mean(tail[..., 0] & tail[..., 1])
    np.testing.assert_allclose(both, tail[..., 0].mean() * tail[..., 1].mean(), rtol=0.25)


def test_process_noise_is_a_standard_deviation_of_q_base():
    drawn = episodes(KEY, LORENZ, ALIGNED, 200, 100)
    s = drawn.truth
    model = LORENZ.model(ALIGNED)
    step = jax.vmap(jax.vmap(lambda x: model.transition(x, None, DT)))
    w = np.asarray(s[:, 1:] - step(s[:, :-1]))
    mean_square = 1.0 + 0.1 * 0.5 * 2.0  # E (1 + A sin^2)^2 to first order, A ~ U(0, 0.2)
    np.testing.assert_allclose(np.mean(w**2), 1e-4 * mean_square, rtol=0.05)


def test_a_protocol_can_be_changed_by_name():
    changed = protocol_named("paper,lag=no,noise=variance")
    assert dataclasses.replace(changed, name="paper", lag=True, noise="std") == PAPER
    assert changed.base == "paper"
    as_variance, as_std = (
        episodes(KEY, LORENZ, protocol_named(f"aligned,noise={n}"), 5, 3)
        for n in ("variance", "std")
    )
    np.testing.assert_allclose(as_variance.q**2, as_std.q, rtol=1e-5)


def test_the_start_is_exact_or_drawn():
    exact = episodes(KEY, LORENZ, PAPER, 500, 1)
    drawn = episodes(KEY, LORENZ, ALIGNED, 500, 1)
    np.testing.assert_allclose(np.var(np.asarray(drawn.x0 - exact.x0)), 0.1, rtol=0.1)


def test_a_record_does_not_depend_on_how_many_are_drawn():
    few, many = (episodes(KEY, ROSSLER, ALIGNED, n, 20) for n in (3, 50))
    np.testing.assert_array_equal(few.z, many.z[:3])
