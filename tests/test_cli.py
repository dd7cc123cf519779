"""The command line: results on stdout, the contract in result.json, mistakes with exit code 2."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing import catalogue
from sagewing.cli import console, demo, fitting, train_flight
from sagewing.cli.commands import COMMANDS, GROUPS
from sagewing.cli.main import main
from sagewing.models import QDRONE
from sagewing.policy import Architecture, storage
from sagewing.policy.storage import SHIPPED, read_card
from sagewing.problems.chaos import LORENZ, PROTOCOLS
from sagewing.problems.flight import dataset
from sagewing.report.page.scene_file import read_scene
from sagewing.sim.plant import Flown
from sagewing.studies.chaos import build
from sagewing.train import Progress, Trained, flight
from sagewing.train.flight import FlightTraining

# DESIGN's contract for a row of the chaos benchmark
ROW = {
    "filter",
    "system",
    "runs",
    "steps",
    "armse_mean",
    "armse_std",
    "armse_median",
    "divergence_pct",
}


FLIGHT_ROW = {"filter", "scenario", "flight", "pos_rmse_m", "att_rmse_rad", "nees_mean"}


@pytest.fixture
def one_flight(monkeypatch):
    """In place of three simulated circles, which are tested with the plant: 5 s of hovering."""
    rows = 500
    still = np.zeros((rows, 3))
    flown = Flown(
        t=0.01 * np.arange(1, rows + 1),
        imu=np.tile([0.0, 0.0, 9.81, 0.0, 0.0, 0.0], (rows, 1)),
        motors=np.full((rows, 4), QDRONE.mass * 9.81 / QDRONE.thrust / 4),
        position=still,
        velocity=still,
        quaternion=np.tile([1.0, 0.0, 0.0, 0.0], (rows, 1)),
        rate=still,
    )
    monkeypatch.setattr(dataset, "circle_flights", lambda seed: [flown])
    monkeypatch.setattr(dataset, "training_flights", lambda seed: [flown])


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A policy for flights as it is before training, under its shipped name."""
    folder = tmp_path_factory.mktemp("weights")
    setup = FlightTraining(architecture=replace(Architecture.flight(18), hidden=4, depth=1))
    policy = flight.RECIPES["ndr"].begin(setup, jax.random.key(0))
    policy.save(folder / "flight-sim-paper-ndr")
    return folder


@pytest.fixture
def shipped(weights, monkeypatch):
    monkeypatch.setattr(storage, "SHIPPED", weights)


