"""Windows of flights, their degradation, and a small training on them."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.catalogue import SHARED
from sagewing.logs import Flight
from sagewing.metrics.pose import nees, pose_covariance, pose_std
from sagewing.models.quadrotor import GRAVITY, QDRONE, Q, R
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.flight.records import IMU, POSE, Flights, record, rows_of
from sagewing.problems.flight.setup import NOISE, P0, Q0, R0, estimator
from sagewing.studies.flight import Estimates, make_records, score, window_of
from sagewing.train import Schedule
from sagewing.train.flight import (
    CURRICULUM,
    RECIPES,
    FlightTraining,
    blackout,
    curriculum,
    schedule,
    settings,
    train_flight,
)
from sagewing.train.loop import Stage, train
from sagewing.train.tuning import search

DT = 0.01


def hover(name, seconds, place=0.0, motors=True):
    """A vehicle that stands still, each row marked by its position."""
    rows = round(seconds / DT) + 1
    position = np.zeros((rows, 3))
    position[:, 0] = place + np.arange(rows)
    return Flight(
        name,
        DT * np.arange(rows),
        np.tile([0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0], (rows, 1)),
        position,
        np.tile([1.0, 0.0, 0.0, 0.0], (rows, 1)),
        np.zeros((rows, 3)),
        motors=np.full((rows, 4), 0.538) if motors else None,
    )


def test_windows_come_from_everywhere_in_proportion_to_length():
    joined = Flights.joined([hover("short", 2.0), hover("long", 6.0, place=1000.0)])
    keys = jax.random.split(jax.random.key(0), 4000)
    first = np.asarray(jax.vmap(lambda k: joined.window(k, 51).position[:, 0])(keys))
    np.testing.assert_array_equal(np.diff(first, axis=1), 1.0)  # never across two flights
    long = first[:, 0] >= 1000
    assert abs(long.mean() - 601 / 802) < 0.03
    assert first[long].min() == 1000
    assert first[long].max() == 1600
    assert first[~long].min() == 0
    assert first[~long].max() == 200


def test_flights_of_two_rates_are_not_mixed():
    fast = hover("fast", 2.0)
    with pytest.raises(sw.InputError, match="one rate"):
        Flights.joined([hover("slow", 2.0), replace(fast, t=fast.t / 2)])
    with pytest.raises(sw.InputError, match="no flights"):
        Flights.joined([])


def test_blackouts_are_as_frequent_and_as_long_as_said():
    keys = jax.random.split(jax.random.key(0), 2000)
    mode = np.asarray(jax.vmap(lambda k: blackout(k, 300, 0.5, DT))(keys))
    lost = mode == IMU
    assert abs(lost.any(axis=1).mean() - 0.5) < 0.04
    assert not lost[:, :100].any()
    length = lost.sum(axis=1)
    assert length.max() <= 200
    ended = lost.any(axis=1) & ~lost[:, -1]
    assert length[ended].min() >= 50
    assert not np.asarray(blackout(keys[0], 300, 0.0, DT)).any()


def test_a_record_shows_the_pose_or_the_imu_and_starts_as_the_paper_does():
    flight = hover("one", 4.0)
    steps = len(flight.t) - 1
    mode = jnp.where(jnp.arange(steps) < 100, float(POSE), float(IMU))
    quiet = replace(NOISE["paper"], ratio=1.0)
    made = record(jax.random.key(0), rows_of(flight), mode, 1.0, quiet, DT)
    np.testing.assert_array_equal(made.x0[Q], [1, 0, 0, 0])
    np.testing.assert_array_equal(made.x0[R], flight.position[0])
    assert np.count_nonzero(np.asarray(made.x0)) == 1
    noise = np.asarray(made.z[:100, :3]) - flight.position[1:101]
    assert 0.7 < np.median(np.abs(noise)) / 0.6745 < 1.5
    np.testing.assert_allclose(made.z[100:], flight.imu[101:], atol=1e-6)
    np.testing.assert_allclose(made.u[:, 1:7], flight.imu[1:], atol=1e-6)
    twice = record(jax.random.key(0), rows_of(flight), 0 * mode, 2.0, quiet, DT)
    louder = np.asarray(twice.z[:100, :3]) - flight.position[1:101]
    np.testing.assert_allclose(louder, 2**0.5 * noise, rtol=1e-2, atol=1e-3)


def test_the_curriculum_is_the_papers_and_shrinks_with_it():
    assert curriculum(FlightTraining()) == list(CURRICULUM)
    short = FlightTraining(schedule=schedule(220), shortest=100, longest=200)
    assert curriculum(short) == [(90, 100), (220, 200)]


@pytest.fixture(scope="module")
def flights():
    return [hover("a", 2.0), hover("b", 3.0)]


TINY = FlightTraining(filter="ekf-tuned", schedule=Schedule(4), batch=2, shortest=5, longest=5)


def test_stages_follow_one_another_and_a_cut_training_resumes(tmp_path):
    """A curriculum of two losses: each is minimised in its time, bit for bit after a cut."""

    def towards(goal):
        return lambda weights, key: jnp.sum((weights - goal) ** 2) + jax.random.normal(key)

    stages = [Stage(40, towards(1.0)), Stage(80, towards(-1.0))]
    given = (lambda key: jnp.zeros(3), stages, Schedule(80, 0.1, clip_norm=1e3, batches=2))
    seen = []
    whole = train(*given, [0], report=lambda p: seen.append(p.epoch)).models[0]
    assert 40 in seen
    np.testing.assert_allclose(whole, -1.0, atol=0.1)

    class Cut(Exception):
        pass

    def cut(progress):
        if progress.epoch >= 50:
            raise Cut

    with pytest.raises(Cut):
        train(*given, [0], folder=tmp_path / "t", report=cut)
    again = train(*given, [0], folder=tmp_path / "t", resume=True).models[0]
    np.testing.assert_array_equal(again, whole)


def test_settings_are_plain_and_name_the_flights(flights):
    plain = settings(TINY, flights, [0])
    assert plain["flights"] == ["a, 2.00 s", "b, 3.00 s"]
    assert json.loads(json.dumps(plain))["vehicle"]["mass"] == QDRONE.mass


def test_a_training_goes_on_from_what_it_is_given():
    def loss(weights, key):
        return jnp.sum(weights**2)

    given = (lambda key: jnp.zeros(3), loss, Schedule(1, 1e-3, clip_norm=1.0), [4, 7])
    begun = [jnp.full(3, 1.0), jnp.full(3, -2.0)]
    first, second = train(*given, begin=begun).models
    np.testing.assert_allclose(first, 1.0 - 1e-3, rtol=1e-5)
    np.testing.assert_allclose(second, -2.0 + 1e-3, rtol=1e-5)


def test_shared_networks_begin_as_the_universal_policys_around_tuned_noise(tmp_path):
    made = RECIPES[SHARED].begin(FlightTraining(filter=SHARED), jax.random.key(0))
    begun = sw.Universal.pretrained("universal")
    for own, other in zip(*map(jax.tree.leaves, (made.state, begun.state)), strict=True):
        np.testing.assert_array_equal(own, other)
    made.save(tmp_path / "policy")
    again = sw.Policy.load(tmp_path / "policy")
    assert (again.gate, again.adapts_in, again.bounds) == (3.0, (POSE,), FlightTraining.bounds)
    np.testing.assert_allclose(again.nominal.q, NOMINAL["error-state"].Q0, rtol=1e-6)
    np.testing.assert_allclose(again.nominal.r, R0, rtol=1e-6)


def test_the_search_finds_the_bottom_of_a_valley():
    bottom = np.array([3.0, -2.5, 0.5])
    found, losses = search(lambda p: float(np.sum((p - bottom) ** 2)), (0.0, 0.0, 0.0))
    np.testing.assert_allclose(found, bottom, atol=0.26)
    assert losses == sorted(losses, reverse=True)


def test_what_cannot_be_trained_on_is_said(flights):
    with pytest.raises(sw.InputError, match="fewer than the longest window"):
        train_flight(FlightTraining(), flights, [0])
    with pytest.raises(sw.InputError, match="motor"):
        train_flight(TINY, [hover("c", 2.0, motors=False)], [0])


def test_scores_of_a_perfect_and_of_a_shifted_estimate(flights):
    flight = replace(hover("long", 10.0), position=np.zeros((1001, 3)))
    records, windows = make_records("denial", [flight, hover("b", 8.0)], NOISE["paper"], 0, 2)
    assert records.z.shape == (4, 1000, 6)
    assert windows[0] == slice(400, 600)
    assert np.isnan(np.asarray(records.z)[2, 800:]).all()
    assert (np.asarray(records.u)[0, windows[0], 0] == IMU).all()
    x = np.zeros((4, 1000, 19))
    x[..., Q.start] = 1.0
    x[..., 0] = 3.0
    made = Estimates(x, np.ones((4, 1000)), None, None, None)
    scored = score(made, records, 0, 1000, windows[0])
    assert scored["pos_rmse_m"] == pytest.approx(3.0)
    assert scored["att_rmse_rad"] == 0.0
    with pytest.raises(sw.InputError, match="needs 4 s"):
        window_of(hover("brief", 3.0))


def test_nees_is_six_for_errors_as_large_as_said():
    rng = np.random.default_rng(0)
    n = 20_000
    x = np.zeros((19, n))
    x[Q.start] = 1.0
    turn = 0.01 * rng.normal(size=(3, n))
    truth_q = np.concatenate([np.ones((1, n)), turn / 2])
    truth_q /= np.linalg.norm(truth_q, axis=0)
    P = np.zeros((19, 19))
    P[R, R] = 0.04 * np.eye(3)
    P[Q, Q] = np.diag([1e-12, *[0.01**2 / 4] * 3])
    P = np.broadcast_to(P[..., None], (19, 19, n))
    x, P, position, quaternion = (
        jnp.asarray(a, jnp.float32) for a in (x, P, 0.2 * rng.normal(size=(3, n)), truth_q)
    )
    S = pose_covariance(x, P)
    assert np.mean(nees(x, S, position, quaternion)) == pytest.approx(6.0, rel=0.03)
    np.testing.assert_allclose(pose_std(S)[:, 0], [0.2] * 3 + [0.01] * 3, rtol=1e-4)


def test_the_estimator_runs_both_ways_without_a_pose(flights):
    z = np.tile([0, 0, 0, 0, 0, 0.0], (20, 1))
    for without in ("dynamic", "drag"):
        u = np.concatenate([np.zeros((20, 1)), flights[0].imu[:20], flights[0].motors[:20]], 1)
        u[10:, 0] = IMU
        z[10:] = flights[0].imu[:10]
        model = estimator(without_pose=without)
        x0 = np.zeros(19)
        x0[Q.start] = 1.0
        made = sw.run(sw.EKF(model, Q0, R0), x0, P0, z, u)
        assert np.max(np.abs(made.x[:, :6])) < 0.2
