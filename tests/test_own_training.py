"""Training on one's own logs: what is kept aside, what is said in the end, what the card says."""

import jax
import jax.numpy as jnp
import pytest
from log_files import flown, px4, ulog_bytes

import sagewing as sw
from sagewing.cli import train_flight
from sagewing.cli.main import main
from sagewing.policy.storage import read_card
from sagewing.problems.flight.attitude import NOMINAL
from sagewing.problems.flight.own_logs import are_logs, own_flights
from sagewing.studies import own_training
from sagewing.studies.own_training import verdict
from sagewing.train import Progress, Trained, flight
from sagewing.train.tuning import Tuned


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two flights, the second of which ends first."""
    folder = tmp_path_factory.mktemp("logs")
    for name, seconds in (("monday", 20.0), ("tuesday", 6.0)):
        (folder / f"{name}.ulg").write_bytes(ulog_bytes(px4(flown(seconds))))
    return [str(folder / "monday.ulg"), str(folder / "tuesday.ulg")]


def test_the_last_log_is_kept_aside_or_the_end_of_the_only_one(logs):
    data = own_flights(logs)
    assert [f.name for f in data.train] == ["monday"]
    assert [f.name for f in data.test] == ["tuesday"]
    assert any("tuesday is kept aside" in note for note in data.notes)
    alone = own_flights(logs[:1])
    (train,), (test,) = alone.train, alone.test
    assert train.seconds + test.seconds == pytest.approx(20.0, abs=0.2)
    assert test.seconds == pytest.approx(5.0, abs=0.2)
    assert train.t[-1] < test.t[0]


def test_what_cannot_be_kept_aside_is_refused(logs):
    with pytest.raises(sw.InputError, match="kept aside to test on, lasts 1"):
        own_flights(logs[1:])
    with pytest.raises(sw.InputError, match="named twice"):
        own_flights([logs[0], logs[0]])
    with pytest.raises(sw.InputError, match="nothing at nowhere"):
        own_flights([logs[0], "nowhere.ulg"])


def test_a_folder_of_npz_is_the_benchmarks_and_all_else_are_logs(logs, tmp_path):
    (tmp_path / "flight.npz").touch()
    assert not are_logs(["sim"])
    assert not are_logs([str(tmp_path)])
    assert are_logs([str(tmp_path / "flight.npz")])
    assert are_logs(logs)


def test_a_policy_that_is_no_better_is_warned_of():
    own = {"baseline": {"pos_rmse_m": 0.1}, "denial": {"pos_rmse_m": 0.3}}
    other = {"baseline": {"pos_rmse_m": 0.2}, "denial": {"pos_rmse_m": 0.3}}
    better, warned = verdict(own, other)
    assert better == "baseline: the policy is 50% better than the tuned, gated EKF."
    assert warned.startswith("WARNING, denial")
    assert warned.endswith("fly the EKF.")


def test_the_command_ends_with_a_table_a_word_and_a_card(logs, tmp_path, capsys, monkeypatch):
    """Tuning and training stop before they begin; both are tested elsewhere."""

    def trained(setup, flights, seeds, *, folder, resume, report):
        made = [flight.RECIPES[setup.filter].begin(setup, jax.random.key(s)) for s in seeds]
        report(Progress(1, 1, 0.0, 0))
        return Trained(made, jnp.zeros((len(seeds), 1)), jnp.zeros(len(seeds), int))

    monkeypatch.setattr(train_flight, "train_flight", trained)
    monkeypatch.setattr(
        train_flight, "tune", lambda *_: Tuned(sw.Noise(*NOMINAL["error-state"][1:]), [0.0])
    )
    monkeypatch.setattr(own_training, "SCENARIOS", ("denial",))
    monkeypatch.setattr(own_training, "DRAWS", 1)
    out = tmp_path / "mine"
    args = ["--epochs", "1", "--batch", "1", "--depth", "1", "--seeds", "2", "--out", str(out)]
    main(["train", "flight", "--data", *logs, *args, "--quiet"])
    said = capsys.readouterr().out
    assert "EKF, tuned, gated" in said
    assert "tuned, gated EKF" in said.splitlines()[-1]
    for seed in ("seed-0", "seed-1"):
        made = read_card(out / seed)["provenance"]
        assert made["figures"]["flights"] == ["tuesday"]
        assert {"ndr", "ekf-gated"} <= made["figures"].keys()
        assert "other than those of the logs" in made["not_for"]
