"""The interactive page: nothing that matters is left out, nothing foreign gets in."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scenes import ROWS, circle

import sagewing as sw
from sagewing.cli.main import main
from sagewing.report.page.angles import euler_std
from sagewing.report.page.decimate import Buckets
from sagewing.report.page.drawing import POINTS, drawing_of
from sagewing.report.page.flight_page import flight_page
from sagewing.report.page.results_table import html
from sagewing.report.page.scene_file import SCENE, read_scene, write_scene
from sagewing.report.style import COLOURS, dark, label, light
from sagewing.results import BenchResult

LARGEST_BYTES = 5_000_000


def test_decimation_keeps_every_bucket_s_extremes_in_their_order():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(100_003, 2))
    series[54_321, 0], series[54_320, 0], series[7, 1] = 40.0, -30.0, -50.0
    buckets = Buckets.of(len(series), 3600)
    kept = buckets.extremes(series)
    assert len(kept) <= 3600
    first = 54_321 // buckets.size
    assert kept[2 * first : 2 * first + 2, 0].tolist() == [-30.0, 40.0]
    assert kept[:2, 1].min() == -50.0
    assert buckets.largest(series)[first, 0] == 40.0
    for start in range(0, len(series), 10 * buckets.size):
        inside, k = series[start : start + buckets.size, 0], 2 * start // buckets.size
        assert {*kept[k : k + 2, 0]} == {inside.min(), inside.max()}


def test_decimation_leaves_a_gap_where_nothing_is_known_and_short_records_as_they_are():
    series = np.arange(10_000.0)[:, None]
    series[5000:7000] = np.nan
    series[20] = np.nan
    buckets = Buckets.of(10_000, 1000)
    t = buckets.times(0.01 * np.arange(10_000))
    kept = buckets.extremes(series)[:, 0]
    assert len(t) == len(kept)
    assert np.all(np.diff(t) > 0)
    gap = t[np.isnan(kept)]
    assert (gap.min(), gap.max()) == pytest.approx((50.0, 70.0), abs=0.1)
    assert Buckets.of(1000, 1000).extremes(series[:1000]) is not None
    assert Buckets.of(1000, 1000).size == 1


def test_a_drawing_is_as_small_for_a_long_record_and_has_its_worst_error():
    scene = circle(seconds=60.0, rate=1000.0)
    scene.tracks[1].pose.position[31_234] += 77.0
    drawing = drawing_of(scene)
    assert drawing.arrays["t"].size <= POINTS
    assert drawing.arrays["1/error"][0].max() == pytest.approx(77.0 * np.sqrt(3), rel=0.01)
    assert drawing.arrays["1/q"].shape[0] == 19
    assert "0/q" not in drawing.arrays
    assert np.isnan(drawing.arrays["measured/position"]).any()


def test_the_page_of_a_long_record_of_six_filters_is_small():
    names = ("ekf", "shkf995", "shkf999", "ekf-tuned", "ekf-gated", "ndr")
    scene = circle(seconds=8.0, rate=1000.0, names=names)
    full = replace(scene, tracks=tuple(replace(t, q=scene.tracks[1].q) for t in scene.tracks))
    assert len(flight_page(full, ROWS, "t", "f").encode()) < LARGEST_BYTES


def test_nis_is_one_by_degree_of_freedom_and_its_band_is_chi_square_s():
    drawing = drawing_of(circle(seconds=100.0))
    nis, low, high = (drawing.arrays[name] for name in ("0/nis", "nis/low", "nis/high"))
    there = np.isfinite(nis)
    assert not there.all()  # nothing arrives in the outage
    assert np.mean((nis >= low)[there] & (nis <= high)[there]) == pytest.approx(0.95, abs=0.05)


def test_angles_spread_as_the_body_s_rotation_and_wildly_near_the_pole():
    std = np.array([[0.01, 0.02, 0.03]] * 2)
    level, steep = euler_std(np.array([[0.0, 0.0, 1.0], [0.0, 1.5, 0.0]]), std)
    np.testing.assert_allclose(level, std[0])
    assert steep[0] > 10 * std[0, 0]
    assert steep[1] == pytest.approx(0.02)


def test_no_name_ends_the_script_or_begins_an_element():
    evil = "</script><img src=x onerror=alert(1)>"
    scene = replace(circle(names=(evil, "ndr")), name=evil)
    page = flight_page(scene, [{"filter": evil, "pos_rmse_m": 1.0}], evil, evil)
    assert "<img" not in page
    assert page.count("</script>") == 2
    data = re.search(r'id="scene">(.*?)</script>', page, re.DOTALL)
    assert data
    assert json.loads(data[1])["name"] == evil


def test_nothing_is_fetched():
    page = flight_page(circle(), ROWS, "t", "f")
    assert not re.search(r"""(?:src|href)=["'](?!data:)|url\(|@import|https?://""", page)
    assert "default-src 'none'" in page


