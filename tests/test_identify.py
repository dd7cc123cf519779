"""A vehicle is found again from flights that it flew."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.logs import Flight, read_flights
from sagewing.logs.rotate import conjugate, multiply, rotate
from sagewing.models.quadrotor import GRAVITY, QuadrotorDynamic, Vehicle
from sagewing.problems.flight.identify import (
    CRAZYFLIE_FRAME,
    FULL_V,
    MIXER,
    Frame,
    airborne,
    aligned_with_thrust,
    identify,
    rotor_commands,
)

RECORDED = Path(__file__).parents[2] / "shared" / "flights" / "nanobench"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded flights are not here")

TRUE = Vehicle(
    mass=0.8,
    inertia=(4e-3, 5e-3, 9e-3),
    roll_span=0.2,
    pitch_span=0.25,
    thrust=5.0,
    torque=0.05,
    drag=(0.3, 0.4, 0.1),
)
FRAME = Frame(TRUE.mass, TRUE.inertia[2], TRUE.roll_span, TRUE.pitch_span)
LAG, DELAY, DT = 0.04, 0.02, 0.01


def waves(rng, t, columns, low, high):
    """Sums of sines with frequencies (Hz) from low to high, of about unit size."""
    f, phase = rng.uniform(low, high, (8, columns)), rng.uniform(0, 2 * np.pi, (8, columns))
    return np.sin(2 * np.pi * f * t[:, None, None] + phase).sum(axis=1) / 2.0


def flown(seed, battery=True, noise=0.0, ground=0):
    """Signals that obey the model row by row; `ground` rows before take-off do not."""
    rng = np.random.default_rng(seed)
    n = 2000
    t = DT * np.arange(n)
    motors = 0.45 + 0.04 * waves(rng, t, 1, 0.2, 1.0) + 0.02 * waves(rng, t, 4, 1.0, 8.0)
    motors[:ground] = 0.0
    position = np.concatenate([waves(rng, t, 2, 0.1, 0.4), np.ones((n, 1))], axis=1)
    position[:ground, 2] = 0.0
    velocity = 0.7 * waves(rng, t, 3, 0.2, 0.6)
    tilt = 0.1 * waves(rng, t, 3, 0.2, 1.0)
    q = np.concatenate([np.ones((n, 1)), tilt], axis=1)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    volts = np.linspace(4.1, 3.5, n) if battery else None
    flight = Flight("made", t, np.zeros((n, 6)), position, q, velocity, motors, battery=volts)
    u = rotor_commands(flight, LAG, DELAY)
    body = rotate(conjugate(q), velocity)
    force = -np.array(TRUE.drag) * body
    force[:, 2] += TRUE.thrust / TRUE.mass * u.sum(axis=1)
    force[:, :2] += rng.normal(size=2) * 0.3
    gain = [TRUE.thrust * TRUE.roll_span / 2, TRUE.thrust * TRUE.pitch_span / 2, TRUE.torque]
    turning = u @ MIXER.T * gain / TRUE.inertia
    rate = np.cumsum(turning, axis=0) * DT
    rate = 0.5 * (rate + np.concatenate([rate[:1], rate[:-1]]))
    imu = np.concatenate([force, rate], axis=1)
    imu[:ground] = [0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0]
    imu += noise * rng.normal(size=imu.shape)
    return Flight("made", t, imu, position, q, velocity, motors, battery=volts)


@pytest.mark.parametrize("battery", [True, False])
@pytest.mark.parametrize("ground", [0, 300])
def test_the_vehicle_is_found_again(battery, ground):
    found = identify([flown(seed, battery, 1e-3, ground) for seed in range(4)], FRAME)
    assert (found.lag_s, found.delay_s) == (LAG, DELAY)
    got = found.vehicle
    np.testing.assert_allclose(got.drag, TRUE.drag, rtol=0.02)
    np.testing.assert_allclose(got.thrust, TRUE.thrust, rtol=0.01)
    np.testing.assert_allclose(got.inertia, TRUE.inertia, rtol=0.005)
    np.testing.assert_allclose(got.torque, TRUE.torque, rtol=0.02)
    assert got[:1] + got[2:4] == TRUE[:1] + TRUE[2:4]
    assert min(found.fit.r2) > 0.9
    assert found.fit.samples <= 8000


def test_other_flights_are_scored_as_the_vehicles_own():
    found = identify([flown(seed, noise=0.01) for seed in range(4)], FRAME)
    others = found.score([flown(9, noise=0.01)])
    np.testing.assert_allclose(others.std, found.fit.std, rtol=0.3)
    np.testing.assert_allclose(others.std[:3], 0.01, rtol=0.3)


def test_the_mixer_is_that_of_the_model():
    torques = [QuadrotorDynamic(TRUE).wrench(jnp.eye(4)[motor])[1] for motor in range(4)]
    np.testing.assert_array_equal(np.sign(np.stack(torques)).T, MIXER)


def test_commands_lag_and_scale_with_the_voltage():
    n, step = 100, 20
    motors = np.zeros((n, 4))
    motors[step:] = 0.8
    none = np.zeros((n, 3))
    t = DT * np.arange(n)
    flight = Flight("step", t, np.zeros((n, 6)), none, np.eye(4)[[0] * n], none, motors)
    u = rotor_commands(flight, LAG, DELAY)
    late = step + 2
    assert np.abs(u[:late]).max() == 0.0
    expected = 0.8 * (1 - np.exp(-DT / LAG * np.arange(1, n - late + 1)))
    np.testing.assert_allclose(u[late:, 0], expected, atol=1e-5)
    np.testing.assert_array_equal(rotor_commands(flight, 0.0, 0.0), motors)
    half = Flight(
        "low", t, np.zeros((n, 6)), none, np.eye(4)[[0] * n], none, motors,
        battery=np.full(n, FULL_V / 2),
    )  # fmt: skip
    np.testing.assert_allclose(rotor_commands(half, LAG, DELAY), u / 2, atol=1e-12)


def test_the_ground_is_not_flown():
    rows = airborne(flown(0, ground=300))
    assert not rows[:350].any()
    assert rows[351:1949].all()


def test_a_tilted_truth_is_levelled():
    flight = flown(0)
    a = np.gradient(flight.velocity, DT, axis=0) + np.array([0.0, 0.0, GRAVITY])
    # With the same drag along all axes, the thrust is what is left of the force without it.
    up = a + np.array([0.35, 0.35, 0.35]) * flight.velocity
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    zero = np.zeros((len(up), 1))
    q = np.concatenate([1 + up[:, 2:], -up[:, 1:2], up[:, :1], zero], axis=1)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    tilt = np.array([[1.0, 0.02, -0.03, 0.0]]) / np.linalg.norm([1.0, 0.02, -0.03])
    tilted = multiply(q, np.repeat(tilt, len(q), axis=0))
    log = Flight(
        "tilted", flight.t, flight.imu, flight.position, tilted, flight.velocity, flight.motors
    )
    level = aligned_with_thrust(log, (0.35, 0.35, 0.35))
    off = 2 * np.arccos(np.clip(np.abs(np.sum(level.quaternion * q, axis=1)), 0, 1))
    assert np.degrees(off).max() < 0.2
    assert "turned by 4.1 degrees" in level.repairs[-1]


def test_what_has_no_motors_or_hardly_flies_is_refused():
    flight = flown(0)
    none = Flight("mute", *[getattr(flight, name) for name in flight.__dataclass_fields__][1:6])
    with pytest.raises(sw.InputError, match=r"mute.*four motors"):
        identify([none], FRAME)
    with pytest.raises(sw.InputError, match="500 rows in the air"):
        identify([flight.part(0.0, 3.0)], FRAME)


@recorded
def test_a_recorded_crazyflie_is_a_crazyflie():
    flights = read_flights(RECORDED, ("helix", "figure8"))
    found = identify(flights)
    c = found.vehicle
    # Luis and Le Ny (2016): 1.395e-5 and 1.436e-5.
    np.testing.assert_allclose(c.inertia[:2], 1.4e-5, rtol=0.15)
    assert c.mass == CRAZYFLIE_FRAME.mass
    np.testing.assert_allclose(c.drag[:2], 0.39, rtol=0.05)
    np.testing.assert_allclose(found.fit.r2[:2], 0.93, atol=0.05)
    assert c.torque > 0.0
    assert min(found.fit.r2[3:5]) > 0.6
    assert 0.02 <= found.lag_s <= 0.06
    u = found.commands(flights[0])
    assert 0.0 <= u.min() < u.max() <= 1.0
