"""The problem that a filter is built for, and a simulated record of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sagewing.models import Model

MISSING = 0.1  # share of a record's measurements that do not arrive
MODE_STEPS = 20  # steps in each mode, where the model has several
INPUT_STD = 0.1

Inputs = Float[np.ndarray, "T n_u"]


def _unchanged(u: Inputs) -> Inputs:
    return u


class Problem(NamedTuple):
    """A model, the nominal noise of its filters, and the start of a record.

    `inputs` turns normal draws of standard deviation `INPUT_STD` into inputs that suit the model.
    """

    model: Model
    q: Any
    r: Any
    x0: Float[np.ndarray, "n_x"]
    P0: Float[np.ndarray, "n_dx n_dx"]
    n_u: int
    dt: float
    inputs: Callable[[Inputs], Inputs] = _unchanged


def draw_record(
    problem: Problem, steps: int, seed: int
) -> tuple[Float[np.ndarray, "T n_z"], Inputs]:
    """Noisy measurements of a simulated motion, some of them missing, and its inputs."""
    rng = np.random.default_rng(seed)
    modes, r = problem.model.modes, np.atleast_2d(np.asarray(problem.r, float))
    u = rng.normal(scale=INPUT_STD, size=(steps, problem.n_u))
    mode = (np.arange(steps) // MODE_STEPS) % modes
    if modes > 1:
        u[:, 0] = mode
    u = problem.inputs(u)
    z = np.empty((steps, r.shape[1]))
    x = jnp.append(jnp.asarray(problem.x0), jnp.zeros(len(problem.model.own_variances)))

    @jax.jit
    def step(x: jax.Array, u: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        x = problem.model.normalize(problem.model.transition(x, u, problem.dt))
        return x, problem.model.observe(x, u)

    for k in range(steps):
        x, exact = step(x, jnp.asarray(u[k]) if problem.n_u else None)
        z[k] = np.asarray(exact) + np.sqrt(r[mode[k]]) * rng.normal(size=z.shape[1])
    z[rng.random(z.shape) < MISSING] = np.nan
    return z, u