@pytest.mark.usefixtures("one_flight", "shipped")
def test_demo_prints_a_table_and_leaves_its_result_and_a_page(tmp_path, capsys, monkeypatch):
    # To compile all of them would take a minute.
    known = {"ekf", "shkf995", "shkf999", "ekf-tuned", "ekf-gated", "ndr", "ndr-shared"}
    assert set(catalogue.shown_by("demo")) >= known
    monkeypatch.setattr(catalogue, "shown_by", lambda command: ("ekf", "ndr"))
    args = ["--seeds", "1", "--json", str(tmp_path / "r.json")]
    main(["demo", "--out", str(tmp_path / "d"), *args])
    printed = capsys.readouterr()
    assert "NDR-SHKF" in printed.out
    assert "Written" not in printed.out
    assert all(len(line) <= 80 for line in printed.out.splitlines())
    result = json.loads((tmp_path / "d" / "result.json").read_text())
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert result["schema"] == 1
    assert {"command", "settings", "seed", "commit", "versions"} <= result.keys()
    assert {r["filter"] for r in result["rows"]} == {"ekf", "ndr", "imu-only"}
    assert {r["scenario"] for r in result["rows"]} == {"baseline", "disturbance", "denial"}
    assert all(r.keys() >= FLIGHT_ROW for r in result["rows"] if r["noise"] is not None)
    page = (tmp_path / "d" / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') == 1
    assert not re.search(r"""(?:src|href)=["'](?!data:)|url\(|@import""", page)
    assert "NDR-SHKF" in page
    drawn = read_scene(tmp_path / "d" / "scene.npz")
    assert drawn.about["tracks"] == ["ekf", "ndr"]
    assert {"0/position_std", "1/angles_std", "1/nis", "1/d", "1/error"} <= drawn.arrays.keys()
    assert (tmp_path / "d" / "overview.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("one_flight")
def test_bench_flight_runs_own_weights_and_leaves_tables_and_figures(tmp_path, weights, capsys):
    out, policy = tmp_path / "b", weights / "flight-sim-paper-ndr"
    args = ["--seeds", "1", "--filters", "ekf,ndr", "--scenarios", "denial", "--noise", "good"]
    args += ["--weights", f"ndr={policy}", "--smooth"]
    main(["bench", "flight", "--out", str(out), *args])
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
    result = json.loads((out / "result.json").read_text())
    rows = {r["filter"]: r for r in result["rows"]}
    assert list(rows) == ["ekf", "ekf-smoothed", "ndr", "ndr-smoothed", "imu-only"]
    assert rows["ekf-smoothed"]["worst_m"] < rows["ekf"]["worst_m"]
    assert (result["settings"]["noise"], result["settings"]["data"]) == ("good", "sim")
    assert "flights in noise and in blackout" in (out / "report.html").read_text()
    for name in ("errors", "tracking-denial", "adaptation-denial"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "| denial | NDR-SHKF |" in (out / "table.md").read_text()
    assert r"\begin{tabular}" in (out / "table.tex").read_text()


@pytest.fixture
def trained_at_once(monkeypatch):
    """Training stops before it begins; that it learns is tested with the training."""

    def train(setup, flights, seeds, *, folder, resume, report):
        made = [flight.RECIPES[setup.filter].begin(setup, jax.random.key(s)) for s in seeds]
        epochs = setup.schedule.epochs
        report(Progress(epochs, epochs, 0.0, 0))
        none = jnp.zeros(len(seeds), int)
        return Trained(made, jnp.zeros((len(seeds), epochs)), none)

    monkeypatch.setattr(train_flight, "train_flight", train)


@pytest.mark.usefixtures("one_flight", "trained_at_once")
def test_flight_filters_are_tuned_and_trained_with_the_settings_of_the_options(tmp_path, capsys):
    tuned, out = tmp_path / "t", tmp_path / "n"
    main(["tune", "flight", "--gate", "--out", str(tuned), "--steps", "5", "--windows", "2"])
    assert len(re.findall("^[QR]: ", capsys.readouterr().out, re.M)) == 3
    assert sw.Noise.load(tuned / "seed-0").r.shape == (2, 6)
    made = read_card(tuned / "seed-0")["provenance"]["training"]
    assert (made["filter"], made["steps"]) == ("ekf-gated", 5)
    args = ["--nominal", str(tuned / "seed-0"), "--noise", "good"]
    args += ["--seed", "3", "--seeds", "2", "--depth", "1", "--without-pose", "drag"]
    main(["train", "flight", "--out", str(out), *args])
    made = read_card(out / "seed-4")["provenance"]["training"]
    assert made["flights"] == ["sim-path-1, 4.99 s"]
    assert made["degradation"]["position_std"] == 0.05
    assert made["degradation"]["imu_std"] == flight.AVERAGED.imu_std
    assert (made["policy"]["gain_noise"], made["without_pose"]) == ("posterior", "drag")
    assert sw.Policy.load(out / "seed-4").arch.depth == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "chaos", "--seeds", "0"], "--seeds must be at least 1"),
        (["train", "chaos", "--depth", "0"], "depth must lie in 1..64; got 0"),
        (["train", "chaos", "--bounds", "2", "3"], "low <= 1 <= high"),
        (["train", "flight", "--blackouts", "1.5"], "--blackouts must lie in 0..1; got 1.5"),
        (["train", "flight", "--data", "smi"], "or logs; there is nothing at smi"),
        (["train", "flight", "--filter", "ndr-paper", "--nominal", "x"], "go with --filter ndr"),
        (["train", "flight", "--filter", "ndr-shared", "--depth", "2"], "with --filter ndr-shared"),
        (["tune", "flight", "--steps", "0"], "--steps must be at least 1"),
        (["demo", "--seeds", "0"], "--seeds must be at least 1"),
        (["bench", "flight", "--filters", "ekf,ukf"], "no filter 'ukf'; known: ekf, shkf95"),
        (["bench", "flight", "--scenarios", "fog"], "no scenario 'fog'; known: baseline"),
        (["bench", "flight", "--weights", "ekf=x"], "--weights takes FILTER=DIR"),
        (["bench", "flight", "--filters", "ekf", "--data", "smi"], "there is no folder at smi"),
        (["bench", "flight", "--filters", "ekf", "--data", "docs"], "docs has no .npz files"),
        (["bench", "flight", "--json", "tests"], "--json takes a file; tests is a folder"),
        (["tune", "chaos", "--epochs", "0"], "--epochs must be at least 1"),
        (["bench", "chaos", "--filters", "ekf,ukf"], "no filter 'ukf'; known: ekf, shkf95"),
        (["bench", "chaos", "--systems", "chua"], "no system 'chua'; known: lorenz, rossler"),
        (["bench", "chaos", "--protocol", "mine"], "no protocol 'mine'; known: paper, aligned"),
        (["bench", "chaos", "--protocol", "paper,lag=2"], "no change 'lag=2'; known: lag=yes|no"),
        (["bench", "chaos", "--weights", "ekf=x"], "--weights takes FILTER=DIR"),
        (["bench", "chaos", "--weights", "ndr=nowhere"], "no policy folder at nowhere"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(tmp_path, capsys, args, words):
    with pytest.raises(SystemExit) as exit:
        main([*args, "--out", str(tmp_path / "o")])
    printed = capsys.readouterr()
    assert exit.value.code == 2
    assert words in " ".join(printed.err.split())
    assert printed.out == ""
    assert not (tmp_path / "o").exists()


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(SystemExit) as exit:
        main(["bench", "flight", "--out", str(tmp_path / "taken" / "o")])
    assert exit.value.code == 2
    assert "taken is a file" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_in_80_columns(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exit:
        main([*name.split(), "--help"])
    assert exit.value.code == 0
    said = capsys.readouterr().out
    assert f"Example: sagewing {name}" in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_first_screen_names_every_command_in_80_columns_without_JAX():
    show = "import sys; from sagewing.cli.main import main\n"
    show += "try: main(['--help'])\nexcept SystemExit: sys.exit('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_names_its_commands(group, capsys):
    with pytest.raises(SystemExit) as exit:
        main([group, "--help"])
    assert exit.value.code == 0
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS if name.startswith(group))


def test_an_unknown_command_or_option_exits_with_2():
    for args in (["hover"], ["train", "flight-of-fancy"], ["demo", "--speed", "1"]):
        done = subprocess.run(
            [sys.executable, "-m", "sagewing", *args], capture_output=True, text=True
        )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_bench_leaves_a_row_for_each_filter_and_system_tables_and_figures(tmp_path, capsys):
    out = tmp_path / "b"
    filters = ["ekf", "kalmannet", "ndr-posterior", "ekf-oracle"]
    args = ["--runs", "12", "--steps", "20", "--filters", ",".join(filters)]
    main(["bench", "chaos", "--out", str(out), *args])
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert "truth runs away, rossler" in printed
    result = json.loads((out / "result.json").read_text())
    assert [r["filter"] for r in result["rows"]] == [*filters, *filters]
    assert all(row.keys() >= ROW | {"nees_mean", "crmse"} for row in result["rows"])
    assert result["settings"]["truth_divergence_pct"].keys() == {"lorenz", "rossler"}
    for name in ("attractors", "tracking", "crmse", "histograms"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "| KalmanNet |" in (out / "table.md").read_text()
    assert r"\begin{tabular}" in (out / "table.tex").read_text()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_filter_of_the_table_can_be_built_from_what_ships(protocol):
    for name in catalogue.shown_by(catalogue.CHAOS):
        if name != "ekf-oracle":
            filt = build(name, LORENZ, PROTOCOLS[protocol])
            assert (filt.n_x, filt.n_z) == (3, 2)


@pytest.mark.parametrize("folder", sorted(p.name for p in SHIPPED.iterdir()))
def test_what_is_shipped_says_where_it_comes_from(folder):
    made = read_card(SHIPPED / folder)["provenance"]
    assert {"training", "seed", "commit", "versions"} <= made.keys()
    if folder.startswith("flight-"):
        assert made["training"]["domain"] == "flight"
        assert folder.endswith(f"-{made['training']['filter']}")
    elif folder.startswith("universal"):
        assert made["training"]["domain"] == "family"
    else:
        assert made["training"]["domain"] == "lorenz"
        assert folder.endswith(made["training"]["protocol"])


def test_the_short_name_of_a_shipped_policy_and_an_unknown_one():
    policy = sw.Policy.pretrained("chaos")
    assert (policy.arch.n_x, policy.arch.n_z) == (3, 2)
    with pytest.raises(sw.InputError, match=r"known: chaos"):
        sw.Policy.pretrained("choas")
    with pytest.raises(sw.InputError, match="Q0 and R0 say n_x = 4"):
        sw.NDRSageHusa(sw.models.ConstantVelocity(), [0.1] * 4, [1.0] * 2, policy)


def test_without_a_terminal_a_long_command_says_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    with console.progress() as bar:
        task = bar.add_task("flying", total=3, note="")
        bar.update(task, advance=1, note="a circle")
        bar.update(task, advance=1, note="a helix")
    said = capsys.readouterr().err
    assert re.search(r"^flying 2 of 3, .*a helix$", said, re.M)


def test_ctrl_c_ends_with_a_sentence_and_exit_code_1(monkeypatch, capsys):
    def interrupt(self):
        raise KeyboardInterrupt

    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(demo.Demo, "__call__", interrupt)
    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 1
    assert "the same command starts again" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit) as ended, console.progress() as bar, fitting.resumable(bar):
        raise KeyboardInterrupt
    assert ended.value.code == 1
    assert "--resume continues" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["demo", "bench flight", "bench chaos", "bench transfer", "bench latency", "fly"]
)
def test_a_result_is_not_overwritten_without_force(name, tmp_path, capsys):
    (tmp_path / "result.json").write_text("mine")
    with pytest.raises(SystemExit) as refused:
        main([*name.split(), "--out", str(tmp_path)])
    assert refused.value.code == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "result.json").read_text() == "mine"


def test_a_full_disk_is_a_sentence_and_exit_code_1(monkeypatch, capsys):
    def full(self):
        raise OSError(28, "No space left on device", "out/demo/result.json")

    monkeypatch.setattr(demo.Demo, "__call__", full)
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 1
    assert "out/demo/result.json: No space left on device." in capsys.readouterr().err
