"""Policies in filters of another size: the paper's zero-fill embedding, and tiles the other way."""

import json
import types
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.cli import bench_transfer
from sagewing.cli.output import NewOutput
from sagewing.filters import StepInfo
from sagewing.logs import Flight
from sagewing.models import QuadrotorKinematic
from sagewing.policy.ndr.embedding import FLIGHT_TILES
from sagewing.policy.ndr.features import FEATURES
from sagewing.policy.ndr.untrained import untrained
from sagewing.problems.chaos import PROTOCOLS
from sagewing.problems.flight.setup import P0, Q0, R0
from sagewing.report.transfer import PAPER, lines_of
from sagewing.studies import flight
from sagewing.studies.transfer import (
    BOUNDS,
    COUPLED,
    FROM_CHAOS,
    FROM_FLIGHT,
    OFFSETS,
    UNTRAINED,
    to_chaos,
    to_flight,
)

SMALL = {"hidden": 5, "encoder": (6, 4), "context": (4,), "head": (7,), "decoder": (4,)}
KEY = jax.random.key(3)
N_X, N_Z = 19, 6


@cache
def flight_policy(features="whitened"):
    return sw.Policy(sw.Architecture(N_X, N_Z, features, **SMALL), key=KEY)


@cache
def chaos_policy():
    return sw.Policy(sw.Architecture(3, 2, **SMALL), key=KEY)


