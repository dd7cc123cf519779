"""Every mechanism of the domain randomisation has the statistics that it says."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.sim.degradation import Degradation, mixture, random_walk, vibration

KEY = jax.random.key(0)
# Every mechanism off, at its largest where it is switched on
QUIET = Degradation(
    ratio=1.0, position_std=0.0, position_outlier_std=0.0, attitude_std=0.0
).as_flown()
DT = 0.001


def records(degradation, signal, kind, count=2000):
    """The degraded signal of many records [count, T, 6]."""
    keys = jax.random.split(KEY, count)
    if kind == "pose":
        return np.asarray(jax.vmap(lambda k: degradation.pose(k, signal))(keys))
    return np.asarray(jax.vmap(lambda k: degradation.imu(k, signal, DT))(keys))


def test_outliers_are_as_many_and_as_large_as_said():
    v = np.asarray(mixture(KEY, (400_000,), 1.0, 5.0, 0.05))
    np.testing.assert_allclose(v.var(), 0.95 + 0.05 * 25.0, rtol=0.03)
    # Beyond four standard deviations there is nothing but outliers.
    np.testing.assert_allclose(np.mean(np.abs(v) > 4.0), 0.05 * 0.4237, rtol=0.05)


def test_a_walk_grows_with_the_root_of_time():
    walks = np.asarray(
        jax.vmap(lambda k: random_walk(k, (400, 6), 0.1))(jax.random.split(KEY, 300))
    )
    for k in (1, 100, 400):
        np.testing.assert_allclose(walks[:, k - 1].std(), 0.1 * np.sqrt(k), rtol=0.08)


def test_vibration_pulses_with_the_rotors():
    keys = jax.random.split(KEY, 2000)
    v = np.asarray(jax.vmap(lambda k: vibration(k, (10, 6), DT, 1.0, 3.0, 628.0))(keys))
    expected = 1.0 + 3.0 * np.sin(628.0 * DT * np.arange(10)) ** 2
    np.testing.assert_allclose(v.std(axis=(0, 2)), expected, rtol=0.03)


def test_position_has_outliers_and_attitude_has_none():
    z = jnp.zeros((20, 6)).at[:, 2].set(7.0)
    noise = records(Degradation(ratio=1.0), z, "pose") - np.asarray(z)
    np.testing.assert_allclose(noise[..., :3].var(), 0.95 + 0.05 * 25.0, rtol=0.05)
    np.testing.assert_allclose(noise[..., 3:].std(), 0.1, rtol=0.02)
    assert np.abs(noise[..., 3:]).max() < 0.1 * 6.0


@pytest.mark.parametrize(
    ("field", "std"),
    [("imu_std", 0.1), ("turn_on_bias_std", 0.3), ("vibration_std", 1.0)],
)
def test_an_additive_mechanism_of_the_imu_has_its_size(field, std):
    changed = {field: std, "vibration_amplitude": 0.0}
    if field == "imu_std":
        changed["imu_outlier_probability"] = 0.0
    one = dataclasses.replace(QUIET, **changed)
    noise = records(one, jnp.zeros((5, 6)), "imu")
    np.testing.assert_allclose(noise.std(axis=(0, 1)), std, rtol=0.06)


def test_a_bias_stays_and_a_scale_factor_scales():
    biased = records(dataclasses.replace(QUIET, turn_on_bias_std=0.3), jnp.zeros((5, 6)), "imu")
    np.testing.assert_array_equal(biased, np.repeat(biased[:, :1], 5, axis=1))
    u = jnp.asarray([[1.0] * 6, [10.0] * 6])
    scaled = records(dataclasses.replace(QUIET, scale_factor_std=0.01), u, "imu")
    np.testing.assert_allclose(scaled[:, 1], 10.0 * scaled[:, 0], rtol=1e-4)
    np.testing.assert_allclose(scaled[:, 0].std(), 0.01, rtol=0.05)


def test_nothing_switched_on_changes_nothing():
    u = jnp.arange(30.0).reshape(5, 6)
    np.testing.assert_array_equal(QUIET.imu(KEY, u, DT), u)
    np.testing.assert_array_equal(QUIET.pose(KEY, u), u)


def test_magnitudes_differ_between_records_within_their_range():
    one = dataclasses.replace(QUIET, ratio=0.25, attitude_std=1.0)
    size = records(one, jnp.zeros((3000, 6)), "pose", 200)[..., 3:].std(axis=(1, 2))
    assert 0.24 < size.min() < 0.3
    assert 0.95 < size.max() < 1.02
    np.testing.assert_allclose(size.mean(), 0.625, rtol=0.06)


def test_angles_have_outliers_where_they_are_asked_for():
    one = dataclasses.replace(
        QUIET, attitude_std=0.1, attitude_outlier_std=0.5, attitude_outlier_probability=0.1
    )
    noise = records(one, jnp.zeros((3000, 6)), "pose", 100)
    np.testing.assert_array_equal(noise[..., :3], 0.0)
    np.testing.assert_allclose(noise[..., 3:].var(), 0.9 * 0.1**2 + 0.1 * 0.5**2, rtol=0.03)
