"""The command line: results on stdout, the contract in result.json, mistakes with exit code 2."""

import json
import subprocess
import sys

import pytest

import sagewing as sw
from sagewing.bench.chaos import FILTERS, build
from sagewing.cli import demo
from sagewing.cli.main import main
from sagewing.policy.storage import SHIPPED, read_card
from sagewing.sim.chaos import LORENZ, PROTOCOLS

pytestmark = pytest.mark.usefixtures("hardly_optimised")

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


def test_demo_prints_a_table_and_leaves_its_result_and_picture(tmp_path, capsys):
    main(
        [
            "demo",
            "--out",
            str(tmp_path / "d"),
            "--runs",
            "20",
            "--steps",
            "50",
            "--json",
            str(tmp_path / "r.json"),
        ]
    )
    printed = capsys.readouterr()
    assert "NDR-SHKF" in printed.out
    assert "Written" not in printed.out
    assert all(len(line) <= 80 for line in printed.out.splitlines())
    result = json.loads((tmp_path / "d" / "result.json").read_text())
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert result["schema"] == 1
    assert {"command", "settings", "seed", "commit", "versions"} <= result.keys()
    assert {r["filter"] for r in result["rows"]} == set(demo.FILTERS)
    assert all(row.keys() >= ROW for row in result["rows"])
    assert (tmp_path / "d" / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "chaos", "--seeds", "0"], "--seeds must be at least 1"),
        (["train", "chaos", "--depth", "0"], "depth must lie in 1..64; got 0"),
        (["train", "chaos", "--bounds", "2", "3"], "low <= 1 <= high"),
        (["demo", "--runs", "0"], "--runs must be at least 1"),
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


def test_an_unknown_command_or_option_exits_with_2():
    for args in (["fly"], ["train", "flight-of-fancy"], ["demo", "--speed", "1"]):
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
    for name in FILTERS:
        if name != "ekf-oracle":
            filt = build(name, LORENZ, PROTOCOLS[protocol])
            assert (filt.n_x, filt.n_z) == (3, 2)


@pytest.mark.parametrize("folder", sorted(p.name for p in SHIPPED.iterdir()))
def test_what_is_shipped_says_where_it_comes_from(folder):
    made = read_card(SHIPPED / folder)["provenance"]
    assert {"training", "seed", "commit", "versions"} <= made.keys()
    assert made["training"]["domain"] == "lorenz"
    assert folder.endswith(made["training"]["protocol"])


def test_the_short_name_of_a_shipped_policy_and_an_unknown_one():
    policy = sw.Policy.pretrained("chaos")
    assert (policy.arch.n_x, policy.arch.n_z) == (3, 2)
    with pytest.raises(sw.InputError, match=r"known: chaos"):
        sw.Policy.pretrained("choas")
    with pytest.raises(sw.InputError, match="Q0 and R0 say n_x = 4"):
        sw.NDRSageHusa(sw.models.ConstantVelocity(), [0.1] * 4, [1.0] * 2, policy)
