"""Systems outside the training family, and their true noise, to test the universal policy on.

The policy's constants were chosen on other data; results on these systems have influenced its
design. The family has radars, and flows as smooth as Rössler's, but none of these systems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from sagewing.models import Model, Rossler
from sagewing.problems.unseen.processes import (
    Arm,
    Grid,
    Lorenz96,
    Masses,
    Motor,
    Neuron,
    Reactor,
    Rod,
    Tanks,
)
from sagewing.problems.unseen.vehicles import (
    Car,
    Convoy,
    CoordinatedTurn,
    Glider,
    Orbit,
    Ship,
)
from sagewing.shapes import real_dtype


@dataclass(frozen=True)
class Unseen:
    """A system, its nominal noise, and the start of its episodes.

    The true start is a normal draw (`middle`, `spread`) and then `settle` steps without noise; the
    filters start at a draw around it with covariance diag(P0).
    """

    model: Model
    q0: tuple[float, ...]
    r0: tuple[float, ...]
    P0: tuple[float, ...]
    dt: float
    middle: tuple[float, ...]
    spread: tuple[float, ...]
    settle: int = 0


UNSEEN: dict[str, Unseen] = {
    "turn": Unseen(
        CoordinatedTurn(),
        q0=(0.25, 0.25, 0.25, 0.25, 1e-6),
        r0=(100.0, 1e-4),
        P0=(400.0, 25.0, 400.0, 25.0, 1e-4),
        dt=0.5,
        middle=(2000.0, -30.0, 3000.0, 40.0, 0.0),
        spread=(1000.0, 30.0, 1000.0, 30.0, 0.05),
    ),
    "masses": Unseen(
        Masses(),
        q0=(1e-4,) * 4 + (4e-3,) * 4,
        r0=(0.05, 0.05, 0.2, 0.2),
        P0=(0.1,) * 8,
        dt=0.05,
        middle=(0.0,) * 8,
        spread=(1.0,) * 4 + (2.0,) * 4,
    ),
    "lorenz96": Unseen(
        Lorenz96(),
        q0=(0.01,) * 8,
        r0=(1.0,) * 4,
        P0=(1.0,) * 8,
        dt=0.02,
        middle=(3.0,) * 8,
        spread=(3.0,) * 8,
        settle=300,
    ),
    "rossler": Unseen(
        Rossler(),
        q0=(1e-4,) * 3,
        r0=(1.0, 0.04),
        P0=(0.1,) * 3,
        dt=0.03,
        middle=(0.0, 0.0, 1.0),
        spread=(3.0, 3.0, 0.1),
        settle=300,
    ),
    # Written during the first training.
    "tanks": Unseen(
        Tanks(),
        q0=(4e-3,) * 4,
        r0=(0.25, 0.25),
        P0=(1.0,) * 4,
        dt=2.0,
        middle=(12.4, 12.7, 1.8, 1.4),
        spread=(2.0, 2.0, 0.3, 0.3),
    ),
    "orbit": Unseen(
        Orbit(),
        q0=(1e-9,) * 3 + (1e-8,) * 3,
        r0=(1e-6,) * 3,
        P0=(1e-5,) * 6,
        dt=0.05,
        middle=(1.6, 0.0, 0.0, 0.0, 0.6, 0.5),
        spread=(0.05,) * 3 + (0.03,) * 3,
    ),
    # Written during an earlier training.
    "vehicle": Unseen(
        Car(),
        q0=(1e-3, 1e-3, 1e-5, 1e-2, 1e-4),
        r0=(1.0, 1.0, 0.04),
        P0=(1.0, 1.0, 0.01, 0.25, 1e-3),
        dt=0.1,
        middle=(0.0, 0.0, 0.0, 10.0, 0.0),
        spread=(5.0, 5.0, 1.0, 2.0, 0.03),
    ),
    "neuron": Unseen(
        Neuron(),
        q0=(4e-4, 4e-4, 1e-6),
        r0=(0.04,),
        P0=(0.04, 0.04, 0.01),
        dt=0.05,
        middle=(-1.0, -4.0, 3.0),
        spread=(0.3, 1.0, 0.1),
        settle=400,
    ),
    # Written during a later training.
    "rod": Unseen(
        Rod(),
        q0=(1e-4,) * 12,
        r0=(0.01,) * 4,
        P0=(0.04,) * 12,
        dt=0.2,
        middle=(4.0,) * 12,
        spread=(0.5,) * 12,
        settle=200,
    ),
    "arm": Unseen(
        Arm(),
        q0=(1e-6, 1e-6, 4e-4, 4e-4),
        r0=(2.5e-3, 2.5e-3),
        P0=(0.01, 0.01, 0.04, 0.04),
        dt=0.02,
        middle=(0.0, 0.0, 0.0, 0.0),
        spread=(0.8, 0.8, 0.5, 0.5),
    ),
    # Written after the training of an earlier policy.
    "motor": Unseen(
        Motor(),
        q0=(0.04, 0.04, 1e-5, 1e-5, 0.25),
        r0=(0.25, 0.25),
        P0=(1.0, 1.0, 1e-3, 1e-3, 25.0),
        dt=1e-3,
        middle=(0.0, 0.0, 0.6, 0.0, 290.0),
        spread=(3.0, 3.0, 0.05, 0.05, 10.0),
        settle=500,
    ),
    "grid": Unseen(
        Grid(),
        q0=(1e-6,) * 5 + (0.01,) * 5,
        r0=(1e-3,) * 4,
        P0=(0.01,) * 5 + (0.1,) * 5,
        dt=0.05,
        middle=(0.2, -0.1, 0.1, -0.1, -0.1) + (0.0,) * 5,
        spread=(0.3,) * 5 + (0.5,) * 5,
    ),
    # Written after the training of the shipped policy.
    "reactor": Unseen(
        Reactor(),
        q0=(1e-5, 1e-4, 1e-4),
        r0=(0.01, 0.01),
        P0=(1e-2, 0.04, 0.04),
        dt=0.05,
        middle=(0.3, 1.5, 0.6),
        spread=(0.1, 0.5, 0.2),
        settle=200,
    ),
    "ship": Unseen(
        Ship(),
        q0=(0.01, 0.01, 1e-6, 1e-6, 1e-3, 1e-4, 1e-4),
        r0=(25.0, 25.0, 1e-3),
        P0=(100.0, 100.0, 0.01, 1e-4, 0.25, 0.04, 0.04),
        dt=1.0,
        middle=(0.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0),
        spread=(300.0, 300.0, 2.0, 0.01, 0.5, 0.3, 0.3),
    ),
    # Written last, and run after all settings were final.
    "glider": Unseen(
        Glider(),
        q0=(0.01, 1e-5, 0.01, 0.02),
        r0=(0.25, 1.0),
        P0=(1.0, 0.01, 4.0, 1.0),
        dt=0.2,
        middle=(20.0, -0.07, 500.0, 0.0),
        spread=(2.0, 0.1, 50.0, 0.5),
    ),
    "convoy": Unseen(
        Convoy(),
        q0=(0.04,) + (0.01,) * 4 + (0.01,) * 4,
        r0=(1.0,) * 4,
        P0=(1.0,) * 5 + (4.0,) * 4,
        dt=0.2,
        middle=(18.0,) * 5 + (26.0,) * 4,
        spread=(2.0,) * 5 + (3.0,) * 4,
        settle=100,
    ),
}


class NoiseCase(NamedTuple):
    """The true noise relative to the nominal: factors of the variances, outliers, a burst, gaps."""

    q: float | Array = 1.0
    r: float | Array = 1.0
    burst: float | Array = 1.0  # factor of R in the middle third
    outlier: float | Array = 0.0  # probability, channel by channel
    outlier_scale: float | Array = 100.0  # factor of R in an outlier
    missing: float | Array = 0.0  # probability, channel by channel


CASES = {
    "right": NoiseCase(),
    "r-20": NoiseCase(r=20.0),
    "bursts": NoiseCase(burst=30.0, outlier=0.05),
    "q-10": NoiseCase(q=10.0),
    "mixture": NoiseCase(q=0.1, r=4.0, outlier=0.05, outlier_scale=50.0, missing=0.25),
}


class UnseenEpisodes(NamedTuple):
    """Records to filter, time first and batch last; `q` and `r` are the true variances."""

    x0: Float[Array, "n_x B"]
    truth: Float[Array, "T n_x B"]
    z: Float[Array, "T n_z B"]
    arrived: Bool[Array, "T n_z B"]
    q: Float[Array, "T n_x B"]
    r: Float[Array, "T n_z B"]


def episodes(system: Unseen, case: Any, key: PRNGKeyArray, runs: int, steps: int) -> UnseenEpisodes:
    """Draw `runs` records of `steps` steps; record i depends on the key and on i alone."""
    records = jax.vmap(_episode(system, case, steps), out_axes=-1)(jax.random.split(key, runs))
    return UnseenEpisodes(*records)


def _episode(system: Unseen, case: Any, steps: int) -> Callable[[PRNGKeyArray], Any]:
    model = system.model
    q0, r0, P0, middle, spread = (
        jnp.asarray(np.asarray(a), real_dtype())
        for a in (system.q0, system.r0, system.P0, system.middle, system.spread)
    )

    def episode(key: PRNGKeyArray) -> Any:
        k_start, k_x0, k_noise = jax.random.split(key, 3)
        s0 = middle + spread * jax.random.normal(k_start, middle.shape)
        s0 = jax.lax.fori_loop(
            0, system.settle, lambda _, s: model.transition(s, None, system.dt), s0
        )
        x0 = s0 + jnp.sqrt(P0) * jax.random.normal(k_x0, s0.shape)

        def step(s: Array, k: Array) -> tuple[Array, Any]:
            k_w, k_v, k_out, k_miss = jax.random.split(jax.random.fold_in(k_noise, k), 4)
            q = q0 * case.q
            s = model.transition(s, None, system.dt)
            s = s + jnp.sqrt(q) * jax.random.normal(k_w, q.shape)
            burst = (k >= steps // 3) & (k < 2 * steps // 3)
            outlier = jax.random.uniform(k_out, r0.shape) < case.outlier
            r = r0 * case.r * jnp.where(burst, case.burst, 1.0)
            r = jnp.where(outlier, r * case.outlier_scale, r)
            z = model.observe(s, None) + jnp.sqrt(r) * jax.random.normal(k_v, r.shape)
            arrived = jax.random.uniform(k_miss, r0.shape) >= case.missing
            return s, (s, z, arrived, q, r)

        return x0, *jax.lax.scan(step, s0, jnp.arange(steps))[1]

    return episode
