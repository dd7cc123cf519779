"""The command line: results on stdout, the contract in result.json, mistakes with exit code 2."""

import json
import subprocess
import sys

import pytest

import sagewing as sw
from sagewing.cli.main import main


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
    assert {r["filter"] for r in result["rows"]} == {"ekf", "shkf95", "shkf99", "ndr"}
    fields = {
        "filter",
        "system",
        "runs",
        "steps",
        "armse_mean",
        "armse_std",
        "armse_median",
        "divergence_pct",
    }
    assert all(row.keys() == fields for row in result["rows"])
    assert (tmp_path / "d" / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "chaos", "--seeds", "0"], "--seeds must be at least 1"),
        (["train", "chaos", "--depth", "0"], "depth must lie in 1..64; got 0"),
        (["train", "chaos", "--bounds", "2", "3"], "low <= 1 <= high"),
        (["demo", "--runs", "0"], "--runs must be at least 1"),
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


def test_the_shipped_policy_loads_and_says_where_it_comes_from():
    policy = sw.Policy.pretrained("chaos")
    assert (policy.arch.n_x, policy.arch.n_z, policy.arch.depth) == (3, 2, 3)
    from sagewing.policy.storage import read_card, shipped

    made = read_card(shipped("chaos"))["provenance"]
    assert {"training", "seed", "commit", "versions"} <= made.keys()
    with pytest.raises(sw.InputError, match=r"known: chaos"):
        sw.Policy.pretrained("choas")
