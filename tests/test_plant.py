"""The simulated QDrone: it is the filters' model plus known errors, and it flies its paths."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.models import QuadrotorDynamic, QuadrotorKinematic
from sagewing.models.quadrotor import QDRONE, Q, R, V, W
from sagewing.sim import paths, plant
from sagewing.sim.plant import DT, HOVER, IDEAL, PlantErrors

ROWS = 1000
KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, len(paths.CIRCLES))
# In place of circles, as many: the same compiled program flies them.
HOVERING = jax.vmap(paths.Circle)(*jnp.repeat(jnp.array([0.0, 1.0, 0.5, 0.0])[:, None], 3, axis=1))
SENSES_PERFECTLY = replace(
    PlantErrors(),
    noise_std=(0.0, 0.0),
    bias_std=(0.0, 0.0),
    bias_walk=(0.0, 0.0),
    scale_std=0.0,
    vibration=(0.0, 0.0),
)


def hovering(**errors):
    """What the IMU reads [3, T, 6] in hover with these errors alone, less gravity."""
    flown = plant.flights(KEYS, HOVERING, replace(IDEAL, **errors), ROWS)
    return np.asarray(flown.imu) - [0.0, 0.0, 9.81, 0.0, 0.0, 0.0]


def places(path, rows):
    """The flat outputs [flights, T, 4] at a flight's rows."""
    t = DT * plant.SAMPLES * (plant.LEAD_IN + jnp.arange(1.0, rows + 1))
    return np.asarray(jax.vmap(lambda p: jax.vmap(p)(t))(path))


def rms(error):
    return np.sqrt(np.mean(np.sum(np.asarray(error) ** 2, axis=-1), axis=-1))


def tilt(quaternion):
    _, x, y, _ = np.moveaxis(np.asarray(quaternion), -1, 0)
    return np.arccos(1 - 2 * (x**2 + y**2))


@pytest.fixture(scope="module")
def training():
    return plant.training_flights(0)


def every_array(flights):
    return np.concatenate([np.ravel(a) for flown in flights for a in flown])


@partial(jax.jit, compiler_options=paths.FAST_COMPILE)
def driven(errors, commands):
    """Open loop, from a tumble: state and IMU of the plant, and of the filters' model."""
    model, body = QuadrotorDynamic(), plant.draw_plant(KEY, errors)
    x = jnp.zeros(19).at[Q].set(jnp.array([0.98, 0.1, -0.1, 0.1])).at[V].set(1.5)
    x = model.normalize(x.at[W].set(jnp.array([0.3, -0.2, 0.5])))
    now = plant.PlantState(x, commands[0], *(jnp.zeros(n) for n in (6, 4, 3, 3)))

    def step(both, u):
        now, x = both
        observed = model.observe(x + 0.5 * DT * model.drift(x, u), u)
        now, imu = plant.advance(body, now, u, jnp.zeros((3, 6)))
        x = model.normalize(model.transition(x, u, DT))
        return (now, x), (now, imu, x, observed)

    return jax.lax.scan(step, (now, x), commands)[1]


def test_without_errors_it_is_the_filters_model_and_its_imu_reads_what_that_observes():
    with jax.enable_x64(True):
        k = np.arange(1000)[:, None]
        now, imu, x, observed = driven(IDEAL, HOVER + 0.05 * np.sin(0.01 * k + np.arange(4)))
    np.testing.assert_allclose(now.x, x, atol=1e-10)
    np.testing.assert_allclose(imu, observed, atol=1e-10)
    assert np.linalg.norm(x[-1, R]) > 1.0


def test_without_errors_it_hovers_at_the_nominal_command():
    flown = plant.flights(KEYS, HOVERING, IDEAL, ROWS)
    np.testing.assert_allclose(HOVER, 0.538, atol=5e-4)  # paper, Table 5
    np.testing.assert_allclose(flown.motors, HOVER, atol=1e-4)
    np.testing.assert_allclose(flown.position - places(HOVERING, ROWS)[..., :3], 0.0, atol=1e-3)
    np.testing.assert_allclose(hovering(), 0.0, atol=1e-3)


