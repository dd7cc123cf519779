"""Systems whose filters are led astray, and the many ways of doing that."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import sagewing as sw
from sagewing.models.quadrotor import N_X, Q, R
from sagewing.problems.flight.setup import P0 as FLIGHT_P0
from sagewing.problems.flight.setup import Q0 as FLIGHT_Q0
from sagewing.problems.flight.setup import R0 as FLIGHT_R0
from sagewing.problems.flight.setup import estimator

# A record: so many good steps, the trouble, then as many to come back in, and those that are scored
BEFORE, TIME_TO_RECOVER, SCORED = 200, 500, 200
STEPS = BEFORE + 1 + TIME_TO_RECOVER + SCORED
SEEDS = 4
LARGEST = 3e38  # in single precision


class Pendulum(sw.Model):
    """The README's model."""

    def transition(self, x, u, dt):
        angle, rate = x
        return jnp.stack([angle + dt * rate, rate - dt * 9.81 * jnp.sin(angle)])

    def observe(self, x, u):
        return jnp.sin(x[:1])


@dataclass(frozen=True)
class System:
    """A model with its noise and a start; `q` is also the noise of the truth."""

    model: sw.Model
    x0: tuple
    q: tuple
    r: tuple
    dt: float


SYSTEMS = {
    "constant velocity": System(
        sw.models.ConstantVelocity(), (0.0,) * 4, (1e-3,) * 4, (1.0, 1.0), 0.1
    ),
    "pendulum": System(Pendulum(), (1.0, 0.0), (1e-5, 1e-4), (1e-2,), 0.01),
    "lorenz": System(sw.models.Lorenz(), (-8.0, -6.0, 25.0), (0.01,) * 3, (1.0, 2.0), 0.01),
    "rossler": System(sw.models.Rossler(), (-5.0, -5.0, 0.1), (1e-5,) * 3, (0.1, 0.01), 0.01),
    "thomas": System(sw.models.Thomas(), (1.0, 0.0, 0.5), (1e-3,) * 3, (0.1, 0.1), 0.05),
}
FLIGHTS = ("quadrotor", "quadrotor with two models")


@dataclass(frozen=True)
class Record:
    """What a filter is given, and the truth."""

    x0: np.ndarray
    P0: np.ndarray
    truth: np.ndarray
    z: np.ndarray
    u: np.ndarray | None
    dt: float
    sigma: np.ndarray


@cache
def record(name: str, seed: int, steps: int = STEPS) -> Record:
    """A system as it was seen, without any trouble."""
    if name in FLIGHTS:
        return _circle(seed, steps, modes=name != "quadrotor")
    system = SYSTEMS[name]
    q, r, x0 = (jnp.asarray(a) for a in (system.q, system.r, system.x0))

    def step(x, noise):
        w, v = noise
        x = system.model.transition(x, None, system.dt) + w * jnp.sqrt(q)
        return x, (x, system.model.observe(x, None) + v * jnp.sqrt(r))

    keys = jax.random.split(jax.random.key(seed))
    noise = [jax.random.normal(k, (steps, a.size)) for k, a in zip(keys, (q, r), strict=True)]
    _, (truth, z) = jax.lax.scan(step, x0, tuple(noise))
    truth, z = np.asarray(truth), np.asarray(z)
    P0 = 0.1 * np.eye(q.size)
    return Record(np.asarray(x0), P0, truth, z, None, system.dt, np.sqrt(np.asarray(r)))


