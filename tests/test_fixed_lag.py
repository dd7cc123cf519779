"""`online.smoothed(lag)`: the smoothed estimates of the record so far, in JAX and in C."""

import copy
import pickle
import subprocess
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.cli.export import Export
from sagewing.models import Switched
from sagewing.models.manifolds import Rotation
from sagewing.models.rotations import from_rotation_vector, rotation_vector
from sagewing.runtime.compiled import CompiledFilter
from sagewing.runtime.lag import CompiledLagRecord

pytestmark = pytest.mark.usefixtures("float64", "unchecked_shapes")
BACKENDS = ["c", "jax"]
QUICK = ("-std=c99", "-O0", "-fPIC", "-shared")
MATHS = {f"{name}f" for name in ("sqrt", "log", "sin", "cos", "atan2", "fabs", "copysign")}
LAG = 8
OWN = """
import jax.numpy as jnp
import sagewing as sw


class Pendulum(sw.Model):
    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] - dt * (9.81 * jnp.sin(x[0]) - u[0])])

    def observe(self, x, u):
        return jnp.sin(x[:1])
"""


class Pushed(sw.Model):
    """A cart with an acceleration as its input; its place is measured."""

    def transition(self, x, u, dt):
        return jnp.stack([x[0] + dt * x[1], x[1] + dt * u[0]])

    def observe(self, x, u):
        return jnp.sin(x[:1])


class Speed(Pushed):
    """The same cart, whose speed is measured."""

    def observe(self, x, u):
        return x[1:]


class Thrust(sw.Model):
    """Inputs that may be missing."""

    def transition(self, x, u, dt):
        return x if u is None else x + dt * u

    def observe(self, x, u):
        return x


class Turning(sw.ManifoldModel):
    """A body turned by a gyroscope, whose attitude is measured."""

    space = Rotation()

    def transition(self, x, u, dt):
        return self.space.plus(x, u * dt)

    def observe(self, x, u):
        return rotation_vector(x)

    def innovation(self, z, z_hat):
        return self.space.minus(from_rotation_vector(z), from_rotation_vector(z_hat))


class Chain(sw.Model):
    """Masses that pull each other: so many states that their rows are loops in C."""

    def transition(self, x, u, dt):
        return x + dt * (jnp.roll(x, 1) - 2.0 * x + jnp.sin(jnp.roll(x, -1)))

    def observe(self, x, u):
        return x[::3]


def cart(b=0.95):
    """An adaptive filter of a model that switches by its last input."""
    model = Switched((Pushed(), Speed()), ((0, 1), (0, 1)))
    return sw.SageHusa(model, [1e-3, 1e-2], [[0.05], [0.1]], b=b, gain_noise="posterior")


def drive(steps=40):
    """A record of the cart: with gaps, steps of any length, and an error of the clock."""
    rng = np.random.default_rng(0)
    z = 0.3 * rng.normal(size=(steps, 1))
    z[10:14] = np.nan
    u = np.stack([rng.normal(size=steps), np.arange(steps) % 3 == 0], axis=1)
    dt = rng.uniform(0.05, 0.2, steps)
    dt[28:34] = 1e6  # six failures in a row: a restart
    return z, u, dt


def learned():
    """The filter of a policy, on the cart's own steps."""
    return sw.NDRSageHusa(Pushed(), [1e-3, 1e-2], [0.05], sw.Policy.pretrained("universal"))