def test_a_row_is_the_mean_of_ten_noisy_samples():
    std = hovering(noise_std=(0.08, 0.008)).std(axis=(0, 1))
    np.testing.assert_allclose(std, np.repeat([0.08, 0.008], 3) / np.sqrt(10), rtol=0.08)


def test_a_bias_stays_and_a_walk_walks():
    biased = hovering(bias_std=(0.05, 0.005))
    assert biased[..., :3].std(axis=1).max() < 1e-3
    assert 0.02 < np.abs(biased[..., :3]).mean() < 0.08
    assert 0.002 < np.abs(biased[..., 3:]).mean() < 0.008
    walked = hovering(bias_walk=(2e-3, 2e-4))
    steps = (walked[:, 100:] - walked[:, :-100])[..., :3].std()
    np.testing.assert_allclose(steps, 2e-3, rtol=0.5)


def test_gusts_are_felt_by_the_accelerometer():
    felt = hovering(gust_std=0.2, gust_time=0.5)[..., :2]
    np.testing.assert_allclose(felt.std(), 0.2, rtol=0.25)


def test_a_vehicle_is_off_by_a_few_percent():
    expected = PlantErrors()
    draw = jax.jit(jax.vmap(plant.draw_plant, (0, None)), compiler_options=paths.FAST_COMPILE)
    some = draw(jax.random.split(KEY, 4000), expected)
    for got, nominal, std in (
        (some.body.vehicle.mass, QDRONE.mass, expected.mass_std),
        (some.body.vehicle.thrust, QDRONE.thrust, expected.thrust_std),
        (some.body.vehicle.inertia[1], QDRONE.inertia[1], expected.inertia_std),
        (some.motor, 1.0, expected.motor_std),
    ):
        np.testing.assert_allclose(np.mean(got) / nominal, 1.0, atol=2e-3)
        np.testing.assert_allclose(np.std(got) / nominal, std, rtol=0.06)
    np.testing.assert_allclose(np.std(some.scale), expected.scale_std, rtol=0.06)
    np.testing.assert_allclose(some.bias[:, ::3].std(axis=0), expected.bias_std, rtol=0.06)
    amplitude = np.linalg.norm(some.shake, axis=2)
    assert 0.5 <= amplitude[:, :3].min() < 0.51
    assert 0.99 < amplitude[:, :3].max() <= 1.0001


def test_rotors_shake_the_imu_near_100_hz_and_ten_samples_average_it_away():
    shaken = {"vibration": (1.0, 0.1), "vibration_rate": 630.0}
    with jax.enable_x64(True):
        _, imu, _, still = driven(replace(IDEAL, **shaken), np.full((1000, 4), HOVER))
    shake = np.asarray(imu) - np.asarray(still)
    spectrum = np.abs(np.fft.rfft(shake, axis=0))
    np.testing.assert_allclose(np.argmax(spectrum, axis=0), 630.0 / (2 * np.pi), atol=1.0)
    assert 0.1 < shake[:, :3].std() < 1.0
    np.testing.assert_array_less(hovering(**shaken)[..., :3].std(), 0.05)


def test_a_motor_lags_behind_its_command():
    commands = np.full((1000, 4), 0.7)
    commands[0] = 0.5
    with jax.enable_x64(True):
        now, *_ = driven(replace(IDEAL, motor_lag=0.04), commands)
    np.testing.assert_allclose((np.asarray(now.level)[40] - 0.5) / 0.2, 1 - np.exp(-1), rtol=1e-6)


def test_it_flies_the_circles_where_and_when_it_is_told_to():
    circles = paths.circles(KEY)
    flown = plant.flights(KEYS, circles, PlantErrors(), ROWS)
    assert np.all(rms(flown.position - places(circles, ROWS)[..., :3]) < 0.25)
    assert np.degrees(tilt(flown.quaternion)).max() < 35.0


