"""What a log becomes: one flight on one clock, repaired and reported, or refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import sagewing as sw
from sagewing.logs import Flight, read_flight, read_flights
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

RECORDED = Path(__file__).parents[2] / "shared" / "flights"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded flights are not here")

G = np.array([0.0, 0.0, 9.81])
N, DT = 600, 0.01
NAN = float("nan")


def position_at(t):
    return np.stack([np.sin(1.3 * t), np.cos(1.7 * t), 1.0 + 0.3 * np.sin(0.9 * t)], axis=1)


def velocity_at(t):
    e = 1e-4
    return (position_at(t + e) - position_at(t - e)) / (2 * e)


def attitude_at(t):
    """The thrust along the specific force, and some yaw."""
    e = 1e-3
    up = (velocity_at(t + e) - velocity_at(t - e)) / (2 * e) + G
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    tilt = np.concatenate([1 + up[:, 2:], -up[:, 1:2], up[:, :1], np.zeros((len(t), 1))], axis=1)
    tilt /= np.linalg.norm(tilt, axis=1, keepdims=True)
    yaw = 0.4 * np.sin(t)
    zero = np.zeros_like(t)
    return multiply(tilt, np.stack([np.cos(yaw), zero, zero, np.sin(yaw)], axis=1))


def arrays(tau=0.0):
    """A log of 6 s; the pose clock is late by tau."""
    t = DT * np.arange(N)
    e = 1e-3
    q, a = attitude_at(t), (velocity_at(t + e) - velocity_at(t - e)) / (2 * e)
    before, after = attitude_at(t - e), attitude_at(t + e)
    pwm = 30000.0 + 5000.0 * np.sin(t[:, None] + np.arange(4.0))
    return {
        "imu_t": t,
        "acc": rotate(conjugate(q), a + G),
        "gyro": rotation_vector(multiply(conjugate(before), after)) / (2 * e),
        "pose_t": t + tau,
        "pos": position_at(t),
        "quat_wxyz": q,
        "vel": velocity_at(t),
        "mot_t": t,
        "mot": pwm,
        "vbat": np.full(N, 3.8),
        "est_t": t,
        "est_pos": position_at(t) + 0.1,
        "est_quat_wxyz": q,
    }


@pytest.fixture
def written(tmp_path):
    """Writes a log that differs from a good one, and gives its path."""

    def write(name="some_flight", without=(), tau=0.0, **changed):
        log = arrays(tau) | changed
        path = tmp_path / f"{name}.npz"
        np.savez(path, **{key: value for key, value in log.items() if key not in without})
        return path

    return write


def refuses(*parts):
    line = ".*".join(map(re.escape, parts))
    return pytest.raises(sw.InputError, match=rf"\A.*{line}.*\.\Z")


def changed(name, rows, value):
    array = np.array(arrays()[name])
    array[rows] = value
    return {name: array}


def without_rows(clock, rows):
    """The log without these rows of everything that shares a clock."""
    shared = {"imu_t": ["acc", "gyro"], "pose_t": ["pos", "quat_wxyz", "vel"]}[clock]
    return {name: np.delete(arrays()[name], rows, axis=0) for name in [clock, *shared]}


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


def test_the_pose_clock_is_moved_and_that_of_the_vehicles_own_estimate_is_not(written, tmp_path):
    (tmp_path / "manifest.csv").write_text("flight,tau_ms\nsome_flight,40\n")
    for flight in (read_flight(written(tau=0.04)), read_flight(written(tau=0.04), tau_ms=40.0)):
        np.testing.assert_allclose(flight.position, position_at(flight.t), atol=1e-4)
        np.testing.assert_allclose(flight.onboard.position, flight.position + 0.1, atol=1e-4)
    unmoved = read_flight(written(tau=0.04), tau_ms=0.0)
    assert np.abs(unmoved.position - position_at(unmoved.t)).max() > 0.02


def test_the_manifest_may_lie_in_the_folder_above(tmp_path, written):
    (tmp_path / "manifest.csv").write_text("flight,tau_ms\nsome_flight,40\n")
    below = tmp_path / "below"
    below.mkdir()
    path = written(tau=0.04).rename(below / "some_flight.npz")
    flight = read_flight(path)
    np.testing.assert_allclose(flight.position, position_at(flight.t), atol=1e-4)


def test_a_flight_that_the_manifest_does_not_list_says_so(written, tmp_path):
    (tmp_path / "manifest.csv").write_text("flight,tau_ms\nother,40\n")
    assert "not listed in manifest.csv" in read_flight(written()).repairs[0]


@pytest.mark.parametrize("text", ["flight\nsome_flight\n", "flight,tau_ms\nsome_flight,late\n"])
def test_a_broken_manifest_is_named(written, tmp_path, text):
    (tmp_path / "manifest.csv").write_text(text)
    with refuses("manifest.csv", "tau_ms"):
        read_flight(written())


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


@pytest.mark.parametrize("missing", ["imu_t", "acc", "gyro", "pose_t", "pos", "quat_wxyz", "mot_t"])
def test_a_missing_array_is_named(written, missing):
    with refuses("some_flight.npz", f"no array {missing!r}", "it has"):
        read_flight(written(without=[missing]))


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


@pytest.mark.parametrize("tau_ms", [NAN, np.inf, 2e3])
def test_an_offset_is_a_small_number(written, tau_ms):
    with refuses("tau_ms", "1000"):
        read_flight(written(), tau_ms=tau_ms)


def test_files_that_are_no_logs_are_named(tmp_path, written):
    whole = written().read_bytes()
    damaged = bytearray(whole)
    damaged[3000:3100] = b"x" * 100
    np.save(tmp_path / "one.npy", np.zeros(3))
    contents = {
        "cut": whole[: len(whole) // 2],
        "damaged": bytes(damaged),
        "text": b"t,x,y\n",
        "empty": b"",
        "one": (tmp_path / "one.npy").read_bytes(),
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with refuses(f"{name}.npz"):
            read_flight(path)
    with refuses("no flight", "nowhere.npz"):
        read_flight(tmp_path / "nowhere.npz")
    with refuses(str(tmp_path)):
        read_flight(tmp_path)


def test_flights_are_chosen_by_the_words_of_their_names(written, tmp_path):
    for name in ("B3_oval_fast", "B2_circle_slow", "B2_circle_fast"):
        written(name)

    def names(shapes):
        return [flight.name for flight in read_flights(tmp_path, shapes)]

    assert names(None) == ["B2_circle_fast", "B2_circle_slow", "B3_oval_fast"]
    assert names(("circle",)) == names(["b2"]) == ["B2_circle_fast", "B2_circle_slow"]
    assert names(("oval", "slow")) == ["B2_circle_slow", "B3_oval_fast"]
    with refuses("shapes", "'spiral'", "B2_circle", "B3_oval"):
        names(("circle", "spiral"))


def test_a_folder_without_flights_is_named(tmp_path):
    with refuses(
        "no .npz",
    ):
        read_flights(tmp_path)
    with refuses("no folder", "nowhere"):
        read_flights(tmp_path / "nowhere")


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


def misfit(flight):
    """The specific force less that of the truth, in the middle of the flight."""
    wide = 5
    v, s = flight.velocity, slice(400, -400)
    a = np.zeros_like(v)
    a[wide:-wide] = (v[2 * wide :] - v[: -2 * wide]) / (2 * wide * flight.dt)
    seen = rotate(conjugate(flight.quaternion), a + G)
    felt = np.stack([np.convolve(x, np.ones(10) / 10, "same") for x in flight.imu[:, :3].T], axis=1)
    return (felt - seen)[s]


@recorded
@pytest.mark.parametrize("folder", ["nanobench", "blackbird"])
def test_recorded_flights_obey_newton(folder):
    shapes = ("oval",) if folder == "nanobench" else None
    left = [misfit(flight) for flight in read_flights(RECORDED / folder, shapes)]
    assert np.median([x.std(axis=0) for x in left]) < 0.2
    assert np.abs([x.mean(axis=0) for x in left]).max() < 0.7


@recorded
def test_every_recorded_flight_is_read():
    flights = read_flights(RECORDED)
    assert len(flights) == 47
    assert sum(flight.seconds for flight in flights) > 1500.0
    assert all(flight.dt == pytest.approx(DT) for flight in flights)
    assert [flight.name for flight in flights if flight.motors is None] == [
        "clover_yawForward_maxSpeed5p0_train"
    ]