def drawn(steps, n_z, n_u=0):
    """A record of noise."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(steps, n_u)) if n_u else None
    return rng.normal(size=(steps, n_z)), u, np.full(steps, 0.1)


class Case(NamedTuple):
    """A filter, its start, and a record."""

    filt: Any
    x0: Any
    P0: np.ndarray
    record: Any

    def online(self, backend, **settings):
        return sw.Online(self.filt, self.x0, self.P0, backend, **{"lag": LAG} | settings)

    def rows(self):
        """z, u and dt of each step."""
        z, u, dt = self.record
        return list(zip(z, [None] * len(z) if u is None else u, map(float, dt), strict=True))

    def run(self, steps):
        """The first steps with their smoothed estimates."""
        z, u, dt = (None if a is None else a[:steps] for a in self.record)
        return sw.run(self.filt, self.x0, self.P0, z, u, dt=dt, smooth=True)


def case(name):
    if name == "cart":
        return Case(cart(), [0.1, 0.0], 0.3 * np.eye(2), drive())
    if name == "rotations":
        filt = sw.VBAKF(Turning(), [0.02] * 3, [0.5] * 3, iterations=1)
        return Case(filt, [1.0, 0.0, 0.0, 0.0], 0.2 * np.eye(3), drawn(12, 3, 3))
    if name == "learned":
        return Case(learned(), [0.1, 0.0], 0.3 * np.eye(2), drawn(12, 1, 1))
    filt = sw.EKF(Chain(), [1e-2] * 8, [0.1] * 3)
    return Case(filt, np.zeros(8), np.eye(8), drawn(12, 3))


def in_c(made, folder, dtype=np.float64):
    """A case in C, compiled quickly."""
    n_u = 0 if made.record[1] is None else made.record[1].shape[1]
    library = CompiledFilter(made.filt, n_u, dtype, folder, QUICK, lag=True)
    start = (np.asarray(a, dtype) for a in (made.x0, made.P0))
    return CompiledLagRecord(library, made.filt.init(*start), LAG + 1, ())


def same_as_run(filt, made, steps, tolerance=1e-9, lags=range(LAG + 1)):
    record = made.run(steps).smoothed
    for lag in lags:
        x, P = filt.smoothed(lag)
        np.testing.assert_allclose(x, record.x[-1 - lag], rtol=0, atol=tolerance)
        np.testing.assert_allclose(P, record.P[-1 - lag], rtol=0, atol=tolerance)


def same(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_the_smoothed_record_of_all_measurements_so_far(backend):
    """Of an adaptive filter, through gaps, changes of the model and a restart."""
    made = case("cart")
    filt, alone = made.online(backend), made.online(backend, lag=0)
    for k, row in enumerate(made.rows()):
        x, P = filt.step(*row)
        same(filt.smoothed(0), (x, P))
        np.testing.assert_allclose(x, alone.step(*row)[0], rtol=0, atol=1e-12)
        if k in (3, 35, 39):
            same_as_run(filt, made, k + 1, lags=range(min(k, LAG) + 1))


def test_the_record_of_the_cart_has_what_it_is_for():
    record = case("cart").run(40)
    assert (record.restarts[35 - LAG], record.restarts[35]) == (0.0, 1.0)
    assert np.ptp(record.r) > 0.0
    moved = np.abs(record.smoothed.x - record.x)
    assert np.all(moved[34:39] > 1e-4)


def test_it_is_that_of_the_noise_that_a_network_chose():
    made = case("learned")
    filt = made.online("jax")
    for row in made.rows():
        filt.step(*row)
    same_as_run(filt, made, 12)


@pytest.mark.parametrize("name", ["rotations", "chain"])
def test_in_C_it_is_that_of_rotations_and_of_many_states(name, tmp_path):
    made = case(name)
    filt = in_c(made, tmp_path)
    for row in made.rows():
        filt.step(*row)
    same_as_run(filt, made, 12)


def test_in_C_single_precision_is_close_and_always_finite(tmp_path):
    made = case("cart")
    filt = in_c(made, tmp_path, np.float32)
    for row in made.rows()[:28]:
        filt.step(*row)
    same_as_run(filt, made, 28, tolerance=1e-4)
    rng = np.random.default_rng(4)
    sizes = [0.0, 1e-30, 1.0, 1e3, 1e10, 1e20, 1e38, np.inf, np.nan]
    for _ in range(2000):
        z, push = (np.float32(rng.normal() * rng.choice(sizes)) for _ in range(2))
        u = np.array([push, rng.integers(2)], np.float32)
        filt.step(np.array([z]), u, float(rng.choice([0.0, 0.1, 1e5, 1e30, 3e38])))
        for lag in (1, LAG):
            x, P = filt.smoothed(lag)
            assert np.all(np.isfinite(x))
            assert np.all(np.isfinite(P))
            assert np.all(np.diagonal(P) >= 0.0)
            np.testing.assert_array_equal(P, P.T)


COPIES = [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_has_the_same_steps(backend, copied):
    made = case("cart")
    first = made.online(backend)
    rows = made.rows()
    for k in (20, 3):
        for row in rows[:k]:
            first.step(*row)
        second = copied(first)
        same(second.smoothed(2), first.smoothed(2))
        same(second.estimate, first.estimate)
        for row in rows[k : k + 5]:
            same(second.step(*row), first.step(*row))
        same(second.smoothed(LAG - 1), first.smoothed(LAG - 1))
        first = made.online(backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_stay_when_inputs_come_and_go(backend):
    still = sw.EKF(Thrust(), [0.1], [1.0])
    filt = sw.Online(still, [0.0], [[1.0]], backend, lag=3)
    z = [1.0, 2.0, 0.5, 1.5]
    for k in range(4):
        filt.step([z[k]], None if k % 2 else [0.0], dt=0.1)
    record = sw.run(still, [0.0], [[1.0]], np.array(z)[:, None], dt=0.1, smooth=True)
    np.testing.assert_allclose(filt.smoothed(3)[0], record.smoothed.x[0], atol=1e-12)


HELD = (11, 15)  # steps with times that give no inputs


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_times_it_is_that_of_the_sorted_stream(backend):
    made = case("cart")
    z, u, dt = (a[:20] for a in made.record)
    for k in HELD:  # the inputs before them
        u[k] = u[k - 1]
    t = np.cumsum(dt)
    arrival = np.argsort(t + 0.5 * np.random.default_rng(3).random(20))
    assert np.any(np.diff(arrival) < 0)
    filt = made.online(backend, t0=0.0, buffer=15)
    for k in arrival:
        filt.step(z[k], None if k in HELD else u[k], t=float(t[k]))
    same_as_run(filt, made, 20)
    for copied in COPIES:
        same(copied(filt).smoothed(LAG), filt.smoothed(LAG))
    short = made.online(backend, t0=0.0, buffer=3)
    for k in range(20):
        short.step(z[k], u[k], t=float(t[k]))
    same_as_run(short, made, 20, lags=range(3))
    with pytest.raises(sw.InputError, match="steps that are there, 3"):
        short.smoothed(3)


def test_what_cannot_be_smoothed_is_said(as_a_user_runs_it):
    made = case("cart")
    filt = made.online("jax", lag=2)
    with pytest.raises(sw.InputError, match="nothing to smooth yet"):
        filt.smoothed(0)
    rows = made.rows()
    filt.step(*rows[0])
    filt.step(*rows[1])
    for lag, words in ((3, "lag=3"), (2, "that are there, 2"), (-1, "0 to"), (1.0, "got 1.0")):
        with pytest.raises(sw.InputError, match=words):
            filt.smoothed(lag)
    with pytest.raises(sw.InputError, match="lag must be a number of steps"):
        made.online("jax", lag=-1)
    alone = made.online("jax", lag=0)
    alone.step(*rows[0])
    with pytest.raises(sw.InputError, match=r"lag=1\); got lag=0"):
        alone.smoothed(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bank_cannot_be_smoothed(backend):
    bank = sw.Bank.grid(Thrust(), [0.1], [1.0])
    with pytest.raises(sw.InputError, match="smoothing needs x_pred"):
        sw.Online(bank, [0.0], [[1.0]], backend, lag=2).step([1.0], dt=0.1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A pendulum in C, with the smoother and without it."""
    folder = tmp_path_factory.mktemp("lag")
    (folder / "mine.py").write_text(OWN)
    model, noise = f"{folder / 'mine.py'}:Pendulum", {"q": (1e-4, 1e-3), "r": (0.01,), "inputs": 1}
    for name, lag in (("with", True), ("without", False)):
        Export(policy="none", model=model, out=folder / name, lag=lag, **noise)()
    return folder


