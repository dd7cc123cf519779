"""What a log becomes: one flight on one clock, repaired and reported, or refused."""

from functools import partial

import numpy as np
import pytest
from flight_files import DT, NAN, N, arrays, changed, refuses, without_rows, write_flight
from log_files import G, attitude_at, position_at, velocity_at

from sagewing.logs import Flight, read_flight
from sagewing.logs.rotate import (
    conjugate,
    flip_body_axes,
    multiply,
    rotate,
    rotation_vector,
    slerp,
)
from sagewing.logs.signal import Signal
from sagewing.sim.plant import Flown


@pytest.fixture
def written(tmp_path):
    """Writes a log that differs from a good one, and gives its path."""
    return partial(write_flight, tmp_path)


def test_a_good_log_is_read_as_it_is(written):
    flight = read_flight(written())
    assert flight.name == "some_flight"
    assert flight.repairs == ()
    assert flight.dt == pytest.approx(DT)
    assert flight.seconds == pytest.approx(5.98)
    np.testing.assert_allclose(flight.t, DT * np.arange(1, N), atol=1e-9)
    np.testing.assert_allclose(flight.position, position_at(flight.t), atol=1e-6)
    np.testing.assert_allclose(flight.velocity, velocity_at(flight.t), atol=1e-6)
    np.testing.assert_allclose(flight.battery, 3.8)
    assert flight.thrust is None
    np.testing.assert_allclose(flight.onboard.position, flight.position + 0.1, atol=1e-6)


def test_the_imu_stands_for_the_step_that_ends_at_t(written):
    log, flight = arrays(), read_flight(written())
    both = np.concatenate([log["acc"], log["gyro"]], axis=1)
    np.testing.assert_allclose(flight.imu, 0.5 * (both[1:] + both[:-1]), atol=1e-9)
    turned = rotation_vector(multiply(conjugate(flight.quaternion[:-1]), flight.quaternion[1:]))
    np.testing.assert_allclose(flight.imu[1:, 3:] * DT, turned, atol=1e-5)
    gained = rotate(flight.quaternion, flight.imu[:, :3]) - G
    np.testing.assert_allclose(np.diff(flight.velocity, axis=0), gained[1:] * DT, atol=2e-3)


def test_motors_come_in_the_order_of_the_model(written):
    pwm = np.tile([0.0, 65535.0, 32767.5, 13107.0], (N, 1))
    flight = read_flight(written(mot=pwm))
    np.testing.assert_allclose(flight.motors, np.tile([1.0, 0.0, 0.5, 0.2], (N - 1, 1)))


def test_a_body_with_z_down_is_turned_over(written):
    log = arrays()
    flip = np.array([1.0, -1.0, -1.0])
    down = {
        "acc": flip * log["acc"],
        "gyro": flip * log["gyro"],
        "quat_wxyz": flip_body_axes(log["quat_wxyz"]),
        "est_quat_wxyz": flip_body_axes(log["quat_wxyz"]),
        "mot": np.full((N, 1), -9.9),
    }
    up, flight = read_flight(written()), read_flight(written(**down))
    assert any("z axis points down" in repair for repair in flight.repairs)
    np.testing.assert_allclose(flight.imu, up.imu, atol=1e-9)
    for q in (flight.quaternion, flight.onboard.quaternion):
        np.testing.assert_allclose(np.abs(np.sum(q * up.quaternion, axis=1)), 1.0, atol=1e-9)
    np.testing.assert_allclose(flight.thrust, 9.9)
    assert flight.motors is None
    with refuses("some_flight", "four motors", "collective thrust"):
        flight.require_motors()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            {"imu_t": np.sort(np.r_[DT * np.arange(N - 37), DT * np.arange(37)])},
            "acc, gyro: 37 dup",
        ),
        (changed("acc", [7, 9], NAN), "acc: 2 rows with NaN dropped"),
        (changed("pose_t", 100, NAN), "pos, quat_wxyz, vel: 1 row with NaN dropped"),
        (changed("quat_wxyz", slice(50, 53), 0.0), "quat_wxyz: 3 zero quaternions dropped"),
        ({"quat_wxyz": 1.05 * arrays()["quat_wxyz"]}, "600 quaternions brought to length 1"),
        (without_rows("pose_t", slice(100, 105)), "1 gap of up to 60 ms interpolated"),
        (without_rows("pose_t", slice(100, 150)), "1 gap above 0.1 s, the longest 0.51 s"),
        (without_rows("imu_t", slice(100, 150)), "kept the longest stretch without a gap, 4.5 of"),
    ],
)
def test_a_repair_is_reported_and_right(written, bad, said):
    if len(bad.get("imu_t", ())) == N:
        bad = bad | {
            k: np.repeat(arrays()[k], np.r_[[2] * 37, [1] * (N - 74), [0] * 37], axis=0)
            for k in ("acc", "gyro")
        }
    flight = read_flight(written(**bad))
    assert any(said in repair for repair in flight.repairs), flight.repairs
    np.testing.assert_allclose(np.diff(flight.t), DT, atol=1e-9)
    np.testing.assert_allclose(flight.position, position_at(flight.t), atol=2e-3)
    truth = attitude_at(flight.t)
    assert np.abs(np.sum(flight.quaternion * truth, axis=1)).min() > 1 - 1e-5
    clean = read_flight(written())
    at = np.searchsorted(clean.t, flight.t - 1e-6)
    np.testing.assert_allclose(flight.imu, clean.imu[at], atol=0.02)