def seen_by(n_x, n_z, *batch, seed=0):
    """A step of a filter, with a positive definite S."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(*batch, n_z, n_z)) + 2.0 * np.eye(n_z)
    S = A @ np.swapaxes(A, -1, -2)
    L = np.linalg.cholesky(S)
    nu = 3.0 * rng.normal(size=(*batch, n_z, 1))
    white, K = np.linalg.solve(L, nu), rng.normal(size=(*batch, n_x, n_z))
    q, r = rng.uniform(size=(*batch, n_x)), rng.uniform(size=(*batch, n_z))

    def last(a, n):
        return jnp.asarray(np.moveaxis(a, range(-n, 0), range(n)), jnp.float32)

    vectors = (last(nu[..., 0], 1), last(white[..., 0], 1))
    rest = (last(S, 2), last(L, 2), last(K, 2), last(q, 1), last(r, 1))
    return StepInfo(*vectors, *rest, jnp.ones((n_z, *batch), bool))


@eqx.filter_jit
def decided(policy, y):
    """d of the first step, from the features."""
    y = jnp.clip(y, -policy.arch.clip, policy.arch.clip)
    signal = policy.encoder(y)
    hidden = []
    for gru in policy.grus:
        signal = gru(signal, jnp.zeros(policy.arch.hidden))
        hidden.append(signal)
    return jax.nn.sigmoid(policy.head(jnp.concatenate([policy.context(hidden[0]), signal])))


@eqx.filter_jit
def first_step(policy, seen):
    return policy(policy.init(seen.q, seen.r), seen)[0]


@eqx.filter_jit
def embedded_features(policy, seen):
    return FEATURES[policy.policy.arch.features].build(policy.embed(seen))


@pytest.mark.parametrize(("z_off", "x_off"), OFFSETS)
def test_the_embedding_is_the_papers_equations(z_off, x_off):
    policy, seen = flight_policy(), seen_by(3, 2)
    embedded = sw.Embedded(policy, 3, 2, x_off, z_off)

    y_uav = np.zeros(126, np.float32)
    K_uav = np.zeros((19, 6), np.float32)
    y_uav[z_off : z_off + 2] = seen.white
    y_uav[6 + z_off : 6 + z_off + 2] = np.log(np.diag(seen.L))
    K_uav[x_off : x_off + 3, z_off : z_off + 2] = seen.K
    y_uav[12:] = K_uav.ravel()
    np.testing.assert_allclose(embedded_features(embedded, seen), y_uav, rtol=1e-6, atol=0.0)

    d = first_step(embedded, seen)
    d_uav = decided(policy, jnp.asarray(y_uav))
    np.testing.assert_allclose(d.q, d_uav[x_off : x_off + 3], rtol=1e-5)
    np.testing.assert_allclose(d.r, d_uav[19 + z_off : 19 + z_off + 2], rtol=1e-5)


def test_in_other_features_too_the_inactive_channels_look_as_if_they_did_not_arrive():
    seen = seen_by(3, 2)
    K_uav = np.zeros((19, 6), np.float32)
    K_uav[8:11, 2:4] = seen.K

    def features(name):
        policy = flight_policy(name)
        y = embedded_features(sw.Embedded(policy, 3, 2, 8, 2), seen)
        assert y.shape == (policy.arch.n_y,)
        np.testing.assert_array_equal(y[-114:], K_uav.ravel())
        return np.asarray(y[:-114])

    np.testing.assert_allclose(features("nis"), [np.sum(np.asarray(seen.white) ** 2)], rtol=1e-6)
    np.testing.assert_array_equal(features("whitened-no-log"), [0, 0, *seen.white, 0, 0])
    variances = [1, 1, *np.diag(seen.S), 1, 1]
    np.testing.assert_array_equal(features("raw"), [0, 0, *seen.nu, 0, 0, *variances])


@pytest.mark.parametrize(
    ("n_x", "n_z", "x_off", "z_off", "words"),
    [
        (3, 2, 17, 4, "x_off = 17 does not fit: .* 3 of the policy's 19 states .* 0..16"),
        (3, 2, 16, 5, "z_off = 5 does not fit: .* 2 of the policy's 6 channels .* 0..4"),
        (3, 2, -1, 0, "x_off = -1 does not fit"),
        (20, 2, 0, 0, "room for 19 states; the model has 20"),
        (3, 7, 0, 0, "room for 6 channels; the model has 7"),
    ],
)
def test_an_offset_that_does_not_fit_is_refused(n_x, n_z, x_off, z_off, words):
    with pytest.raises(sw.InputError, match=words):
        sw.Embedded(flight_policy(), n_x, n_z, x_off, z_off)


def test_an_embedded_policy_refuses_another_model():
    embedded = sw.Embedded(flight_policy(), 3, 2, 0, 0)
    with pytest.raises(sw.InputError, match="embedded for n_x = 3"):
        sw.NDRSageHusa(sw.models.Lorenz(), [0.01] * 3, [1.0], embedded)


def test_bounds_and_gain_noise_are_the_policys_unless_the_filter_says_otherwise():
    policy = sw.Policy(sw.Architecture(N_X, N_Z, **SMALL), (1e-6, 1e3), "posterior", key=KEY)
    model, noise = sw.models.Lorenz(), ([0.01] * 3, [1.0, 2.0])
    own = sw.NDRSageHusa(model, *noise, sw.Embedded(policy, 3, 2, 0, 0))
    assert (own.rule.bounds, own.rule.gain_noise) == ((1e-6, 1e3), "posterior")
    other = sw.NDRSageHusa(model, *noise, sw.Embedded(policy, 3, 2, 0, 0, (0.1, 100.0), "prior"))
    assert (other.rule.bounds, other.rule.gain_noise) == ((0.1, 100.0), "prior")


def test_all_offsets_share_one_compiled_program():
    policy = flight_policy()
    first, last = (sw.Embedded(policy, 3, 2, x_off, z_off) for x_off, z_off in ((0, 0), (16, 4)))
    assert jax.tree.structure(first) == jax.tree.structure(last)


@pytest.mark.parametrize("make", ["embedded", "tiled"])
def test_a_batch_of_records_is_decided_record_by_record(make):
    small = make == "embedded"
    policy = sw.Embedded(flight_policy(), 3, 2, 8, 2) if small else sw.Tiled(chaos_policy())
    seen = seen_by(policy.n_x, policy.n_z, 3)
    batch, one = first_step(policy, seen), first_step(policy, jax.tree.map(_second, seen))
    np.testing.assert_allclose(_second(batch.q), one.q, rtol=1e-5)
    np.testing.assert_allclose(_second(batch.r), one.r, rtol=1e-5)


def _second(a):
    return jnp.asarray(np.asarray(a)[..., 1])


def test_every_state_and_channel_of_a_flight_is_in_a_tile():
    assert {i for tile in FLIGHT_TILES.states for i in tile} == set(range(19))
    assert {i for tile in FLIGHT_TILES.channels for i in tile} == set(range(6))


def test_a_tile_decides_as_the_policy_would_alone_and_shared_channels_get_the_mean():
    policy, seen = chaos_policy(), seen_by(N_X, N_Z)
    tiled = sw.Tiled(policy)
    d = first_step(tiled, seen)

    def alone(states, channels):
        white = np.asarray(seen.white)[channels]
        diagonal = np.log(np.diag(seen.L))[channels]
        K = np.asarray(seen.K)[np.ix_(states, channels)]
        return np.asarray(decided(policy, np.concatenate([white, diagonal, K.ravel()])))

    # The y axis: position, velocity, accelerometer bias; quaternion, rate, gyroscope bias
    y = np.array([1, 4])
    along = alone([1, 4, 14], y)
    about, scalar = alone([8, 11, 17], y), alone([6, 11, 17], y)
    np.testing.assert_allclose(d.q[np.array([1, 4, 14])], along[:3], rtol=1e-5)
    np.testing.assert_allclose(d.q[8], about[0], rtol=1e-5)
    np.testing.assert_allclose(d.q[11], (about[1] + scalar[1]) / 2, rtol=1e-5)
    np.testing.assert_allclose(d.r[y], (along[3:] + about[3:] + scalar[3:]) / 3, rtol=1e-5)
    others = [alone([6, 10 + i, 16 + i], np.array([i, 3 + i]))[0] for i in range(3)]
    np.testing.assert_allclose(d.q[6], np.mean(others), rtol=1e-5)


def test_the_tiles_do_not_care_which_axis_is_called_x():
    tiled, seen = sw.Tiled(chaos_policy()), seen_by(N_X, N_Z, 4)
    x = np.array([1, 0, 2, 4, 3, 5, 6, 8, 7, 9, 11, 10, 12, 14, 13, 15, 17, 16, 18])
    z = np.array([1, 0, 2, 4, 3, 5])
    given = StepInfo(*(np.asarray(a) for a in seen[:-1]))
    swapped = StepInfo(
        nu=given.nu[z],
        white=given.white[z],
        S=given.S[z][:, z],
        L=given.L[z][:, z],
        K=given.K[x][:, z],
        q=given.q[x],
        r=given.r[z],
        arrived=given.arrived[z],
    )
    d, d_swapped = first_step(tiled, seen), first_step(tiled, jax.tree.map(jnp.asarray, swapped))
    np.testing.assert_allclose(d_swapped.q, np.asarray(d.q)[x], rtol=1e-5)
    np.testing.assert_allclose(d_swapped.r, np.asarray(d.r)[z], rtol=1e-5)


def test_a_policy_without_the_sizes_of_a_tile_is_refused():
    with pytest.raises(sw.InputError, match="A tile has 3 states; the policy was made for 19"):
        sw.Tiled(flight_policy())


def hovering(seconds=4.5):
    """A flight that stays where it is."""
    t = 0.01 * np.arange(round(100 * seconds))
    zeros = np.zeros((len(t), 3))
    force = np.tile([0.0, 0.0, 9.81], (len(t), 1))
    attitude = np.tile([1.0, 0.0, 0.0, 0.0], (len(t), 1))
    motors = np.full((len(t), 4), 1.121 * 9.81 / (4 * 5.11))
    return Flight("hover", t, np.hstack([force, zeros]), zeros, attitude, zeros, motors)


def test_on_chaos_there_is_a_row_for_each_offset_after_the_filters_at_home():
    found = to_chaos(flight_policy(), "lorenz", PROTOCOLS["paper"], seed=0, runs=3, steps=5)
    places = [(row["filter"], row["z_off"], row["x_off"]) for row in found.rows]
    assert [name for name, *_ in places[:3]] == ["ekf", UNTRAINED, "ndr"]
    assert places[3:] == [(FROM_FLIGHT, *offset) for offset in OFFSETS]
    errors = [row["armse_mean"] for row in found.rows]
    assert np.all(np.isfinite(errors))
    assert len(set(errors)) == len(errors)


def test_an_untrained_policy_says_one_half():
    filt = sw.NDRSageHusa(
        sw.models.Lorenz(),
        [0.1] * 3,
        [1.0] * 2,
        untrained([0.1] * 3, [1.0] * 2, BOUNDS, "posterior"),
    )
    z = np.random.default_rng(0).normal(size=(4, 2))
    assert np.all(sw.run(filt, np.ones(3), np.eye(3), z, dt=0.01).d == 0.5)


def test_a_tiled_policy_filters_a_flight():
    filt = sw.NDRSageHusa(QuadrotorKinematic(), Q0, R0[0], sw.Tiled(chaos_policy()))
    flown = hovering().part(0.0, 0.05)
    x0 = np.zeros(19)
    x0[6] = 1.0
    z = np.random.default_rng(0).normal(size=(5, 6))
    found = sw.run(filt, x0, P0, z, u=flown.imu, dt=flown.dt)
    assert found.d.shape == (5, 25)
    assert np.all((found.d > 0.0) & (found.d < 1.0))
    assert np.all(found.ok)


def test_in_flight_the_moved_policy_has_rows_like_those_at_home(monkeypatch):
    built = {}

    def estimate(filt, records, dt, attitude):
        assert attitude == "euler"
        runs, steps, _ = records.z.shape
        built[len(built)] = filt
        x = np.zeros((runs, steps, 19)) + np.eye(19)[6]
        return flight.Estimates(x, np.full((runs, steps), 6.0), None, None, None)

    monkeypatch.setattr(flight, "estimate", estimate)
    given = {"home": flight_policy(), "seeds": 2, "bounds": (0.5, 7.0)}
    rows = to_flight(chaos_policy(), "denial", [hovering()], **given)
    assert [row["filter"] for row in rows[::2]] == ["ekf", "shkf995", "shkf999", "ndr", FROM_CHAOS]
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert [type(built[i].rule.policy) for i in (3, 4)] == [sw.Policy, sw.Tiled]
    assert [built[i].rule.bounds for i in (3, 4)] == [flight_policy().bounds, (0.5, 7.0)]


def test_the_table_has_the_papers_lines_in_the_papers_order():
    assert set(PAPER["lorenz"]) == set(PAPER["rossler"]) == {"ekf", "ndr", *OFFSETS}
    figures = {"armse_mean": 0.5, "armse_std": 0.1, "divergence_pct": 2.2}
    rows = [
        {"filter": FROM_FLIGHT, "system": system, "z_off": z, "x_off": x, **figures}
        for system in PAPER
        for z, x in reversed(OFFSETS)
    ]
    lines = lines_of(rows)
    assert len(lines) == 8
    assert {line.group for line in lines[: len(COUPLED)]} == {
        "coupled linear shift, x_off = 4 z_off"
    }
    found = next(line for line in lines if line.name == "z_off 3, x_off 0")
    assert [paper.mean for paper in found.paper] == [0.580, 0.515]


def test_the_command_prints_both_tables_and_leaves_its_result(tmp_path, capsys, monkeypatch):
    def in_flight(small, scenario, flights, *, home, **given):
        assert (small.arch.n_x, home.arch.n_x, len(flights)) == (3, 19, 1)
        error = {"pos_rmse_m": 0.51234, "att_rmse_rad": 0.1}
        return [{"filter": name, "scenario": scenario, **error} for name in ("ekf", FROM_CHAOS)]

    flights = types.SimpleNamespace(test=[hovering()])
    monkeypatch.setattr(bench_transfer, "simulated", lambda seed, parts: flights)
    monkeypatch.setattr(bench_transfer, "to_flight", in_flight)
    flight_policy().save(tmp_path / "flight")
    out = tmp_path / "out"
    command = bench_transfer.BenchTransfer(
        policy=str(tmp_path / "flight"), output=NewOutput(out, tmp_path / "r.json"), runs=3, steps=5
    )
    command()
    printed = capsys.readouterr().out
    assert "z_off 4, x_off 16" in printed
    assert "from chaos" in printed
    assert "0.512" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    result = json.loads((out / "result.json").read_text())
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert (result["command"], result["settings"]["bounds"]) == ("bench transfer", [0.1, 100.0])
    assert len(result["rows"]) == 2 * (3 + 8) + 3 * 2
    assert "| z_off 3, x_off 12 |" in (out / "table.md").read_text()
    assert "| NDR-SHKF, from chaos | 0.512 |" in (out / "table.md").read_text()
    assert r"z\_off 3, x\_off 12 &" in (out / "table.tex").read_text()


def test_a_policy_is_a_folder_or_a_shipped_name(tmp_path):
    for policy, words in (
        (str(tmp_path / "nowhere"), "no policy folder"),
        ("psychic", "no shipped policy 'psychic'"),
    ):
        with pytest.raises(sw.InputError, match=words):
            bench_transfer.BenchTransfer(policy=policy, output=NewOutput(tmp_path / "out"))()
