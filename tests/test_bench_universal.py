"""The benchmark of the universal policy, and the commands around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.bench import universal as bench
from sagewing.cli.main import main
from sagewing.sim import unseen

pytestmark = pytest.mark.usefixtures("float64")


def test_an_oracle_knows_what_is_wrong_in_every_case():
    system = unseen.UNSEEN["masses"]
    draw = jax.jit(lambda case: unseen.episodes(system, case, jax.random.key(0), 2, 60))
    for case in unseen.CASES.values():
        drawn = draw(unseen.Case(*map(jnp.asarray, case)))
        assert np.isclose(float(drawn.q[0, 0, 0]), case.q * system.q0[0])
        wrong = np.asarray(drawn.r)[:20, 0] / system.r0[0]
        allowed = (case.r, case.r * case.outlier_scale)
        assert np.all(np.isclose(wrong[..., None], allowed).any(axis=-1))
        assert np.all(drawn.arrived) == (case.missing == 0.0)


def test_the_claims_are_checked_against_their_bars():
    rows = [
        {"system": s, "case": c, "filter": f, "ratio": 1.05 if f == bench.LEARNED else 1.2}
        for s in ("a", "b")
        for c in unseen.CASES
        for f in (*bench.UNTRAINED, bench.TUNED, bench.LEARNED)
    ]
    found = {check.claim.split(",")[0]: check for check in bench.checks(rows)}
    assert [check.holds for check in found.values()] == [True, False, True, True]
    assert np.isclose(bench.geometric([1.0, 4.0]), 2.0)
    middle, half = bench.interval([0.1, 0.2, 0.3])
    assert np.isclose(middle, 0.2)
    assert np.isclose(half, 4.303 * 0.1 / np.sqrt(3.0))


def test_level_is_what_has_the_same_three_digits():
    ours = {"a": 0.9, "b": 1.0004, "c": 1.0006, "d": 0.9996}
    rows = [
        {"system": s, "case": "right", "filter": f, "ratio": ours[s] if f == bench.LEARNED else 1.0}
        for s in ours
        for f in (*bench.UNTRAINED, bench.TUNED, bench.LEARNED)
    ]
    assert bench.standing(rows) == (1, 2, 1)
    assert np.isclose(bench.checks(rows)[-1].number, 0.5)  # a level one is not the best


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["train", "universal", "--begin", "universal", "--seeds", "2"], "give one a seed"),
        (
            ["train", "universal", "--begin", "flight-sim-paper-ndr-shared"],
            "has noise of its own",
        ),
        (["train", "universal", "--wrong-models", "2"], "is a share, 0..1"),
        (["bench", "universal", "--systems", "moon"], "There is no system 'moon'"),
        (["bench", "universal", "--runs", "0"], "--runs must be at least 1"),
        (["bench", "universal", "--policies", "nobody"], "There is no shipped policy 'nobody'"),
        (["bench", "universal", "--policies", "chaos"], "Universal.load reads"),
        (["train", "universal", "--epochs", "0"], "--epochs must be at least 1"),
        (["train", "universal", "--proof", "50"], "A proof is 0, for none, or between 6 and 20"),
        (["train", "universal", "--reach", "-1"], "The reach of a bend is not negative"),
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