def test_a_velocity_that_is_not_there_is_derived(written):
    flight = read_flight(written(without=["vel"]))
    assert "velocity derived from the positions" in flight.repairs
    np.testing.assert_allclose(flight.velocity, velocity_at(flight.t), atol=0.02)


def test_quaternions_that_change_sign_are_interpolated_the_short_way(written):
    flips = np.where(np.arange(N) % 3 == 0, -1.0, 1.0)[:, None]
    flight = read_flight(written(quat_wxyz=flips * arrays()["quat_wxyz"], tau=0.005), tau_ms=5.0)
    assert np.abs(np.sum(flight.quaternion * attitude_at(flight.t), axis=1)).min() > 1 - 1e-6
    assert np.sum(flight.quaternion[1:] * flight.quaternion[:-1], axis=1).min() > 0.99


def test_the_estimate_on_board_is_nan_where_it_has_a_gap(written):
    log = arrays()
    rows = np.r_[0:200, 300:N]
    est = {name: log[name][rows] for name in ("est_t", "est_pos", "est_quat_wxyz")}
    flight = read_flight(written(**est))
    lost = np.isnan(flight.onboard.position).all(axis=1)
    np.testing.assert_array_equal(lost, (flight.t > 1.9901) & (flight.t < 2.9999))
    np.testing.assert_array_equal(lost, np.isnan(flight.onboard.quaternion).all(axis=1))
    assert len(flight.t) == N - 1


def test_a_log_without_motors_is_a_flight_without_motors(written):
    flight = read_flight(written(without=["mot", "mot_t", "vbat"]))
    assert flight.motors is None
    assert flight.battery is None
    with refuses("some_flight", "four motors"):
        flight.require_motors()
    with refuses("some_flight", "voltage"):
        flight.require_battery()


