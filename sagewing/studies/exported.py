"""What can be exported by name: models with their noise, filters, and a record to try them on."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.errors import InputError
from sagewing.filters import EKF, VBAKF, NDRSageHusa, SageHusa
from sagewing.models import QDRONE, Lorenz, Model, Rossler, Thomas, Vehicle
from sagewing.models.quadrotor import GRAVITY
from sagewing.problems.chaos import DT, P0_VARIANCE, Q_BASE, R_BASE
from sagewing.train.flight import GATE, P0, Q0, R0, estimator

CHAOTIC = {"lorenz": Lorenz, "rossler": Rossler, "thomas": Thomas}
QUADROTOR = "quadrotor"
MODELS = (*CHAOTIC, QUADROTOR)
FORGETTING = {"shkf95": 0.95, "shkf99": 0.99, "shkf995": 0.995, "shkf999": 0.999}
FILTERS = ("ekf", "ekf-gated", *FORGETTING, "vbakf", "ndr")
MISSING = 0.1  # of a record's channels do not arrive
MODE_STEPS = 20  # after which a record switches its mode, where there are several


class System(NamedTuple):
    """A model, the noise that its filter starts from, and how a record of it begins."""

    model: Model
    q: Any
    r: Any
    x0: np.ndarray
    P0: np.ndarray
    n_u: int
    dt: float


def known(name: str, training: dict[str, Any]) -> System:
    """A model of ours; a quadrotor is the one that `training` says, if it does."""
    if name in CHAOTIC:
        start, cov = np.array([1.0, 2.0, 5.0]), P0_VARIANCE * np.eye(3)
        return System(CHAOTIC[name](), Q_BASE, R_BASE, start, cov, 0, DT)
    if name == QUADROTOR:
        without_pose = training.get("without_pose", "dynamic")
        model = estimator(_vehicle(training.get("vehicle")), without_pose)
        return System(model, Q0, R0, np.eye(19)[6], P0, 11, 0.01)
    raise InputError(
        f"--model says {name!r}; known: {', '.join(MODELS)}, or FILE.py:NAME for a model of your "
        "own."
    )


def _vehicle(said: Any) -> Vehicle:
    if said is None:
        return QDRONE
    try:
        sizes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
        vehicle = Vehicle(**sizes)
        for value, usual in zip(vehicle, QDRONE, strict=True):
            given = np.asarray(value)
            if given.dtype.kind not in "if" or given.shape != np.shape(usual):
                raise TypeError(value)
            if not np.all((given > 0.0) & (given < np.inf)):
                raise TypeError(value)
        return vehicle
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "policy.json describes no vehicle: its provenance.training.vehicle needs "
            f"{', '.join(Vehicle._fields)}, which are positive numbers."
        ) from None


def own(
    place: str, q: Sequence[float], r: Sequence[float], x0: Sequence[float], n_u: int, dt: float
) -> System:
    """NAME in FILE.py: a user's model, or a class of models that needs no arguments."""
    if not q or not r:
        raise InputError("A model of your own needs --q and --r, the variances of its noise.")
    start = np.array(x0) if x0 else np.zeros(len(q))
    if len(start) != len(q):
        raise InputError(f"--x0 has {len(start)} numbers and --q {len(q)}.")
    file, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if not Path(file).is_file() or spec is None or spec.loader is None:
        raise InputError(f"--model {place}: there is no Python file {file}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    model = found() if isinstance(found, type) else found
    if not isinstance(model, Model):
        raise InputError(f"--model {place}: {file} has no sw.Model {name!r}.")
    return System(model, tuple(q), tuple(r), start, np.eye(len(q)), n_u, dt)


def built(name: str, system: System, learned: Any = None) -> Any:
    """The filter of this name; a tuned one has its noise from what was learned."""
    model, q, r = system.model, system.q, system.r
    if name == "ndr":
        if not hasattr(learned, "gain_noise"):
            raise InputError(
                "--filter ndr needs a policy: a folder of `sagewing train`, or a name."
            )
        nominal = (q, r) if learned.nominal is None else (None, None)
        return NDRSageHusa(model, *nominal, learned)
    if learned is not None:
        if not hasattr(learned, "log_q"):
            raise InputError(f"{name} has no use for this policy; use none, or --filter ndr.")
        q, r = learned.q, learned.r
    if name in FORGETTING:
        return SageHusa(model, q, r, b=FORGETTING[name])
    if name == "vbakf":
        if model.modes > 1:
            raise InputError("vbakf has no modes: choose another filter for this model.")
        return VBAKF(model, q, r)
    if name in ("ekf", "ekf-gated"):
        return EKF(model, q, r, gate=GATE if name == "ekf-gated" else None)
    raise InputError(f"There is no filter {name!r} to export; known: {', '.join(FILTERS)}.")


def drawn(system: System, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Measurements of the model's own motion with noise, some of them missing, and its inputs."""
    rng = np.random.default_rng(seed)
    modes, r = system.model.modes, np.atleast_2d(np.asarray(system.r, float))
    u = rng.normal(scale=0.1, size=(steps, system.n_u))
    mode = (np.arange(steps) // MODE_STEPS) % modes
    if modes > 1:
        u[:, 0] = mode
    if system.n_u == 11:  # a quadrotor near hover
        u[:, 3] += GRAVITY
        u[:, 7:] = 0.5 + 0.1 * u[:, 7:]
    z = np.empty((steps, r.shape[1]))
    x = jnp.asarray(system.x0)

    @jax.jit
    def moved(x: jax.Array, u: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        x = system.model.normalize(system.model.transition(x, u, system.dt))
        return x, system.model.observe(x, u)

    for k in range(steps):
        x, seen = moved(x, jnp.asarray(u[k]) if system.n_u else None)
        z[k] = np.asarray(seen) + np.sqrt(r[mode[k]]) * rng.normal(size=z.shape[1])
    z[rng.random(z.shape) < MISSING] = np.nan
    return z, u
