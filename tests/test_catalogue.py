"""The catalogue: every filter by name, and one that is added from outside the package."""

import json
import subprocess
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from log_files import flown, px4, ulog_bytes

import sagewing as sw
from sagewing import catalogue
from sagewing.catalogue import CatalogueEntry

# Imported before an entry is added: their help names the entries that are there at that time.
from sagewing.cli import bench_chaos, export, run  # noqa: F401
from sagewing.cli.main import main
from sagewing.filters import Step
from sagewing.problems.flight.setup import near_hover
from sagewing.problems.named import problem_named
from sagewing.problems.own_model import own_problem
from sagewing.problems.problem import draw_record
from sagewing.report.style import label, light

COLOUR = "#117733"


class FixedState(NamedTuple):
    """The estimate."""

    x: Any
    P: Any


class FixedGain(eqx.Module):
    """A filter of one's own: the prediction, moved by a tenth towards what positions say."""

    model: Any
    q0: Any
    r0: Any

    @property
    def n_x(self):
        return self.model.n_x or self.q0.size

    @property
    def n_z(self):
        return self.r0.size

    def init(self, x0, P0):
        return FixedState(x0, P0)

    def step(self, state, z, u, dt, arrived):
        model = self.model
        if state.x.ndim > 1:  # a batch of records, last
            transition = jax.vmap(lambda x, u: model.transition(x, u, dt), (-1, _axis(u)), -1)
            observe = jax.vmap(model.observe, (-1, _axis(u)), -1)
        else:
            transition, observe = (lambda x, u: model.transition(x, u, dt)), model.observe
        x = transition(state.x, u)
        nu = jnp.where(arrived, z - observe(x, u), 0.0)
        x = x.at[:2].add(0.1 * nu[:2])
        flag = jnp.ones_like(x[0], bool)
        zero = jnp.zeros_like(x[0])
        nis = jnp.sum(nu**2, axis=0)
        said = Step(x, state.P, nis, zero, flag, zero)
        return FixedState(x, state.P), said


def _axis(u):
    return None if u is None else -1


@pytest.fixture
def added(monkeypatch):
    """The filter as one entry of the catalogue, as a user's script would add it."""
    monkeypatch.setattr(catalogue, "_entries", dict(catalogue._entries))
    catalogue.add(
        CatalogueEntry(
            "fixed-gain",
            "Fixed gain",
            COLOUR,
            lambda model, Q0, R0, learned: FixedGain(model, jnp.asarray(Q0), jnp.asarray(R0)),
        )
    )


@pytest.mark.usefixtures("added")
def test_a_filter_from_outside_is_in_the_chaos_benchmark(tmp_path, capsys):
    args = ["--runs", "12", "--steps", "20", "--systems", "lorenz", "--filters", "ekf,fixed-gain"]
    main(["bench", "chaos", "--out", str(tmp_path / "b"), *args, "--smooth"])
    assert "Fixed gain" in capsys.readouterr().out
    rows = json.loads((tmp_path / "b" / "result.json").read_text())["rows"]
    # Its steps have no prediction, so that it cannot be smoothed
    assert [row["filter"] for row in rows] == ["ekf", "ekf-smoothed", "fixed-gain"]
    assert rows[1]["armse_mean"] < rows[0]["armse_mean"]
    assert np.isfinite(rows[2]["armse_mean"])
    assert "| Fixed gain |" in (tmp_path / "b" / "table.md").read_text()


@pytest.mark.usefixtures("added")
def test_a_filter_from_outside_runs_on_a_log_and_is_on_the_page(tmp_path, capsys):
    log, out = tmp_path / "flight.ulg", tmp_path / "run"
    log.write_bytes(ulog_bytes(px4(flown(6.0))))
    main(["run", str(log), "--filter", "ekf,fixed-gain", "--outage", "3:4", "--out", str(out)])
    assert "Fixed gain" in capsys.readouterr().out
    assert np.isfinite(np.loadtxt(out / "fixed-gain.tum")).all()
    page = (out / "report.html").read_text()
    assert "Fixed gain" in page
    assert COLOUR in page


