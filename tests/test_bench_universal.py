"""The benchmark of the universal policy, and the commands around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.cli.main import main
from sagewing.problems.unseen import systems as unseen
from sagewing.studies import universal as bench
from sagewing.studies import universal_claims as claims

pytestmark = pytest.mark.usefixtures("float64")


def test_an_oracle_knows_what_is_wrong_in_every_case():
    system = unseen.UNSEEN["masses"]
    draw = jax.jit(lambda case: unseen.episodes(system, case, jax.random.key(0), 2, 60))
    for case in unseen.CASES.values():
        drawn = draw(unseen.NoiseCase(*map(jnp.asarray, case)))
        assert np.isclose(float(drawn.q[0, 0, 0]), case.q * system.q0[0])
        wrong = np.asarray(drawn.r)[:20, 0] / system.r0[0]
        allowed = (case.r, case.r * case.outlier_scale)
        assert np.all(np.isclose(wrong[..., None], allowed).any(axis=-1))
        assert np.all(drawn.arrived) == (case.missing == 0.0)


def rows_of(cells):
    """Rows of cells, each given by its ratio and its interval beside that of the others, 1.2."""
    return [
        {"system": s, "case": c, "filter": f, "ratio": ours if f == bench.LEARNED else 1.2}
        | dict(zip(bench.PAIRED_RATIO, (ours / 1.2, *interval), strict=True))
        for (s, c), (ours, *interval) in cells.items()
        for f in (*bench.UNTRAINED, bench.TUNED, bench.LEARNED)
    ]


def test_the_claims_are_checked_against_their_bars():
    rows = rows_of({(s, c): (1.05, 0.8, 0.9) for s in ("a", "b") for c in unseen.CASES})
    found = {check.claim.split(",")[0]: check for check in claims.checks(rows)}
    assert [check.holds for check in found.values()] == [True, False, True, True]
    assert np.isclose(bench.geometric([1.0, 4.0]), 2.0)
    middle, half = bench.interval([0.1, 0.2, 0.3])
    assert np.isclose(middle, 0.2)
    assert np.isclose(half, 4.302653 * 0.1 / np.sqrt(3.0))


def test_behind_is_what_the_runs_of_a_cell_say_for_certain():
    cells = {"a": (1.1, 0.9, 0.95), "b": (1.2, 0.99, 1.01), "c": (1.3, 1.05, 1.1)}
    cells["d"] = (1.2001, 0.999, 1.002)
    rows = rows_of({(s, "right"): row for s, row in cells.items()})
    assert claims.win_counts(rows) == (1, 2, 1, 2)
    assert np.isclose(claims.checks(rows)[-1].number, 0.5)  # the best has the smallest figure


def test_a_filter_is_held_against_another_run_by_run():
    rng = np.random.default_rng(0)
    theirs, little, less = np.exp(rng.normal(size=(3, 400)) * [[1.0], [0.01], [0.01]])
    oracle = np.where(np.arange(400) < 10, 10.0 * bench.LOST, 1.0)  # ten runs do not count
    errors = (theirs * 1.02 * little, theirs * 1.02 * less)
    ours = [bench.ratios(np.where(oracle > 1.0, 1e9, e), oracle) for e in errors]
    middle, low, high = bench.paired_ratio(ours, bench.ratios(theirs, oracle)).values()
    assert low < np.sqrt(1.02) < high
    spread = 0.5 * 0.01 / np.sqrt(2.0)  # of the mean of two
    assert np.isclose(np.log(high / middle), 1.96 * spread / np.sqrt(390.0), rtol=0.15)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["train", "universal", "--begin", "universal", "--seeds", "2"], "give one a seed"),
        (
            ["train", "universal", "--begin", "flight-sim-paper-ndr-shared"],
            "has nominal noise of its own",
        ),
        (["train", "universal", "--wrong-models", "2"], "is a share, 0..1"),
        (["bench", "universal", "--systems", "moon"], "There is no system 'moon'"),
        (["bench", "universal", "--runs", "0"], "--runs must be at least 1"),
        (["bench", "universal", "--policies", "nobody"], "There is no shipped policy 'nobody'"),
        (["bench", "universal", "--policies", "chaos"], "Universal.load reads"),
        (["train", "universal", "--epochs", "0"], "--epochs must be at least 1"),
        (
            ["train", "universal", "--alarm-threshold", "50"],
            "must be 0, for no tests, or between 6 and 20",
        ),
        (["train", "universal", "--probe-sigmas", "-1"], "probe_sigmas must not be negative"),
    ],
)
def test_a_slip_on_the_command_line_is_a_sentence(args, says, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*args, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_training_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["train", "universal", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "holds no training" in " ".join(capsys.readouterr().err.split())
