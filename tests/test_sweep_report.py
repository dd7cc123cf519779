"""What a study says is what its numbers support."""

import numpy as np
import pytest
from rich.console import Console

from sagewing.report import ablation
from sagewing.report.ablation_figures import violins
from sagewing.report.table import terminal
from sagewing.studies.ablation import DEFAULT, VARIANTS
from sagewing.studies.ablation_lines import RunErrors, lines_of
from sagewing.studies.differences import _medians, differences

RUNS = 200


def _errors(seeds: int, shift: float, key: int = 0) -> np.ndarray:
    """Runs whose level is the seed's own, and `shift` above it."""
    drawn = np.random.default_rng(key)
    level = drawn.normal(0.5, 0.1, (seeds, 1))
    return np.abs(level + shift + drawn.normal(0.0, 0.05, (seeds, RUNS))).astype(np.float32)


def _found(shifts: dict[str, float], seeds: int = 10) -> RunErrors:
    found: RunErrors = {}
    for name, shift in shifts.items():
        errors = _errors(seeds, shift)
        found[name] = {s: {"lorenz": e, "rossler": e} for s, e in enumerate(errors)}
    return found


def test_a_median_of_resampled_seeds_is_that_of_their_pooled_runs():
    errors = _errors(6, 0.0)
    errors[2, :50] = np.nan
    drawn = np.random.default_rng(1).multinomial(6, np.full(6, 1 / 6), 20)
    for weights, found in zip(drawn, _medians(errors, drawn), strict=True):
        pooled = np.concatenate([np.tile(e, n) for e, n in zip(errors, weights, strict=True)])
        pooled = pooled[~np.isnan(pooled)]
        np.testing.assert_allclose(found, np.sort(pooled)[(pooled.size - 1) // 2], rtol=1e-6)


def test_seeds_of_a_pair_stay_together():
    """The levels of seeds differ by 0.1, a variant by 0.02: only pairs can tell."""
    apart = differences(_errors(10, 0.02), _errors(10, 0.0))
    assert apart["armse_mean"].significant
    assert apart["armse_mean"].value == pytest.approx(0.02, abs=1e-4)
    other = differences(_errors(10, 0.02, key=5), _errors(10, 0.0))
    assert not other["armse_mean"].significant


def test_lost_runs_are_counted_in_points():
    worse, default = _errors(10, 0.0), _errors(10, 0.0)
    worse[:, :20] = np.nan
    lost = differences(worse, default)["divergence_pct"]
    assert lost.significant
    assert lost.value == pytest.approx(10.0)
    assert not differences(default, default)["divergence_pct"].significant


def test_a_sentence_claims_what_an_interval_leaves_no_doubt_of():
    lines = lines_of(_found({DEFAULT: 0.0, "depth-1": 0.05, "depth-5": 0.0}))
    said = ablation.finding("depth", lines["depth"])
    assert said.startswith("recurrent depth against 3 layers (10 seeds).")
    assert "1 layer: Rössler median higher by 0.0" in said
    assert "cannot tell for Rössler share of lost runs." in said
    assert "5 layers: cannot tell." in said


def test_a_few_seeds_cannot_tell():
    lines = lines_of(_found({DEFAULT: 0.0, "depth-1": 0.5}, seeds=4))
    assert ablation.finding("depth", lines["depth"]).endswith("(4 seeds). 1 layer: cannot tell.")


def test_a_study_of_the_default_alone_has_a_table():
    lines = lines_of(_found({DEFAULT: 0.0}))
    assert [line.label for line in lines[""]] == ["default"]
    assert "default" in ablation.markdown(lines)
    assert lines_of({}) == {}


def test_tables_name_every_variant_in_eighty_columns_and_beside_the_paper(tmp_path):
    names = list(VARIANTS)
    lines = lines_of(_found({name: 0.01 * i for i, name in enumerate(names)}))
    console = Console(width=80, record=True, file=(tmp_path / "said").open("w"))
    for of in lines.values():
        console.print(terminal(ablation.table(of)))
        console.print(terminal(ablation.differences_table(of)))
    console.file.close()
    text = console.export_text()
    assert "…" not in text
    for name in names[1:]:
        assert VARIANTS[name].label in text
        assert VARIANTS[name].label in ablation.markdown(lines)
    assert "1.364 ± 1.760 | 0.857 | 4.97%" in ablation.markdown(lines)
    assert ablation.latex(lines).count(r"\begin{tabular}") == len(lines) == 7
    violins(lines, "rossler", tmp_path / "violins.png")
    assert (tmp_path / "violins.png").stat().st_size > 10_000