@pytest.mark.usefixtures("added")
def test_a_filter_from_outside_is_stepped_online_and_its_exported_c_agrees(tmp_path):
    lorenz = problem_named("lorenz", {})
    filt = catalogue.build("fixed-gain", lorenz.model, lorenz.q, lorenz.r)
    z, _ = draw_record(lorenz, 5, seed=0)
    whole = sw.run(filt, lorenz.x0, lorenz.P0, z, dt=lorenz.dt)
    online = sw.Online(filt, lorenz.x0, lorenz.P0, backend="jax")
    for k in range(5):
        x, _ = online.step(z[k], dt=lorenz.dt)
        np.testing.assert_allclose(x, whole.x[k], rtol=1e-5)
    folder = tmp_path / "c"
    named = ["--model", "lorenz", "--filter", "fixed-gain"]
    main(["export", "none", *named, "--out", str(folder)])
    assert "fixed-gain for Lorenz" in (folder / "README.md").read_text()
    # Compiles the C in both precisions and compares its estimates with those of JAX
    check = ["make", "check", "CFLAGS=-O0"]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for precision in ("single", "double"):
        assert f"in {precision} precision" in done.stdout


@pytest.mark.usefixtures("added")
def test_label_and_colour_are_those_of_the_entry():
    assert (label("fixed-gain"), light("fixed-gain")) == ("Fixed gain", COLOUR)
    assert "fixed-gain" in catalogue.buildable()


def test_smoothed_estimates_have_a_label_and_a_colour_of_their_own():
    names = catalogue.buildable()
    own = {light(catalogue.smoothed(name)) for name in names}
    assert not own & {light(name) for name in names}
    assert len(own) == len(names)
    assert label("ekf-smoothed") == "EKF, smoothed"
    with pytest.raises(sw.InputError, match=r"ekf-smoothed cannot be built: .* --smooth adds"):
        catalogue.check("ekf-smoothed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "ekf"}, "already"),
        ({"name": "../mine"}, "lowercase letters"),
        ({"colour": "red"}, "like #117733"),
        ({"build": None}, "neither"),
    ],
)
def test_an_entry_that_cannot_serve_is_refused(monkeypatch, change, words):
    monkeypatch.setattr(catalogue, "_entries", dict(catalogue._entries))
    given: dict[str, Any] = {"name": "mine", "label": "Mine", "colour": COLOUR}
    given |= {"build": lambda *_: None} | change
    with pytest.raises(sw.InputError, match=words):
        catalogue.add(CatalogueEntry(**given))


@pytest.mark.parametrize("name", ["ekf-oracle", "onboard", "imu-only"])
def test_a_row_that_is_no_filter_says_why_it_cannot_be_built(name):
    lorenz = problem_named("lorenz", {})
    with pytest.raises(sw.InputError, match="cannot be built: it "):
        catalogue.build(name, lorenz.model, lorenz.q, lorenz.r)


@pytest.mark.parametrize(
    ("filters", "words"),
    [("ekf-oracle", "cannot be built"), ("kalmannet", "none ships as"), ("ukf", "no filter 'ukf'")],
)
def test_run_says_why_it_has_no_such_filter(tmp_path, capsys, filters, words):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path), "--filter", filters, "--out", str(tmp_path / "o")])
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


OWN = """
import sagewing as sw


class Eleven(sw.Model):
    def transition(self, x, u, dt):
        return x + dt * u[:2]

    def observe(self, x, u):
        return x
"""


def test_a_model_of_ones_own_with_eleven_inputs_is_no_quadrotor(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    own = own_problem(f"{tmp_path / 'mine.py'}:Eleven", (1e-3,) * 2, (0.1,) * 2, (), 11, 0.01)
    _, u = draw_record(own, 200, seed=0)
    assert np.abs(u.mean(axis=0)).max() < 0.05
    assert np.abs(u).max() < 1.0
    _, flight = draw_record(problem_named("quadrotor", {}), 5, seed=0)
    assert flight[:, 3].mean() == pytest.approx(9.81, abs=0.3)
    assert near_hover(np.zeros((1, 11)))[0, 7:] == pytest.approx([0.5] * 4)


def test_a_learned_part_of_another_class_is_refused():
    model, noise = sw.models.Lorenz(), ([0.01] * 3, [1.0, 2.0])
    policy, network = sw.Policy.pretrained("chaos"), sw.Network.pretrained("chaos-l-ekf-aligned")
    for name, learned in (("l-ekf", policy), ("ndr", network), ("ekf", policy)):
        with pytest.raises(sw.InputError, match=name):
            catalogue.build(name, model, *noise, learned)