def test_without_a_truth_the_page_shows_consistency_and_no_error():
    rows = [
        {"filter": "ekf", "nis_mean": 3.0, "nis_expected": 6.0, "whiteness": 0.2},
        {"filter": "ndr", "nis_mean": 7.0, "nis_expected": 6.0, "whiteness": 0.1},
    ]
    page = flight_page(circle(truth=False), rows, "t", "f")
    assert "consistency" in page
    assert '"0/error"' not in page
    table = html(rows)
    assert "<th>NIS / expected</th><th>whiteness</th>" in table.replace("\n", "")
    assert "<b>1.17</b>" in table
    assert "position" not in table


def test_the_table_has_the_columns_that_its_rows_have():
    table = html(ROWS)
    assert "<th>position [m]</th>" in table
    assert "window" not in table
    assert "<b>0.100</b>" in table
    assert "–" in table


def contrast(colour, paper=(0x17, 0x1B, 0x21)):
    """As the WCAG define it."""

    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    high, low = luminance(rgb), luminance([c / 255 for c in paper])
    return (high + 0.05) / (low + 0.05)


def test_colours_are_seen_and_told_apart_on_a_dark_page():
    colours = [dark(name) for name in COLOURS]
    assert len(set(colours)) == len(colours)
    assert min(map(contrast, colours)) > 3.0
    assert contrast(dark("truth")) > 12
    assert dark("shkf99") == COLOURS["shkf99"]
    assert label("mine") == "mine"
    assert re.fullmatch("#[0-9A-F]{6}", light("mine"))


def test_a_scene_file_gives_the_drawing_back(tmp_path):
    drawing = drawing_of(circle())
    write_scene(tmp_path / SCENE, drawing)
    again = read_scene(tmp_path / SCENE)
    assert again.about == drawing.about
    assert again.arrays.keys() == drawing.arrays.keys()
    for name, array in drawing.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


def changed(drawing, **arrays):
    return replace(drawing, arrays={**drawing.arrays, **arrays})


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"7/position": np.zeros((3, 1000), np.float32)}, "no array of a scene"),
        ({"0/position": np.zeros((3, 999), np.float32)}, "does not fit"),
        ({"0/position": np.zeros((2, 1000), np.float32)}, "does not fit"),
        ({"t": np.zeros(1000)}, "no array of a scene"),
        ({"0/q": np.zeros((0, 1000), np.float32)}, "does not fit"),
    ],
)
def test_a_foreign_scene_file_is_refused(tmp_path, arrays, words):
    write_scene(tmp_path / SCENE, changed(drawing_of(circle()), **arrays))
    with pytest.raises(sw.InputError, match=words):
        read_scene(tmp_path / SCENE)


ABOUT = {"name": "circle", "tracks": ["ekf", "ndr"], "outages": [], "nis_window_s": 1.0}


def test_a_damaged_scene_file_is_refused(tmp_path):
    path = tmp_path / SCENE
    with pytest.raises(sw.InputError, match="There is no"):
        read_scene(path)
    np.savez(path, t=np.zeros(3, np.float32))
    with pytest.raises(sw.InputError, match="does not say what it shows"):
        read_scene(path)
    endless = replace(drawing_of(circle()), about={**ABOUT, "outages": [[0.0, np.inf]]})
    write_scene(path, endless)
    with pytest.raises(sw.InputError, match="does not say what it shows"):
        read_scene(path)
    np.savez(path, about=np.array([{}], dtype=object))
    with pytest.raises(sw.InputError, match="Python objects"):
        read_scene(path)
    write_scene(path, drawing_of(circle()))
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:length])
        with pytest.raises(sw.InputError, match=r"scene\.npz"):
            read_scene(path)


def refused(args, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(args)
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_report_makes_the_page_again_and_replaces_nothing_unasked(tmp_path, capsys):
    result = tmp_path / "result.json"
    BenchResult("run", {}, 0, ROWS).write(result)
    args = ["report", str(result), "--out", str(tmp_path / "new" / "p.html")]
    assert "There is no" in refused(args, capsys)
    write_scene(tmp_path / SCENE, drawing_of(circle()))
    main(args)
    page = (tmp_path / "new" / "p.html").read_text()
    assert "Sagewing: circle" in page
    assert "<b>0.100</b>" in page
    assert "exists" in refused(args, capsys)
    main([*args, "--force"])
    assert "is a folder" in refused([*args[:3], str(tmp_path)], capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a readable result"),
        ('{"schema": 2}', "no result of this version"),
        ('{"schema": 1}', "'command' is missing"),
        (
            '{"schema": 1, "command": "run", "settings": {}, "seed": 0, "versions": {}, '
            '"rows": [1]}',
            "a row must name its filter",
        ),
        (
            '{"schema": 1, "command": "run", "settings": {}, "seed": 0, "versions": {}, '
            '"rows": [{"filter": "ekf", "pos_rmse_m": "low"}]}',
            "'pos_rmse_m' of 'ekf' is 'low'",
        ),
    ],
)
def test_report_refuses_what_is_no_result(tmp_path, capsys, content, words):
    (tmp_path / "result.json").write_text(content)
    assert words in refused(["report", str(tmp_path / "result.json")], capsys)
