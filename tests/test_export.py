"""`sagewing export` and `sagewing bench latency`: what an integrator is given."""

import json
import shutil
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing import catalogue
from sagewing.cli.bench_latency import BenchLatency
from sagewing.cli.export import Export
from sagewing.cli.output import NewOutput
from sagewing.codegen.notice import comment
from sagewing.codegen.package import FILES
from sagewing.codegen.source import c_source
from sagewing.problems.named import problem_named
from sagewing.problems.problem import draw_record
from sagewing.studies.arm import on_cortex_m7
from sagewing.studies.latency import TimedFilter, measured

OWN = """
import jax.numpy as jnp
import sagewing as sw


class Pendulum(sw.Model):
    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] - dt * (9.81 * jnp.sin(x[0]) - u[0])])

    def observe(self, x, u):
        return jnp.sin(x[:1])


class Compass(sw.ManifoldModel):
    space = sw.models.manifolds.Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, jnp.array([0.1, 0.2, 0.3]) * dt)

    def observe(self, x, u):
        return sw.models.rotations.rotation_matrix(x)[0]


drifting = sw.models.with_drift(Compass(), channels=[0], std=0.5, time_constant=10.0)
number = 3
"""
pytestmark = pytest.mark.usefixtures("unchecked_shapes")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The learned filter of Lorenz, as C."""
    folder = tmp_path_factory.mktemp("export") / "c"
    Export(policy="chaos", out=folder)()
    return folder


def make(folder, *arguments):
    """What make prints, where it succeeds."""
    run = subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("compiler", COMPILERS)
def test_make_check_passes_in_both_precisions(exported, compiler):
    make(exported, "clean")
    said = make(exported, "check", f"CC={compiler}", "CFLAGS=-O1")
    assert "in single precision" in said
    assert "in double precision" in said


def test_the_UKF_of_a_drifting_sensor_on_a_manifold_passes_its_check(tmp_path):
    """Its vector has the origin of the space and the start of the drift."""
    (tmp_path / "mine.py").write_text(OWN)
    out = tmp_path / "c"
    noise = {"q": (1e-3,) * 3, "r": (0.01,) * 3, "linearization": "unscented"}
    Export(policy="none", model=f"{tmp_path / 'mine.py'}:drifting", out=out, **noise)()
    assert "60 steps of 5 states" in make(out, "check", "CFLAGS=-O0")
    assert "#define SW_NDX 4" in (out / "sagewing_filter.h").read_text()


def test_a_wrong_number_fails_the_check(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "c")
    vector = (tmp_path / "c" / "vector.h").read_text()
    at = vector.index("vector_x[")
    broken = vector[:at] + vector[at:].replace("0.", "7.", 1)
    (tmp_path / "c" / "vector.h").write_text(broken)
    run = subprocess.run(["make", "check", "CFLAGS=-O0"], cwd=tmp_path / "c", capture_output=True)
    assert run.returncode != 0


def test_replay_gives_the_estimates_of_run(exported):
    make(exported, "replay", "CFLAGS=-O1")
    command = ["./replay", "start.csv", "measurements.csv"]
    said = subprocess.run(command, cwd=exported, capture_output=True, text=True, check=True).stdout
    found = np.array([[float(v) for v in line.split(",")] for line in said.splitlines()])
    problem = problem_named("lorenz", {})
    z, _ = draw_record(problem, 60, seed=0)
    policy = sw.Policy.pretrained("chaos")
    filt = catalogue.build("ndr", problem.model, problem.q, problem.r, policy)
    made = sw.run(filt, problem.x0, problem.P0, z, dt=problem.dt)
    np.testing.assert_allclose(found[:, 1:4], made.x, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        found[:, 4:], np.sqrt(np.diagonal(made.P, axis1=1, axis2=2)), rtol=1e-2
    )


@pytest.mark.parametrize("line", ["0.01,1.0", "0.01,1.0,2.0,3.0", "-0.01,1.0,2.0", "nan,1.0,2.0"])
def test_replay_refuses_a_line_that_is_none(exported, tmp_path, line):
    make(exported, "replay", "CFLAGS=-O1")
    (tmp_path / "bad.csv").write_text(f"dt,z0,z1\n0.01,,2.0\n{line}\n")
    command = ["./replay", "start.csv", str(tmp_path / "bad.csv")]
    run = subprocess.run(command, cwd=exported, capture_output=True, text=True)
    assert run.returncode == 2
    assert "line 3" in run.stderr


def test_the_folder_says_what_it_is_and_is_the_same_again(exported, tmp_path):
    assert {path.name for path in exported.iterdir()} >= FILES
    readme = (exported / "README.md").read_text()
    assert "ndr for Lorenz" in readme
    assert "lorenz" in readme
    Export(policy="chaos", out=tmp_path / "again")()
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (exported / name).read_bytes()


def test_a_model_of_ones_own_with_inputs(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    noise = {"q": (1e-4, 1e-3), "r": (0.01,), "inputs": 1}
    model = f"{tmp_path / 'mine.py'}:Pendulum"
    Export(policy="none", model=model, filter="shkf99", out=tmp_path / "c", **noise)()
    assert "off by" in make(tmp_path / "c", "check", "CFLAGS=-O0")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "psychic"}, "no shipped policy 'psychic'"),
        ({"policy": "none", "model": "hexapod"}, "known: lorenz"),
        ({"policy": "none", "model": "lorenz", "filter": "ndr"}, "needs a policy"),
        ({"policy": "none", "model": "lorenz", "filter": "ukf"}, "no filter 'ukf'"),
        ({"policy": "chaos", "filter": "ekf"}, "ekf takes no policy"),
        ({"policy": "none", "model": "nowhere.py:A", "q": (1.0,), "r": (1.0,)}, "no Python file"),
        ({"policy": "none", "model": "MINE:number", "q": (1.0,), "r": (1.0,)}, "no sw.Model"),
        ({"policy": "none", "model": "MINE:Pendulum"}, "needs --q and --r"),
        ({"policy": "none", "model": "quadrotor", "filter": "vbakf"}, "no modes"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, given, words):
    (tmp_path / "mine.py").write_text(OWN)
    if "model" in given:
        given = {**given, "model": given["model"].replace("MINE", str(tmp_path / "mine.py"))}
    with pytest.raises(sw.InputError, match=words):
        Export(out=tmp_path / "c", **given)()
    assert not (tmp_path / "c").exists()


@pytest.fixture
def of_a_stranger(tmp_path):
    """A policy folder, and a Python file in it that leaves a trace when it is run."""

    def made(training, **more):
        folder = tmp_path / "stranger"
        sw.Policy.pretrained("chaos").save(folder, {"training": training, **more}, overwrite=True)
        trace = tmp_path / "executed"
        (tmp_path / "n.py").write_text(f"import os; os.mkdir({str(trace)!r})\n{OWN}")
        return folder, trace

    return made


def test_a_name_in_a_policy_is_never_imported(of_a_stranger, tmp_path):
    file = tmp_path / "n.py"
    for name in (f"{file}:Pendulum", f"{file}:X", "n:Pendulum", "os:system", "", ":", None, [], 3):
        folder, trace = of_a_stranger({"domain": name})
        with pytest.raises(sw.InputError, match=r"domain.*--model"):
            Export(policy=str(folder), q=(0.1,), r=(0.1,), out=tmp_path / "c")()
        assert not trace.exists()
    # The file was a live one: typed by the user it is run
    noise = {"q": (1e-4, 1e-3), "r": (0.01,), "inputs": 1}
    out = tmp_path / "c"
    Export(policy="none", model=f"{file}:Pendulum", filter="ekf", out=out, **noise)()
    assert trace.exists()


@pytest.mark.parametrize(
    "training",
    [
        "lorenz",
        ["lorenz"],
        {"domain": "lorenz", "filter": "os:system"},
        {"domain": "lorenz", "filter": ["ndr"]},
        {"domain": "flight", "vehicle": "x"},
        {"domain": "flight", "vehicle": {"mass": "x"}},
        {"domain": "flight", "vehicle": dict.fromkeys(sw.models.QDRONE._fields, "1.0")},
        {"domain": "flight", "vehicle": sw.models.QDRONE._replace(mass=-1.0)._asdict()},
    ],
    ids=str,
)
def test_a_damaged_provenance_is_refused_and_not_run(of_a_stranger, tmp_path, training):
    folder, _ = of_a_stranger(training)
    with pytest.raises(sw.InputError):
        Export(policy=str(folder), out=tmp_path / "c")()


def test_no_text_of_a_policy_or_a_model_breaks_the_comments_of_the_C(of_a_stranger, tmp_path):
    nasty = "out/*/x */ #error x /*/ **// ??/ ???/ \x01\x02/\n\\\n\u202e\x00"
    folder, _ = of_a_stranger({"domain": "lorenz", "protocol": nasty}, **{nasty: nasty})
    Export(policy=str(folder), filter="ndr", out=tmp_path / "c")()
    make(tmp_path / "c", "check", "CFLAGS=-O0")
    body = comment(nasty).removeprefix("/*").removesuffix("*/")
    assert "*/" not in body
    assert "/*" not in body
    assert "??" not in body


def test_an_export_over_a_symbolic_link_is_refused(exported, tmp_path):
    (tmp_path / "link").symlink_to(exported)
    with pytest.raises(sw.InputError, match="symbolic link"):
        Export(policy="none", model="lorenz", filter="ekf", out=tmp_path / "link", force=True)()
    assert (exported / "README.md").exists()


def test_nothing_that_was_there_is_lost(exported, tmp_path):
    with pytest.raises(sw.InputError, match="--force"):
        Export(policy="none", model="lorenz", out=exported)()
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("done")
    with pytest.raises(sw.InputError, match="not an exported filter"):
        Export(policy="none", model="lorenz", out=other, force=True)()
    assert (other / "chapter.tex").read_text() == "done"


def test_latencies_of_every_backend(tmp_path, capsys):
    output = NewOutput(tmp_path / "out")
    BenchLatency(output=output, filters="ekf", models="lorenz", steps=300)()
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["rows"]
    assert [row["backend"] for row in rows] == ["jax", "c", "c-loop"]
    for row in rows:
        assert 0.0 < row["us_median"] <= row["us_p99"] <= row["us_worst"]
    assert rows[2]["us_median"] < rows[1]["us_median"] < rows[0]["us_median"]
    assert "c-loop" in capsys.readouterr().out


class Top(sw.ManifoldModel):
    """A body that spins; one of its axes is measured."""

    space = sw.models.manifolds.Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, jnp.array([0.1, 0.2, 0.3]) * dt)

    def observe(self, x, u):
        return sw.models.rotations.rotation_matrix(x)[0]


def test_a_filter_with_fewer_errors_than_states_is_timed_in_C():
    filt = sw.EKF(Top(), [1e-4] * 3, [0.01] * 3)
    z = np.tile([1.0, 0.0, 0.0], (50, 1))
    start = np.array([1.0, 0.0, 0.0, 0.0])
    case = TimedFilter(filt, start, np.eye(3), z, np.zeros((50, 0)))
    assert (measured(case, "c-loop", 100) > 0.0).all()


@pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no compiler for Cortex-M")
def test_a_small_filter_fits_a_small_computer():
    lorenz = problem_named("lorenz", {})
    fit = on_cortex_m7(c_source(sw.EKF(lorenz.model, lorenz.q, lorenz.r), dtype=np.float32))
    assert fit is not None
    assert 1000 < fit.flash < 50_000
    assert 100 < fit.ram < 10_000
