"""The flight benchmark's tables say what its rows say; data comes as training and test flights."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from test_identify import FRAME, TRUE, flown

import sagewing as sw
from sagewing import catalogue
from sagewing.logs import Flight
from sagewing.problems.flight import dataset, identify
from sagewing.problems.flight.records import IMU, FlightRecord
from sagewing.report import flight, flight_figures
from sagewing.report.numbers import rounded
from sagewing.report.page import angles, results_table
from sagewing.report.style import COLOURS, LABELS
from sagewing.report.table import latex, markdown, terminal
from sagewing.studies.flight import Estimates, FlightComparison
from sagewing.studies.scenes import scene_of

RECORDED = Path(__file__).parents[2] / "shared" / "flights"


def row(name, scenario="denial", noise=0, **values):
    keys = ("pos_rmse_m", "att_rmse_rad", "window_pos_rmse_m", "drift_m", "nees_median")
    made = {**dict.fromkeys(keys, 1.0), **values}
    return {"filter": name, "scenario": scenario, "flight": "a", "noise": noise, **made}


ROWS = [
    row("ekf", pos_rmse_m=2.0, drift_m=40.0, nees_median=5.0),
    row("ekf", noise=1, pos_rmse_m=4.0, drift_m=44.0),
    row("ekf", noise=2, pos_rmse_m=3.0, drift_m=9000.0),
    row("ndr", pos_rmse_m=0.5, att_rmse_rad=1.0004, drift_m=float("nan")),
    {
        "filter": "imu-only",
        "scenario": "denial",
        "flight": "a",
        "noise": None,
        "window_pos_rmse_m": 0.1,
        "drift_m": 0.2,
    },
    row("ekf", "baseline", pos_rmse_m=0.25),
]


def lines():
    return {
        (scenario, line.filter): line.cells
        for scenario, found in flight.lines_of(ROWS)
        for line in found
    }


def test_a_cell_is_the_mean_and_spread_or_the_median_over_records():
    position, _, _, drift, nees = lines()["denial", "ekf"]
    assert position.text == "3.000 ± 0.816"
    assert drift.text == "44.00"
    assert nees.text == "1.00"
    assert lines()["baseline", "ekf"][0].text == "0.250"


def test_what_is_not_known_is_a_dash():
    assert [c.text for c in lines()["denial", "imu-only"]] == ["–", "–", "0.100", "0.200", "–"]
    assert lines()["denial", "ndr"][3].text == "–"


def test_the_smallest_of_a_scenario_is_best_ties_are_too_and_references_do_not_race():
    found = lines()
    assert [c.best for c in found["denial", "ndr"]] == [True, True, True, False, False]
    assert [c.best for c in found["denial", "ekf"]] == [False, True, True, True, False]
    assert not any(c.best for c in found["denial", "imu-only"])
    assert found["baseline", "ekf"][0].best


def test_every_table_has_every_filter_and_marks_the_best():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal(flight.table(ROWS)))
    text = console.export_text()
    assert "[m]" in text
    assert all(word in text for word in ("NDR-SHKF", "IMU alone", "1.24..14.45"))
    assert "| denial | NDR-SHKF | **0.500** |" in markdown(flight.table(ROWS))
    assert r"NDR-SHKF & $\mathbf{0.500}$" in latex(flight.table(ROWS))
    assert "IMU alone & -- & --" in latex(flight.table(ROWS))
    assert "</i>NDR-SHKF</td><td><b>0.500</b></td>" in results_table.html(ROWS)


def test_every_filter_of_the_benchmark_has_a_name_and_a_colour_of_its_own():
    there = {entry.name for entry in catalogue.entries()}
    assert there <= LABELS.keys() & COLOURS.keys()
    assert len(set(COLOURS.values())) == len(COLOURS)


def comparison(lengths):
    """Flights of these lengths, the estimate off by 0.1 rad and 1 m, and by 3 m in the window."""
    longest, runs = max(lengths), len(lengths)
    windows = [slice(n // 2 - 100, n // 2 + 100) for n in lengths]
    x = np.zeros((runs, longest, 19))
    x[:, :, 6:8] = np.cos(0.05), np.sin(0.05)
    x[:, :, 0] = 1.0
    for i, window in enumerate(windows):
        x[i, window, 0] = 3.0
    u, z = np.zeros((runs, longest, 11)), np.zeros((runs, longest, 6))
    u[0, windows[0], 0] = IMU
    z[0, windows[0], 2] = 9.81
    truth = np.zeros((runs, longest, 7))
    truth[..., 3] = 1.0
    records = FlightRecord(np.zeros((runs, 19)), z, u, truth[..., :3], truth[..., 3:])
    noise = np.full((runs, longest, 25), 0.1)
    made = Estimates(x, np.ones((runs, longest)), noise[..., :19], noise[..., 19:], noise)
    flights = [replace(flown(0), name=f"flight-{i}") for i in range(runs)]
    return FlightComparison(
        "denial", flights, 1, 0.01, records, list(lengths), windows, {"ndr": made}, []
    )


def test_a_scene_is_one_record_without_its_padding():
    made = comparison([600, 1000])
    scene = scene_of(made, 0)
    window = made.window[0]
    assert (len(scene.t), scene.t[0]) == (600, pytest.approx(0.01))
    assert scene.outages == (pytest.approx((2.01, 4.0)),)
    seen = np.isfinite(scene.measured.position[:, 0])
    assert not seen[window].any()  # the IMU's numbers are no pose
    assert seen.sum() == 400
    assert np.all(scene.arrived == 6.0)
    assert scene.truth is not None
    np.testing.assert_array_equal(scene.tracks[0].pose.position[window, 0], 3.0)
    assert len(scene_of(made, 1).t) == 1000


class Canvas:
    """Axes that remember the curves that they are given."""

    def __init__(self):
        self.curves = []

    def semilogy(self, time, value, **style):
        self.curves.append((time, value))

    def __getattr__(self, name):
        return lambda *args, **style: None


def test_errors_of_flights_of_several_lengths_meet_at_their_windows():
    above, below = Canvas(), Canvas()
    flight_figures._errors(above, below, comparison([600, 1000]))
    ((time, error),) = above.curves
    assert (time[0], time[-1]) == pytest.approx((-1.99, 4.0))
    inside = (time > 0.1) & (time < 1.9)
    outside = (time < -0.1) | (time > 2.1)
    np.testing.assert_allclose(error[inside], 3.0)
    np.testing.assert_allclose(error[outside], 1.0)
    np.testing.assert_allclose(below.curves[0][1], np.degrees(0.1))


def test_figures_are_drawn_of_flights_of_several_lengths(tmp_path):
    made = comparison([600, 1000])
    flight_figures.overview([made], tmp_path / "o.png")
    flight_figures.tracking(made, tmp_path / "t.png", record=1)
    flight_figures.adaptation(made, tmp_path / "a.png")
    flight_figures.adaptation(replace(made, estimates={}), tmp_path / "none.png")
    assert {p.name for p in tmp_path.iterdir()} == {"o.png", "t.png", "a.png"}


def test_an_angle_stays_near_the_truth_and_within_half_a_turn_where_that_goes_round():
    truth = np.linspace(3.0, 3.4, 50)
    near = angles.angle_near(truth - 2 * np.pi + 0.1, truth)
    np.testing.assert_allclose(near, truth + 0.1, atol=1e-5)
    round_and_round = np.linspace(0.0, 20.0, 500)
    wrapped = angles.angle_near(round_and_round, round_and_round)
    assert np.nanmax(np.abs(wrapped)) <= np.pi + 1e-6
    assert np.isnan(wrapped).sum() == 3


def test_simulated_flights_are_flown_only_where_they_are_wanted(monkeypatch):
    made = flown(0)

    class Flew(Exception):
        pass

    def refuse(seed):
        raise Flew

    monkeypatch.setattr(dataset, "training_flights", refuse)
    monkeypatch.setattr(dataset, "circle_flights", lambda seed: [made])
    data = dataset.load("sim", parts=("test",))
    assert (data.kind, data.train, len(data.test)) == ("sim", [], 1)
    with pytest.raises(Flew):
        dataset.load("sim")


def folder_of(monkeypatch, *flights: Flight) -> dataset.Dataset:
    monkeypatch.setattr(dataset, "read_flights", lambda folder: list(flights))
    monkeypatch.setattr(dataset, "identify", lambda train: identify.identify(train, FRAME))
    return dataset.load(".")


def test_a_folder_of_real_flights_gives_a_vehicle_and_commands_that_it_follows(monkeypatch):
    train = [replace(flown(i, noise=1e-3, ground=300), name=f"B{i}_oval") for i in range(2)]
    test = replace(flown(9, ground=300), name="B2_circle_fast", repairs=("2 stamps dropped",))
    other = replace(flown(5), name="clover", motors=None, thrust=np.full(2000, 9.81))
    data = folder_of(monkeypatch, *train, test, other)
    assert (data.kind, len(data.train), len(data.test)) == ("real", 2, 1)
    second = data.on_other_vehicle()
    assert second.test[0].t[0] == pytest.approx(other.t[len(other.t) // 2], abs=0.02)
    np.testing.assert_allclose(second.vehicle.drag[:2], TRUE.drag[:2], rtol=0.1)
    assert data.vehicle.thrust == pytest.approx(TRUE.thrust, rel=0.05)
    assert "B2_circle_fast: 2 stamps dropped" in data.notes
    assert "vehicle identified from" in data.notes[-1]
    flight = data.test[0]
    assert flight.t[0] == pytest.approx(test.t[350])  # after half a second in the air
    first = int(np.searchsorted(test.t, flight.t[0]))
    expected = identify.rotor_commands(test, 0.04, 0.02)[first : first + len(flight.t)]
    np.testing.assert_allclose(flight.motors, expected)


def test_only_a_folder_with_another_vehicle_has_its_flights(monkeypatch):
    names = ("B3_oval", "B2_circle_fast")
    data = folder_of(monkeypatch, *(replace(flown(0), name=name) for name in names))
    with pytest.raises(sw.InputError, match="no flights of another vehicle"):
        data.on_other_vehicle()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("B2_circle_fast",), "no flight to train on"),
        (("B3_oval",), "no flight to test on.*with the word 'circle'"),
    ],
)
def test_a_folder_without_what_is_needed_is_refused(monkeypatch, names, words):
    with pytest.raises(sw.InputError, match=words):
        folder_of(monkeypatch, *(replace(flown(0), name=name) for name in names))


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded flights are not here")
def test_recorded_flights_are_cut_to_the_air(tmp_path):
    names = ("B2_circle_fast_rep1", "B3_figure8_fast_rep1", "B9_trefoil_slow_rep2")
    for path in (RECORDED / "manifest.csv", *(RECORDED / "nanobench" / f"{n}.npz" for n in names)):
        (tmp_path / path.name).symlink_to(path)
    data = dataset.load(str(tmp_path))
    assert ([f.name for f in data.test], len(data.train)) == ([names[0]], 2)
    for kept in (*data.train, *data.test):
        assert kept.motors is not None
        assert kept.motors.min() > 0.1
        assert kept.position[:, 2].min() > 0.1


def test_what_is_small_is_not_shown_as_zero():
    assert [rounded(v, 2) for v in (0.0, 0.004, 0.006, 1.0, None)] == [
        "0.00",
        "<0.01",
        "0.01",
        "1.00",
        "–",
    ]


def test_no_nis_is_called_the_best_where_all_are_far_from_their_expectation():
    def bold(*ratios):
        rows = [
            {"filter": name, "nis_mean": 6.0 * ratio, "nis_expected": 6.0}
            for name, ratio in zip(("ekf", "ndr"), ratios, strict=True)
        ]
        return results_table.html(rows).count("<b>")

    assert bold(0.5, 0.1) == 1
    assert bold(0.02, 0.001) == 0