def test_it_flies_random_paths_and_their_steps():
    random = paths.random_paths(KEY, 5)
    flown = plant.flights(jax.random.split(KEY, 5), random, PlantErrors(), 8500)
    error = flown.position - places(random, 8500)[..., :3]
    assert np.all(rms(error) < 0.35)
    assert np.median(np.linalg.norm(error, axis=-1)) < 0.2
    assert np.degrees(tilt(flown.quaternion)).max() < 50.0


def test_integrating_the_imu_follows_the_truth_when_the_sensors_are_perfect():
    flown = plant.flights(KEYS, paths.circles(KEY), SENSES_PERFECTLY, ROWS)
    model = QuadrotorKinematic()

    def state(i):
        rotate = jax.vmap(jax.vmap(lambda q, v: plant.rotation_matrix(q).T @ v))
        v = rotate(flown.quaternion, flown.velocity)
        parts = flown.position, v, flown.quaternion, flown.rate, jnp.zeros((3, ROWS, 6))
        return jnp.concatenate(parts, axis=-1)[:, i]

    def step(x, u):
        return jax.vmap(lambda x, u: model.normalize(model.transition(x, u, 0.01)))(x, u), None

    x, _ = jax.lax.scan(step, state(0), jnp.moveaxis(flown.imu[:, 1:], 1, 0))
    np.testing.assert_allclose(x[:, R], state(-1)[:, R], atol=0.02)
    np.testing.assert_allclose(x[:, V], state(-1)[:, V], atol=0.01)
    np.testing.assert_allclose(x[:, Q], state(-1)[:, Q], atol=1e-3)


def test_training_is_five_flights_of_388_s_calm_and_aggressive(training):
    assert len(training) == 5
    np.testing.assert_allclose(sum(flown.t[-1] for flown in training), 388.0, atol=1e-3)
    assert np.all(np.isfinite(every_array(training)))
    for flown in training:
        assert len({len(a) for a in flown}) == 1
        np.testing.assert_allclose(np.diff(flown.t), 0.01, atol=1e-4)
        acceleration = np.linalg.norm(np.diff(flown.velocity, axis=0), axis=1) / 0.01
        second = acceleration[: len(acceleration) // 100 * 100].reshape(-1, 100).mean(axis=1)
        assert acceleration.max() > 4.0
        assert second.max() > 2.5
        assert second.min() < 0.5


def test_motors_keep_within_their_range_and_rarely_reach_its_ends(training):
    motors = np.concatenate([flown.motors for flown in training])
    assert motors.min() >= 0.0
    assert motors.max() <= 1.0
    assert np.mean((motors < 0.01) | (motors > 0.99)) < 0.01
    np.testing.assert_allclose(motors.mean(), HOVER, rtol=0.1)


def test_the_circles_are_under_way_from_the_start():
    flights = plant.circle_flights(0)
    assert len(flights) == 3
    assert np.all(np.isfinite(every_array(flights)))
    for flown, (radius, period, _) in zip(flights, paths.CIRCLES, strict=True):
        np.testing.assert_allclose(flown.t[[0, -1]], [0.01, 10.0], atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(flown.position[:, :2], axis=1), radius, atol=0.3)
        np.testing.assert_allclose(flown.position[:, 2], paths.HEIGHT, atol=0.25)
        speed = np.linalg.norm(flown.velocity, axis=1)
        np.testing.assert_allclose(speed, 2 * np.pi * radius / period, rtol=0.3)


def test_a_seed_gives_one_flight_bit_for_bit_and_another_seed_another(training):
    again, other = plant.training_flights(0), plant.training_flights(1)
    np.testing.assert_array_equal(every_array(again), every_array(training))
    assert np.abs(other[0].position - training[0].position).max() > 0.5
    circle, same, different = (plant.circle_flights(seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(every_array(circle), every_array(same))
    assert np.abs(different[0].imu - circle[0].imu).max() > 0.05