def make(folder, *arguments):
    done = subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_exported_folder_checks_its_smoother(exported):
    """With sanitizers."""
    checks = "CFLAGS=-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    code, said = make(exported / "with", "check", checks)
    assert code == 0, said
    assert said.count("smoothed estimates: off by") == 2
    vector = exported / "with" / "vector_lag.h"
    text = vector.read_text()
    at = text.index("vector_smoothed_P")
    vector.write_text(text[:at] + text[at:].replace("{0.", "{7.", 1))
    code, said = make(exported / "with", "check", "CFLAGS=-O0")
    assert code != 0
    assert "the smoothed estimate 59 steps ago is off" in said


def test_the_filter_in_C_is_the_same_with_and_without_its_smoother(exported):
    for name in ("sagewing_filter.h", "sagewing_filter.c", "Makefile", "check.c"):
        alone = (exported / "without" / name).read_bytes()
        assert (exported / "with" / name).read_bytes() == alone
    others = {path.name for path in (exported / "without").iterdir()}
    assert not [name for name in others if "lag" in name]
    assert "sagewing_lag" not in (exported / "without" / "README.md").read_text()
    assert "sagewing_lag" in (exported / "with" / "README.md").read_text()


def test_nothing_is_allocated_in_C(exported):
    folder = exported / "with"
    command = ["gcc", "-std=c99", "-c", "sagewing_lag.c"]
    subprocess.run(command, cwd=folder, check=True)
    needed = subprocess.run(["nm", "-u", "sagewing_lag.o"], cwd=folder, capture_output=True)
    names = {name.lstrip("_") for name in needed.stdout.decode().split()[1::2]}
    assert not names - {"sw_init", "memcpy", "memset", "stack_chk_fail"} - MATHS
