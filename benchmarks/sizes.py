"""An EKF from 1 to 200 states against dynamax's: microseconds of a step, and first calls.

The model is A tanh(x), C x with dense random A and C; F and H are derived by JAX. The table of
`sagewing/filters/sizes.py` is chosen by these figures. `--busy` takes the processor's time instead
of the clock's, for a machine that does other things.
Usage: python benchmarks/sizes.py [--states 3,20] [--batches 1,100] [--busy]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dynamax_ekf import dynamax_ekf_of

import sagewing as sw

CHANNELS = {1: 1, 3: 2, 10: 4, 20: 6, 30: 10, 50: 16, 60: 20, 100: 30, 200: 60}
BATCHES = (1, 100, 10_000)
ENTRIES = 5e7  # of all P of a run: what memory allows
WORK = 2e9  # multiplications of a run
LARGEST_IN_C = 20  # states: larger filters take a compiler minutes
ROUNDS = 5


class Dense(sw.Model):
    """Saturated states that drive one another."""

    A: jax.Array
    C: jax.Array

    def transition(self, x, u, dt):
        return self.A @ jnp.tanh(x)

    def observe(self, x, u):
        return self.C @ x


def contenders(n_x: int, n_z: int, batch: int, steps: int) -> dict[str, Callable[[], Any]]:
    """The same records through each of them."""
    rng = np.random.default_rng(n_x)
    A, C = (rng.normal(size=(n, n_x)) / np.sqrt(n_x) for n in (n_x, n_z))
    model = Dense(jnp.asarray(0.9 * A, jnp.float32), jnp.asarray(C, jnp.float32))
    z = rng.normal(size=(batch, steps, n_z)).astype(np.float32)
    z = jnp.asarray(z[0] if batch == 1 else z)
    Q, R = jnp.full(n_x, 0.1), jnp.ones(n_z)
    filt, x0, P0 = sw.EKF(model, Q, R), jnp.zeros(n_x), jnp.eye(n_x)
    peer = dynamax_ekf_of(model, Q, R)
    if batch > 1:
        peer = jax.vmap(peer, (None, None, 0))
    peer = jax.jit(peer)
    made = {
        "dynamax": lambda: peer(x0, P0, z),
        "JAX": lambda: sw.run(filt, x0, P0, z)[:-3],
    }
    if n_x <= LARGEST_IN_C:
        made["C"] = lambda: sw.run(filt, x0, P0, z, backend="c")[:-3]
    return made


def seconds_of(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    jax.block_until_ready(call())
    return clock() - began


def measure(n_x: int, batch: int, clock: Callable[[], float]) -> None:
    """Print one row: steps, and for each contender a step and the first call."""
    n_z = CHANNELS[n_x]
    steps = int(min(500, WORK / (batch * (n_x + 10) ** 3), ENTRIES / (batch * n_x**2)))
    row = f"{n_x:5d} {n_z:4d} {batch:7d} "
    if steps < 2:
        print(row + "  does not fit in memory")
        return
    calls = contenders(n_x, n_z, batch, steps)
    first = {name: seconds_of(call, clock) for name, call in calls.items()}
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], seconds_of(call, clock))
    row += f"{steps:6d}"
    for name in ("dynamax", "JAX", "C"):
        if name not in calls:
            row += f" {'-':>10s} {'-':>6s} {'-':>7s}"
            continue
        ratio = best["dynamax"] / best[name]
        row += f" {1e6 * best[name] / (batch * steps):10.3f} {ratio:6.2f} {first[name]:7.2f}"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", default=",".join(map(str, CHANNELS)))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--busy", action="store_true")
    given = parser.parse_args()
    clock = time.process_time if given.busy else time.perf_counter
    jax.block_until_ready(jax.jit(jnp.sin)(1.0))
    print("for dynamax, sagewing in JAX and in C: us a step, speed to dynamax's, first call in s")
    print("  n_x  n_z   batch  steps" + "         us  ratio   first" * 3)
    for n_x in map(int, given.states.split(",")):
        for batch in map(int, given.batches.split(",")):
            measure(n_x, batch, clock)


if __name__ == "__main__":
    main()