BACKWARDS = DT * np.r_[np.arange(300), np.arange(200, 500)]


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        ({"imu_t": BACKWARDS}, ["acc", "backwards 1 times", "2.990 s to 2.000 s", "row 299"]),
        ({"pose_t": BACKWARDS}, ["pos", "backwards"]),
        ({"mot_t": BACKWARDS}, ["mot", "backwards"]),
        ({"imu_t": np.zeros(N)}, ["acc", "same time"]),
        ({"imu_t": 1e6 * DT * np.arange(N)}, ["no 1 s", "times in seconds"]),
        ({"pose_t": 1.7e9 + DT * np.arange(N)}, ["no 1 s"]),
        (changed("acc", slice(None), NAN), ["acc", "2 rows of finite numbers", "column 0, 1, 2"]),
        (changed("mot", (slice(None), 2), NAN), ["mot", "2 rows of finite numbers", "column"]),
        ({"quat_wxyz": np.zeros((N, 4))}, ["every quaternion", "quat_wxyz", "zero"]),
        (changed("quat_wxyz", 5, 3.0), ["quat_wxyz", "1 quaternions", "no rotation", "length 6"]),
        ({"acc": arrays()["acc"] / 9.81}, ["acc", "in g", "9.81"]),
        ({"acc": 0.01 * arrays()["acc"]}, ["acc", "m/s^2"]),
        ({"gyro": np.degrees(arrays()["gyro"])}, ["gyro", "degrees", "pi / 180"]),
        ({"gyro": np.radians(arrays()["gyro"])}, ["gyro", "radians had been taken for degrees"]),
        ({"gyro": arrays()["gyro"] * [1.0, -1.0, -1.0]}, ["gyro", "same axes"]),
        ({"quat_wxyz": np.roll(arrays()["quat_wxyz"], -1, axis=1)}, ["quat_wxyz", "w first"]),
        ({"quat_wxyz": conjugate(arrays()["quat_wxyz"])}, ["quat_wxyz", "body to world"]),
        ({"acc": arrays()["acc"][:, ::-1]}, ["accelerometer", "9.8", "axes"]),
        ({"pos": 1e3 * arrays()["pos"]}, ["pos", "millimetres"]),
        ({"vel": 3.6 * arrays()["vel"]}, ["vel", "m/s"]),
        ({"mot": arrays()["mot"][:, :3]}, ["mot", "(600, 4)", "(600, 3)"]),
        ({"mot": 2.0 * arrays()["mot"]}, ["mot", "0..65535"]),
        ({"mot": arrays()["mot"] - 4e4}, ["mot", "0..65535"]),
        ({"mot": arrays()["mot"] / 65535}, ["mot", "0..65535", "multiply"]),
        ({"mot": np.full((N, 1), -9.9)}, ["mot", "thrust", "up"]),
        ({"mot": np.full((N, 1), 4e4)}, ["mot", "m/s^2"]),
        ({"vbat": np.full(N, 3800.0)}, ["vbat", "volts"]),
        ({"acc": arrays()["acc"][:-1]}, ["acc", "(600, 3)", "(599, 3)"]),
        ({"acc": arrays()["acc"].ravel()}, ["acc", "(600, 3)", "(1800,)"]),
        ({"pose_t": np.zeros((N, 1))}, ["pose_t", "(n,)", "(600, 1)"]),
        ({"imu_t": np.zeros(0), "acc": np.zeros((0, 3))}, ["imu_t", "(n,)"]),
        ({"pos": np.full((N, 3), "here")}, ["pos", "numbers"]),
        ({"acc": arrays()["acc"].astype(complex)}, ["acc", "numbers"]),
        ({"acc": np.array([None] * N, object)}, ["some_flight.npz", "objects"]),
    ],
)
def test_what_cannot_be_repaired_is_refused(written, bad, parts):
    with refuses(*parts):
        read_flight(written(**bad))


def test_a_flight_in_pieces_of_less_than_a_second_is_refused(written):
    rows = np.flatnonzero(np.arange(N) % 90 < 20)
    with refuses("no 1 s", "gaps above 0.1 s"):
        read_flight(written(**without_rows("pose_t", rows)))


def test_a_hovering_vehicle_is_no_matter_of_units(written):
    rng = np.random.default_rng(0)
    still = {
        "acc": G + 0.05 * rng.normal(size=(N, 3)),
        "gyro": 0.03 + 0.01 * rng.normal(size=(N, 3)),
        "pos": np.full((N, 3), 1.0),
        "vel": 0.002 * rng.normal(size=(N, 3)),
        "quat_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (N, 1)),
    }
    assert read_flight(written(**still)).repairs == ()


def test_a_part_is_a_flight(written):
    flight = read_flight(written())
    part = flight.part(1.0, 3.0)
    assert len(part.t) == 200
    np.testing.assert_array_equal(part.t, flight.t[100:300])
    for name in ("imu", "motors", "battery", "position", "quaternion", "velocity"):
        np.testing.assert_array_equal(getattr(part, name), getattr(flight, name)[100:300])
    np.testing.assert_array_equal(part.onboard.position, flight.onboard.position[100:300])
    assert part.thrust is None
    assert len(flight.part(0.0, 100.0).t) == len(flight.t)
    for start, stop in ((3.0, 1.0), (7.0, 9.0), (NAN, 1.0)):
        with refuses("some_flight", "no part", "5.98 s"):
            flight.part(start, stop)


def test_a_simulated_flight_is_taken_as_it_is():
    t = DT * np.arange(5)
    three, four = np.ones((5, 3), np.float32), np.full((5, 4), 0.5, np.float32)
    flight = Flight.simulated("circle", Flown(t, np.ones((5, 6)), four, three, three, four, three))
    assert flight.repairs == ()
    assert flight.motors.dtype == np.float64
    np.testing.assert_array_equal(flight.motors, four)


def test_slerp_turns_evenly():
    angle = np.array([0.0, 1.0])
    ends = np.stack([np.cos(angle / 2), np.sin(angle / 2), 0 * angle, 0 * angle], axis=1)
    t = np.linspace(0.0, 1.0, 11)
    turned = rotation_vector(slerp(Signal("q", np.array([0.0, 1.0]), ends), t))
    np.testing.assert_allclose(turned[:, 0], t, atol=1e-12)
