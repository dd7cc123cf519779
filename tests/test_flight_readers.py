"""The readers of recorded flights: clocks and manifests, damaged files, folders of flights."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flight_files import DT, NAN, refuses, write_flight
from log_files import G, position_at

from sagewing.logs import read_flight, read_flights
from sagewing.logs.rotate import conjugate, rotate

RECORDED = Path(__file__).parents[2] / "shared" / "flights"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded flights are not here")


@pytest.fixture
def written(tmp_path):
    """Writes a log that differs from a good one, and gives its path."""
    return partial(write_flight, tmp_path)


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


@pytest.mark.parametrize("tau_ms", [NAN, np.inf, 2e3])
def test_an_offset_is_a_small_number(written, tau_ms):
    with refuses("tau_ms", "1000"):
        read_flight(written(), tau_ms=tau_ms)


@pytest.mark.parametrize("missing", ["imu_t", "acc", "gyro", "pose_t", "pos", "quat_wxyz", "mot_t"])
def test_a_missing_array_is_named(written, missing):
    with refuses("some_flight.npz", f"no array {missing!r}", "it has"):
        read_flight(written(without=[missing]))


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
