"""Measurements and time steps that no sensor should give, and the filters that must survive them.

A record is cut into phases, each with a trouble of its own. All back ends are given the same.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from troubles import SYSTEMS, Record, filters, record

import sagewing as sw

PHASE = 200  # steps
GAP = 5  # phases, of a long one
LARGEST_POWER = 30  # of ten, in standard deviations
CLOCK = (0.0, 1e-38, 1e-12, 1e-6, 1.0, 1e3, 1e6, 1e30)  # seconds
TROUBLES = ("none", "spikes", "offset", "missing", "infinite", "clock", "stuck", "gap", "all")
OFTEN = 0.05  # of the steps with trouble
TRUTH = 2000  # steps, then again from the start
SYSTEM = "lorenz"


class Repeated(sw.Model):
    """A system with every sensor twice: S is singular but for R."""

    once: sw.Model

    def transition(self, x, u, dt):
        return self.once.transition(x, u, dt)

    def observe(self, x, u):
        return jnp.concatenate([self.once.observe(x, u)] * 2)


class Case(NamedTuple):
    """A filter, and a record of its system without trouble."""

    filt: Any
    given: Record


def cases() -> dict[str, Any]:
    """Functions that give each filter's case, by the filter's name."""
    own = SYSTEMS[SYSTEM]
    good = record(SYSTEM, 0, TRUTH)
    made = {
        name: lambda make=make: Case(make(), good)
        for name, make in filters(SYSTEM).items()
        if name != "sage-husa 0.95"
    }
    model, r = Repeated(own.model), tuple(1e-9 * v for v in own.r) * 2
    sensors = Record(
        good.x0, good.P0, good.truth, np.tile(good.z, 2), None, good.dt, np.tile(good.sigma, 2)
    )
    for name, build in (("ekf", sw.EKF), ("sage-husa 0.99", sw.SageHusa), ("vbakf", sw.VBAKF)):
        made[f"{name}, repeated sensors"] = lambda build=build: Case(
            build(model, own.q, r), sensors
        )
    return made


def fuzzed(given: Record, steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """z and dt of so many steps, in double precision."""
    rng = np.random.default_rng(seed)
    rows = np.arange(steps) % len(given.z)
    z, dt = given.z.astype(float)[rows], np.full(steps, given.dt)
    first = 0
    while first < steps:
        trouble = TROUBLES[rng.integers(len(TROUBLES))]
        size = PHASE * (GAP if trouble == "gap" else 1)
        here = slice(first, first + size)
        _disturb(rng, trouble, z[here], dt[here], given.sigma)
        first += size
    return z, dt


def _disturb(rng: Any, trouble: str, z: np.ndarray, dt: np.ndarray, sigma: np.ndarray) -> None:
    """Disturb the steps of one phase in place."""
    some = rng.random(z.shape) < OFTEN
    size = sigma * 10.0 ** rng.integers(0, LARGEST_POWER + 1, (len(z), 1))
    signs = rng.choice([-1.0, 1.0], z.shape)
    if trouble in ("spikes", "all"):
        some[rng.random(len(z)) < OFTEN] = True  # of all channels
        z[some] += (signs * size)[some]
    if trouble == "offset":
        z += (signs * size)[0] * (rng.random(z.shape[1]) < 0.5)
    if trouble in ("missing", "all"):
        z[rng.random(z.shape) < 0.3] = np.nan
    if trouble in ("infinite", "all"):
        z[some] = (signs * np.inf)[some]
    if trouble in ("clock", "all"):
        late = rng.random(len(z)) < OFTEN
        dt[late] = rng.choice(CLOCK, late.sum())
    if trouble == "stuck":
        z[:] = z[:1]
    if trouble == "gap":
        z[:] = np.nan