def _circle(seed: int, steps: int, modes: bool, dt: float = 0.01, turn: float = 0.5) -> Record:
    """A quadrotor on a circle, level, with its nose swinging."""
    rng, t = np.random.default_rng(seed), dt * np.arange(1, steps + 1)
    c, s = np.cos(turn * t), np.sin(turn * t)
    position = np.stack([2 * c, 2 * s, 1 + 0.2 * np.sin(t)], 1)
    velocity = np.stack([-2 * turn * s, 2 * turn * c, 0.2 * np.cos(t)], 1)
    force = np.stack([-2 * turn**2 * c, -2 * turn**2 * s, 9.81 - 0.2 * np.sin(t)], 1)
    yaw, rate = 0.5 * s, 0.5 * turn * c

    def in_body(a):
        c, s = np.cos(yaw), np.sin(yaw)
        return np.stack([c * a[:, 0] + s * a[:, 1], c * a[:, 1] - s * a[:, 0], a[:, 2]], 1)

    truth = np.zeros((steps, N_X))
    truth[:, :3], truth[:, 3:6], truth[:, 12] = position, in_body(velocity), rate
    truth[:, 6], truth[:, 9] = np.cos(yaw / 2), np.sin(yaw / 2)
    u = np.concatenate([in_body(force), np.stack([0 * t, 0 * t, rate], 1)], 1)
    u += rng.normal(size=u.shape) * np.repeat([0.1, 0.01], 3)
    sigma = np.sqrt(FLIGHT_R0[0])
    z = np.concatenate([position, np.stack([0 * t, 0 * t, yaw], 1)], 1)
    z += rng.normal(size=z.shape) * sigma
    if modes:
        u = np.concatenate([np.zeros((steps, 1)), u, np.full((steps, 4), 0.5)], 1)
    return Record(truth[0], FLIGHT_P0, truth, z, u, dt, sigma)


def errors(name: str, x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """What is scored: the state's error; of a flight that of the position and of the attitude."""
    if name not in FLIGHTS:
        return np.linalg.norm((x - truth).astype(float), axis=-1)[..., None]
    apart = np.linalg.norm((x - truth)[..., R].astype(float), axis=-1)
    turned = 2 * np.arccos(np.clip(np.abs((x[..., Q] * truth[..., Q]).sum(-1)), 0, 1))
    return np.stack([apart, turned], -1)


def filters(name: str) -> dict:
    """All filters of a system."""
    if name in FLIGHTS:
        kinematic = sw.models.QuadrotorKinematic(jacobian="euler")
        two = name != "quadrotor"
        model, q, r = estimator() if two else kinematic, FLIGHT_Q0, FLIGHT_R0
        r = r if two else r[0]
    else:
        model, q, r = SYSTEMS[name].model, SYSTEMS[name].q, SYSTEMS[name].r
    made = {
        "ekf": lambda: sw.EKF(model, q, r),
        "ekf, gated": lambda: sw.EKF(model, q, r, gate=3.0),
        "sage-husa 0.95": lambda: sw.SageHusa(model, q, r, b=0.95),
        "sage-husa 0.99": lambda: sw.SageHusa(model, q, r, b=0.99),
        "sage-husa posterior": lambda: sw.SageHusa(model, q, r, gain_noise="posterior"),
        "universal": lambda: sw.NDRSageHusa(model, q, r, sw.Policy.pretrained("universal")),
    }
    if name != FLIGHTS[1]:
        made["vbakf"] = lambda: sw.VBAKF(model, q, r)
    if len(q) == 3:
        made["ndr"] = lambda: sw.NDRSageHusa(model, q, r, sw.Policy.pretrained("chaos"))
        for kind, build in (
            ("enn-akf", sw.ENNAKF),
            ("l-ekf", sw.LEKF),
            ("kalmannet", sw.KalmanNet),
        ):
            made[kind] = lambda kind=kind, build=build: build(
                model, q, r, sw.Network.pretrained(f"chaos-{kind}-aligned")
            )
        if name != "lorenz":  # it was trained there; elsewhere it is lost without any trouble
            del made["kalmannet"]
    if name == FLIGHTS[1]:
        policy = "flight-sim-paper-ndr"
        made["ndr"] = lambda: sw.NDRSageHusa(model, None, None, sw.Policy.pretrained(policy))
    return made


def troubles(given: Record) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """z and dt of a record with one trouble each, by its name; the first has none."""
    z, dt = given.z, np.full(len(given.z), given.dt)
    made = {"none": (z, dt)}
    for k in (1, 2, 3, 4, 6, 9, 12, 19, 25, 30):
        spike = np.minimum(10.0**k * given.sigma, LARGEST)
        for what, channels, last in (
            ("one channel", 0, 1),
            ("all", slice(None), 1),
            ("thrice", 0, 3),
        ):
            wild = z.copy()
            wild[BEFORE : BEFORE + last, channels] = spike[channels] * (-1) ** k
            made[f"10^{k} sigma, {what}"] = wild, dt
    for long in (1e3, 1e6, 1e30):
        wild = dt.copy()
        wild[BEFORE] = long
        made[f"dt of {long:g}"] = z, wild
    return made
