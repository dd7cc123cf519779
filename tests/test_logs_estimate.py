"""Filters on one's own log: the steps that are made of it, and the estimates."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from log_files import (
    Flown,
    attitude_at,
    flown,
    log_of,
    position_at,
    with_noise,
)
from scipy.spatial.transform import Rotation

import sagewing as sw
from sagewing.filters import Attenuation, Frozen
from sagewing.logs.estimate.estimate import estimate_log
from sagewing.logs.estimate.filters import noise_of, steep
from sagewing.logs.estimate.scores import InnovationSeries, whiteness
from sagewing.logs.flight import Pose
from sagewing.logs.rotate import conjugate, multiply, rotate
from sagewing.logs.signal import Signal
from sagewing.logs.timeline import timeline
from sagewing.logs.tum import tum
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.weights import flight_weights
from sagewing.report.log import refusals

FILTERS = ("ekf", "ndr")
POSE_STD = {"position_std": (0.02,) * 3, "attitude_std": 0.005}


@pytest.fixture(scope="module")
def learned():
    return flight_weights(FILTERS, "real", "good", {})


@pytest.fixture(scope="module")
def flight():
    return flown(seconds=6.0, imu_hz=250.0, pose_hz=40.0, late=0.5)


def test_a_pose_lands_in_the_step_that_ends_nearest_to_it(flight):
    line = timeline(log_of(flight))
    came = np.isfinite(line.pose.position[:, 0])
    assert line.step == pytest.approx(1 / 250.0)
    # The first pose is the start, and the IMU before it and after the last one is not used.
    assert came.sum() == len(flight.pose_t) - 1
    assert line.origin == pytest.approx(flight.pose_t[0], abs=1 / 250.0)
    at = line.origin - 100.0 + line.t[came]
    np.testing.assert_allclose(line.pose.position[came], position_at(at), atol=1e-3)
    np.testing.assert_allclose(line.dt, np.diff(line.t, prepend=0.0), atol=1e-12)


def test_the_start_has_the_velocity_of_the_first_poses(flight):
    line = timeline(log_of(flight))
    moved = (position_at(np.array([0.6])) - position_at(np.array([0.5])))[0] / 0.1
    np.testing.assert_allclose(line.start[1], moved, atol=0.5)


def test_a_real_dropout_is_seen_and_a_gap_in_the_imu_is_filled(flight):
    t = flight.pose_t - flight.pose_t[0]
    log = log_of(flight, keep=(t < 2.0) | (t > 3.0))
    gap = (flight.imu_t < 104.0) | (flight.imu_t > 104.1)
    log.acc, log.gyro = (s.select(gap) for s in (log.acc, log.gyro))
    line = timeline(log)
    ((start, stop),) = line.dropouts
    assert stop - start == pytest.approx(1.0, abs=0.06)
    assert line.dt.max() < 1.5 / 250.0
    assert any("gap" in note for note in line.notes)


def test_times_that_would_fill_the_memory_are_refused(flight):
    log = log_of(flight)
    jumped = np.where(np.arange(len(flight.imu_t)) < 700, flight.imu_t, flight.imu_t + 1e9)
    log.gyro, log.acc = log.gyro._replace(t=jumped), log.acc._replace(t=jumped)
    with pytest.raises(sw.InputError, match=r"gaps of up to 1e\+09 s"):
        timeline(log)


def test_a_row_counts_the_poses_that_a_filter_refused(flight):
    log = log_of(flight)
    position = log.position.value.copy()
    position[[80, 120, 121]] = 1e6
    log.position = log.position._replace(value=position)
    line = timeline(log)
    (row,) = estimate_log(line, ("ekf",), {}, **POSE_STD).rows
    assert (row["refused"], row["restarts"]) == (3, 0)
    (said,) = refusals([row])
    assert f"refused 3 of {row['poses']} poses" in said


def turned_log(flight, turn):
    """The flight of an IMU that is mounted otherwise; `turn` is from our body to that one."""
    log = log_of(flight)
    back = np.broadcast_to(conjugate(turn), flight.quaternion.shape)
    over = np.broadcast_to(turn, (len(flight.imu_t), 4))
    log.acc = log.acc._replace(value=rotate(over, flight.acc))
    log.gyro = log.gyro._replace(value=rotate(over, flight.gyro))
    log.quaternion = log.quaternion._replace(value=multiply(flight.quaternion, back))
    return log


def test_an_imu_mounted_on_its_side_is_turned_upright_and_back(flight, learned):
    turn = np.array([[np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0]])  # z becomes x, as in EuRoC
    line = timeline(turned_log(flight, turn))
    assert any("mounted" in note for note in line.notes)
    made = estimate_log(line, ("ekf",), {}, **POSE_STD)
    back = line.in_log_axes(made.scene.tracks[0].pose)
    at = line.origin - 100.0 + made.scene.t
    upright = timeline(log_of(flight))
    expected = upright.in_log_axes(
        estimate_log(upright, ("ekf",), {}, **POSE_STD).scene.tracks[0].pose
    )
    over = np.broadcast_to(conjugate(turn), expected.quaternion.shape)
    same = np.abs(np.sum(multiply(expected.quaternion, over) * back.quaternion, axis=1))
    np.testing.assert_allclose(same[at > 1.0], 1.0, atol=2e-3)


class Counting(Frozen):
    """How often it was asked."""

    def init(self, q, r):
        return jnp.zeros(())

    def __call__(self, memory, info):
        return Attenuation(), memory + 1.0, None


def test_between_measurements_a_filter_goes_on_as_in_a_step_without_any():
    filt = sw.EKF(sw.models.Lorenz(), [0.01] * 3, [1.0, 2.0])
    filt = eqx.tree_at(lambda f: f.rule.policy, filt, Counting())
    state = filt.init(jnp.array([1.0, 2.0, 3.0]), 0.1 * jnp.eye(3))
    dt, nothing = jnp.float32(0.01), jnp.zeros(2)
    stepped, _ = eqx.filter_jit(filt.step)(state, nothing, None, dt, nothing > 0)
    predicted, _ = eqx.filter_jit(filt.predict_only)(state, None, dt)
    np.testing.assert_allclose(predicted.x, stepped.x, atol=1e-5)
    np.testing.assert_allclose(predicted.P, stepped.P, atol=1e-6)
    assert (predicted.memory, stepped.memory) == (0.0, 1.0)


def test_filters_follow_a_log_of_several_rates_and_dead_reckon_through_an_outage(flight, learned):
    noisy = with_noise(flight, 0.02)
    line = timeline(log_of(noisy))
    made = estimate_log(line, FILTERS, learned, outages=[(3.0, 4.0)], **POSE_STD)
    at = line.origin - 100.0 + made.scene.t
    hidden = (made.scene.t >= 3.0) & (made.scene.t < 4.0)
    assert not made.scene.arrived[hidden].any()
    assert np.isnan(made.scene.measured.position[hidden]).all()
    for track, row in zip(made.scene.tracks, made.rows, strict=True):
        apart = np.linalg.norm(track.pose.position - position_at(at), axis=1)
        assert np.sqrt(np.mean(apart[~hidden] ** 2)) < 0.1, track.name
        assert 0.0 < row["drift_m"] < 1.0
        assert "pos_rmse_m" not in row  # the pose is no truth where the filter has seen it
        assert np.isnan(track.nis[made.scene.arrived == 0]).all()
        spread = track.position_std[np.flatnonzero(hidden)[[0, -1]]]
        assert (spread[1] > spread[0]).all()
    assert made.scene.tracks[0].q is None
    assert made.scene.tracks[1].d.shape == (len(at), 24)  # 18 errors and 6 channels


def test_a_truth_of_its_own_gives_errors_over_the_whole_log(flight):
    noisy = with_noise(flight, 0.02)
    truth = {
        "truth_position": Signal("true position", flight.pose_t, flight.position),
        "truth_quaternion": Signal("true attitude", flight.pose_t, flight.quaternion),
    }
    (row,) = estimate_log(timeline(log_of(noisy, **truth)), ("ekf",), {}, **POSE_STD).rows
    assert 0.001 < row["pos_rmse_m"] < 0.04
    assert row["att_rmse_rad"] < 0.05


def test_a_position_without_attitude_is_a_pose_with_channels_missing(flight):
    log = log_of(flight)
    log.onboard_quaternion, log.quaternion = log.quaternion, None
    line = timeline(log)
    assert any("no attitude is measured" in note for note in line.notes)
    made = estimate_log(line, ("ekf",), {}, position_std=(0.02,) * 3)
    assert set(made.scene.arrived) == {0.0, 3.0}
    assert made.rows[0]["nis_expected"] == 3.0
    at = line.origin - 100.0 + made.scene.t
    apart = np.linalg.norm(made.scene.tracks[0].pose.position - position_at(at), axis=1)
    assert np.sqrt(np.mean(apart**2)) < 0.1


def test_fitted_noise_is_raised_for_a_worse_pose_and_kept_for_a_better_one(learned):
    own = np.asarray(learned["ndr"].nominal.r[0])
    for std in (1e-4, 3.0):
        noise = noise_of(learned["ndr"], (std,) * 3, None, turns=True)
        np.testing.assert_allclose(noise.r[:3], np.maximum(own[:3], std**2), rtol=1e-6)
        np.testing.assert_allclose(noise.r[3:], own[3:], rtol=1e-6)
        assert noise_of(None, (std,) * 3, None, turns=True).r[:3] == pytest.approx(std**2)


def test_with_a_noisy_gps_alone_the_attitude_is_not_lost():
    flight = flown(seconds=20.0, imu_hz=100.0, pose_hz=5.0)
    log = log_of(with_noise(flight, 1.0))
    log.onboard_quaternion, log.quaternion = log.quaternion, None
    log.truth_position = Signal("true position", flight.imu_t, position_at(flight.imu_t - 100.0))
    log.truth_quaternion = Signal("true attitude", flight.imu_t, attitude_at(flight.imu_t - 100.0))
    (row,) = estimate_log(timeline(log), ("ekf",), {}, position_std=(1.0,) * 3).rows
    assert row["pos_rmse_m"] < 1.0 * np.sqrt(3.0)  # better than the fixes themselves
    assert row["att_rmse_rad"] < 0.3
    assert 0.5 < row["nis_mean"] / row["nis_expected"] < 2.0


def test_whiteness_is_the_correlation_of_neighbours():
    rng = np.random.default_rng(0)
    white = rng.standard_normal((4000, 2))
    all_came = np.ones_like(white, bool)
    assert abs(whiteness(InnovationSeries(white, all_came, all_came[:, 0], 0))) < 0.05
    slow = np.cumsum(white, axis=0)
    assert whiteness(InnovationSeries(slow, all_came, all_came[:, 0], 0)) > 0.9


def test_a_tum_file_has_the_scalar_last_and_no_rows_of_nan():
    pose = Pose(np.array([[1.0, 2.0, 3.0], [np.nan] * 3]), np.array([[0.5, 0.1, 0.2, 0.3]] * 2))
    _, line, end = tum(np.array([7.0, 8.0]), pose).decode().split("\n")
    assert [float(v) for v in line.split()] == [7.0, 1.0, 2.0, 3.0, 0.1, 0.2, 0.3, 0.5]
    assert end == ""


def test_an_interrupt_does_not_wait_for_the_end_of_the_log(flight):
    line = timeline(log_of(flight))

    def interrupted(name, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        estimate_log(line, ("ekf",), {}, report=interrupted)


def on_its_tail(seconds=12.0, noise=0.01):
    """A vehicle that stands in the air, level for 7 s and then at a pitch of 90 degrees.

    Its pose is good to 0.6 degrees.
    """
    rng, t = np.random.default_rng(0), np.arange(0.0, seconds, 0.01)
    pitch = -0.5 * np.pi * np.clip(t - 7.0, 0.0, 1.0)
    rate = np.zeros((len(t), 3))
    rate[:, 1] = np.gradient(pitch, t)
    attitude = Rotation.from_rotvec(np.outer(pitch, [0.0, 1.0, 0.0]))
    force = attitude.inv().apply([0.0, 0.0, 9.81])
    seen = attitude * Rotation.from_rotvec(noise * rng.normal(size=(len(t), 3)))
    position = np.array([1.0, 2.0, 3.0]) + 0.02 * rng.normal(size=(len(t), 3))
    return Flown(t, force, rate, t + 0.003, position, seen.as_quat(scalar_first=True)), attitude


def test_a_vehicle_that_hovers_on_its_tail_keeps_its_attitude():
    flight, attitude = on_its_tail()
    line = timeline(log_of(flight))
    assert not [note for note in line.notes if "WARNING" in note]
    learned = flight_weights(("ndr-universal",), "real", "good", {})
    filters = ("ekf", "shkf995", "ndr-universal")
    made = estimate_log(line, filters, learned, position_std=(0.02,) * 3, attitude_std=0.01)
    true = attitude[np.round(100.0 * (line.origin + made.scene.t)).astype(int)]
    for track in made.scene.tracks:
        found = Rotation.from_quat(track.pose.quaternion, scalar_first=True)
        assert np.rad2deg((true.inv() * found).magnitude()).max() < 3.0, track.name
        assert (track.attitude_std < 0.02).all(), track.name


def test_of_Euler_angles_on_a_tail_one_is_warned(flight):
    noise = {"ekf-gated": sw.Noise(NOMINAL["euler"].Q0, NOMINAL["euler"].R0)}
    tail = timeline(log_of(on_its_tail()[0])).pose.quaternion
    (said,) = steep(("ekf", "ekf-gated"), noise, tail)
    assert said.startswith("WARNING: ekf-gated was trained with Euler angles")
    assert steep(("ekf",), noise, tail) == []
    assert steep(("ekf-gated",), noise, timeline(log_of(flight)).pose.quaternion) == []


def test_a_learned_part_for_19_states_runs_with_the_papers_euler_angles(flight):
    noise = sw.Noise(NOMINAL["euler"].Q0, NOMINAL["euler"].R0)
    made = estimate_log(timeline(log_of(flight)), ("ekf", "ekf-gated"), {"ekf-gated": noise})
    own, other = (track.pose.quaternion for track in made.scene.tracks)
    np.testing.assert_allclose(np.abs(np.sum(own * other, axis=1)), 1.0, atol=1e-3)
    assert not np.array_equal(own, other)
