"""The generated C gives the numbers of JAX, for our models and for ones it has never seen."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sagewing as sw
from sagewing.filters import checks
from sagewing.models.quadrotor import GRAVITY, N_X
from sagewing.runtime.cache import FLAGS
from sagewing.runtime.compiled import CompiledFilter, CompiledRecord
from sagewing.runtime.run import run_compiled

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
# Correctness does not need the optimiser's minutes.
QUICK = tuple("-O0" if flag == "-O3" else flag for flag in FLAGS)
T = 100


class Pendulum(sw.ContinuousModel):
    """Its angle is seen through a lens, its drag is quadratic; no Jacobian is given."""

    jacobian = "exact"

    def drift(self, x, u):
        push = jnp.tanh(u[0]) * jnp.where(u[1] > 0.0, 1.0, -0.5)
        return jnp.stack([x[1], -9.81 * jnp.sin(x[0]) - 0.1 * x[1] * jnp.abs(x[1]) + push])

    def observe(self, x, u):
        return jnp.stack([jnp.sin(x[0]) + 0.1 * x[0] ** 3, jnp.hypot(x[0], x[1] + 2.0)])


class Radar(sw.Model):
    """Range, bearing and a Doppler shift of a turning target; the bearing wraps."""

    def transition(self, x, u, dt):
        rate = jnp.clip(x[4], -2.0, 2.0)
        turn = jnp.array([[0.0, -1.0], [1.0, 0.0]]) * rate
        v = x[2:4] + dt * (turn @ x[2:4])
        return jnp.concatenate([x[:2] + dt * v, v, jnp.exp(-0.1 * dt) * x[4:]])

    def observe(self, x, u):
        distance = jnp.sqrt(jnp.sum(x[:2] ** 2))
        doppler = jax.lax.cond(distance > 1.0, lambda: x[:2] @ x[2:4] / distance, lambda: 0.0)
        return jnp.stack([distance, jnp.arctan2(x[1], x[0]), doppler])

    def innovation(self, z, z_hat):
        nu = z - z_hat
        return nu.at[1].set(jnp.mod(nu[1] + jnp.pi, 2.0 * jnp.pi) - jnp.pi)


class Engine(sw.Model):
    """A table of thrust, gears that are counted in whole numbers, the strongest of three wheels."""

    def transition(self, x, u, dt):
        thrust = jnp.interp(x[0], jnp.array([-1.0, 0.0, 0.5, 2.0]), jnp.array([0.0, 0.2, 0.9, 1.0]))
        gear = jnp.round(4.0 * x[0]).astype(int)
        ratio = 1.0 + 0.1 * (gear // 2) + 0.01 * (gear % 3)
        strongest = jnp.argmax(jnp.tile(x, 2)[1:4]) - jnp.argmin(x)
        return x + dt * jnp.stack([ratio * thrust - x[1], x[0] - 0.1 * strongest])

    def observe(self, x, u):
        return x[:1] + 0.1 * jnp.roll(x, 1)[:1]


class Clockwork(sw.Model):
    """Flags that are put in order, whole numbers with signs that overflow, one of three cogs."""

    def transition(self, x, u, dt):
        flags = x > jnp.array([0.2, 0.0])
        first, any_of_them = jnp.argmax(flags), jnp.maximum(flags[0], flags[1])
        whole = jnp.round(10.0 * x).astype(jnp.int32)
        turns = jnp.abs(whole[0]) + 2 * jnp.sign(whole[1]) + 1
        wild = (whole[0] * jnp.int32(1103515245) + jnp.int32(12345)) % 7
        cogs = (lambda v: 0.9 * v, lambda v: v - 0.1, lambda v: jnp.sin(v))
        moved = jax.lax.switch(turns % 3, cogs, x)
        push = 0.1 * first + 0.2 * any_of_them + 0.3 * (flags[0] < flags[1]) + 0.01 * wild
        return moved + dt * (push + 0.1 * turns)

    def observe(self, x, u):
        return x[:1] + 0.1 * jnp.min(x > 0.0)


class Loom(sw.Model):
    """Large enough for loops: tables with zeros, their columns, sums along them, and choices."""

    def transition(self, x, u, dt):
        woven = jnp.outer(x, jnp.cos(x))
        threads = (woven - woven.T) @ jnp.linspace(-1.0, 1.0, 9) + jnp.eye(9, k=2) @ x
        knots = jnp.where(jnp.arange(9) % 3 == 0, jnp.cumsum(x), jnp.log(1.5 + x**2))
        tight = jax.lax.cond(x[0] > 0.3, lambda: 0.9 * x, lambda: jnp.sin(x) - 0.1 * x[::-1])
        edges = jnp.where(x[1] > 0.0, woven[:, 0], woven[8])
        return tight + dt * (threads - knots + edges)

    def observe(self, x, u):
        return x + 0.2 * jnp.sin(jnp.roll(x, 1)) * jnp.append(jnp.zeros(4), jnp.ones(5))


class Spindle(sw.Model):
    """Whole exponents, bounds at infinity, a sum step by step, a number that two choices share."""

    def transition(self, x, u, dt):
        powers = (1.5 + x * x) ** jnp.array([1, 2, 3, 1, 2, 3, 1, 2, 3])
        held = jnp.clip(x, jnp.where(jnp.arange(9) > 4, -0.4, -jnp.inf), jnp.full(9, jnp.inf))
        length, _ = jax.lax.scan(lambda total, v: (total + v * v, None), 0.0, x)
        first = jnp.sin(x)[0]
        turn = jax.lax.cond(x[1] > 0.0, lambda: first * x[2], lambda: first - x[2])
        nearly = jnp.sin(x) * jnp.array([0.1 + 0.2] + [0.3] * 8)  # all the same as floats
        steps = jnp.round(3.0 * x).astype(int) @ jnp.arange(108).reshape(12, 9).T
        count = 1e-3 * jnp.append(steps, steps)[3:12]
        return held + dt * (
            0.1 * powers - length * x + turn + nearly * jnp.linspace(1, 2, 9) + count
        )

    def observe(self, x, u):
        return x[::4] + 0.1 * jnp.cos(x[:3])


QUADROTOR = sw.models.Switched(
    (sw.models.QuadrotorKinematic(jacobian="euler"), sw.models.QuadrotorDynamic()),
    inputs=((0, 6), (6, 10)),
)
# Each: the model, x0, how far z strays, Q0, R0, and the inputs of a record.
SYSTEMS = {
    "lorenz": (sw.models.Lorenz(), [-8.0, -6.0, 25.0], 1.0, [0.01] * 3, [1.0, 2.0]),
    "rossler": (sw.models.Rossler(), [4.0, 1.0, 0.5], 0.1, [0.01] * 3, [0.5, 0.1]),
    "pendulum": (Pendulum(), [0.5, 0.1], 0.1, [1e-3] * 2, [0.1, 0.1]),
    "engine": (Engine(), [0.3, 0.1], 0.3, [1e-3] * 2, [0.1]),
    "clockwork": (Clockwork(), [0.3, 0.1], 0.3, [1e-3] * 2, [0.1]),
    "radar": (Radar(), [-9.0, 0.1, 1.0, -0.5, 0.3], 0.3, [1e-3] * 5, [0.1, 0.01, 0.1]),
    "loom": (Loom(), np.linspace(-0.5, 0.6, 9), 0.3, [1e-3] * 9, np.linspace(0.05, 0.2, 9)),
    "spindle": (Spindle(), np.linspace(-0.5, 0.6, 9), 0.3, [1e-3] * 9, [0.1] * 3),
    "quadrotor": (
        QUADROTOR,
        np.eye(N_X)[6],
        0.2,
        np.full(N_X, 1e-3),
        [[0.05] * 6, [0.2] * 3 + [0.01] * 3],
    ),
}


@cache
def record(system):
    """Measurements with gaps and outliers, and inputs with switches of the mode."""
    model, x0, spread, _, R0 = SYSTEMS[system]
    rng = np.random.default_rng(3)
    u = None
    if system == "pendulum":
        u = rng.normal(size=(T, 2))
    if system == "quadrotor":
        mode = (np.arange(T) // 20 % 2)[:, None]
        imu = np.array([0, 0, GRAVITY, 0, 0, 0]) + 0.1 * rng.normal(size=(T, 6))
        u = np.concatenate([mode, imu, 0.5 + 0.1 * rng.random((T, 4))], axis=1)

    def move(x, u):
        x = model.normalize(model.transition(x, u, 0.01))
        return x, model.observe(x, u)

    _, z = jax.lax.scan(move, jnp.asarray(x0, float), u, length=T)
    z = np.array(z) + spread * rng.normal(size=(T, np.shape(R0)[-1]))
    z[rng.random(T) < 0.05] *= 8.0
    z[rng.random(z.shape) < 0.15] = np.nan
    z[40:44] = np.nan
    return z, u


def build(system, name):
    model, x0, _, Q0, R0 = SYSTEMS[system]
    n_x, n_z = len(x0), np.shape(R0)[-1]
    if name.startswith("ndr"):
        policy = sw.Policy(sw.Architecture(n_x, n_z), key=jax.random.key(1))
        noise = "posterior" if name == "ndr-posterior" else "prior"
        return sw.NDRSageHusa(model, Q0, R0, policy, gain_noise=noise)
    if name == "universal":
        return sw.NDRSageHusa(model, Q0, R0, sw.Policy.pretrained(name))
    if name in NETWORKS:
        network = sw.Network(name, n_x, n_z, 20, key=jax.random.key(2))
        return NETWORKS[name](model, Q0, R0, network)
    return {
        "ekf": lambda: sw.EKF(model, Q0, R0),
        "gated": lambda: sw.EKF(model, Q0, R0, gate=2.0),
        "sage-husa": lambda: sw.SageHusa(model, Q0, R0),
        "vbakf": lambda: sw.VBAKF(model, Q0, R0, iterations=3),
        "oracle": lambda: sw.OracleEKF(
            model,
            jnp.outer(1.0 + jnp.arange(T) / T, jnp.array(Q0)),
            jnp.tile(jnp.array(R0), (T, 1)),
        ),
    }[name]()


NETWORKS = {"enn-akf": sw.ENNAKF, "l-ekf": sw.LEKF, "kalmannet": sw.KalmanNet}
EVERY = ("ekf", "gated", "sage-husa", "ndr", "ndr-posterior", "vbakf", "oracle", *NETWORKS)
CASES = [
    *(("lorenz", name) for name in EVERY),
    *((system, name) for system in ("pendulum", "radar") for name in ("ekf", "ndr")),
    ("rossler", "sage-husa"),
    ("engine", "ekf"),
    ("clockwork", "ekf"),
    *(("loom", name) for name in ("sage-husa", "universal")),
    ("spindle", "ekf"),
    ("quadrotor", "ndr-posterior"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@cache
def in_c(system, name, dtype, folder, flags=QUICK, lanes=False):
    """A filter in C; several tests share it."""
    _, u = record(system)
    n_u = 0 if u is None else u.shape[1]
    with jax.enable_x64(dtype == np.float64):
        return CompiledFilter(build(system, name), n_u, dtype, folder, flags, lanes=lanes)


def both(system, name, dtype, folder, steps):
    """The estimates of C, one step at a time, and those of JAX."""
    z, u = record(system)
    z, u = z[:steps], None if u is None else u[:steps]
    x0 = np.asarray(SYSTEMS[system][1], float)
    P0 = 0.1 * np.eye(len(x0))
    with jax.enable_x64(dtype == np.float64):
        filt = build(system, name)
        expected = sw.run(filt, x0, P0, z, u)
        compiled = in_c(system, name, dtype, folder)
        made = CompiledRecord(compiled, filt.init(jnp.asarray(x0), jnp.asarray(P0)))
        said = []
        for k in range(len(z)):
            made.step(z[k].astype(dtype), None if u is None else u[k], 0.01)
            said.append(made.estimate)
        return jax.tree.map(lambda *a: np.stack(a), *said), expected, made.state


@pytest.mark.parametrize(("system", "name"), CASES)
def test_C_is_JAX_in_64_bits(system, name, folder):
    made, expected, state = both(system, name, np.float64, folder, T)
    for field in ("x", "P", "q", "r", "d", "nis", "loglik"):
        close = dict(rtol=1e-9, atol=1e-9, err_msg=field)
        np.testing.assert_allclose(getattr(made, field), getattr(expected, field), **close)
    np.testing.assert_array_equal(made.ok, expected.ok)
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(expected.state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("lorenz", "ekf"),
        ("lorenz", "ndr"),
        ("loom", "ekf"),
        ("spindle", "ekf"),
        ("radar", "sage-husa"),
        ("quadrotor", "gated"),
    ],
)
def test_C_is_JAX_in_32_bits(system, name, folder):
    made, expected, _ = both(system, name, np.float32, folder, 60)
    for field in ("x", "P", "q", "r"):
        close = dict(rtol=1e-4, atol=1e-4, err_msg=field)
        np.testing.assert_allclose(getattr(made, field), getattr(expected, field), **close)


@pytest.mark.parametrize(
    ("system", "name", "dtype"),
    [
        *(("lorenz", name, np.float64) for name in EVERY if name != "ndr"),
        *((system, "ekf", np.float64) for system in ("pendulum", "engine", "clockwork", "radar")),
        ("quadrotor", "gated", np.float64),
        ("loom", "ekf", np.float64),
        ("lorenz", "universal", np.float64),
        ("lorenz", "sage-husa", np.float32),
        ("clockwork", "ekf", np.float32),
        ("radar", "ndr", np.float32),
    ],
)
def test_many_records_at_once_are_one_by_one(system, name, dtype, folder):
    z, u = record(system)
    steps = T if dtype == np.float64 else 60
    z = np.stack([z[:steps], np.roll(z[:steps], 7, axis=0), 0.9 * z[:steps]])
    x0 = np.tile(np.asarray(SYSTEMS[system][1], float), (3, 1))
    with jax.enable_x64(dtype == np.float64):
        filt = build(system, name)
        given = checks.record(filt.n_z, z, None if u is None else u[:steps], 0.01, None)
        start = filt.init(*checks.start(filt, x0, 0.1 * np.eye(x0.shape[1]), (3,)))
        single, many = (
            run_compiled(in_c(system, name, dtype, folder, lanes=lanes), start, given)
            for lanes in (False, True)
        )
    close = dict(rtol=1e-9, atol=1e-9) if dtype == np.float64 else dict(rtol=1e-4, atol=1e-4)
    for a, b in zip(jax.tree.leaves(single), jax.tree.leaves(many), strict=True):
        np.testing.assert_allclose(a, b, **close)


def test_predict_only_is_a_step_without_measurement(folder):
    filt = build("quadrotor", "gated")
    _, u = record("quadrotor")
    x0, P0 = np.eye(N_X)[6], 0.1 * np.eye(N_X)
    compiled = in_c("quadrotor", "gated", np.float32, folder)
    ffi = compiled.ffi
    made, other = (
        CompiledRecord(compiled, filt.init(jnp.asarray(x0), jnp.asarray(P0))) for _ in range(2)
    )
    for k in range(30):
        made.step(np.full(6, np.nan), u[k], 0.01)
        other._u[...] = u[k]
        state, estimate = (ffi.addressof(other._c, member) for member in ("state", "estimate"))
        compiled.library.sw_predict_only(state, other._c.u, 0.01, estimate)
    for a, b in zip(jax.tree.leaves(made.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_optimised_code_gives_the_same_numbers(folder):
    filt = build("radar", "ndr")
    z, _ = record("radar")
    x0 = np.asarray(SYSTEMS["radar"][1])
    start = filt.init(jnp.asarray(x0), jnp.asarray(0.1 * np.eye(5)))
    plain, fast = (
        CompiledRecord(in_c("radar", "ndr", np.float32, folder, flags), start)
        for flags in (QUICK, FLAGS)
    )
    for row in z[:60]:
        np.testing.assert_allclose(
            plain.step(row, None, 0.01)[0], fast.step(row, None, 0.01)[0], 1e-4, 1e-4
        )


@pytest.mark.parametrize(("system", "name"), [("loom", "ekf"), ("quadrotor", "gated")])
def test_P_is_symmetric_to_the_last_bit(system, name, folder):
    filt = build(system, name)
    z, u = record(system)
    x0 = np.asarray(SYSTEMS[system][1])
    made = CompiledRecord(
        in_c(system, name, np.float32, folder, FLAGS),
        filt.init(jnp.asarray(x0), jnp.asarray(0.1 * np.eye(len(x0)))),
    )
    for k, row in enumerate(z):
        made.step(row.astype(np.float32), None if u is None else u[k], 0.01)
        np.testing.assert_array_equal(made.estimate.P, made.estimate.P.T)
