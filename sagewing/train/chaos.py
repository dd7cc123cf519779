"""Training every learned filter of the chaos benchmark, on Lorenz episodes only."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from sagewing import catalogue
from sagewing.catalogue import SHARED
from sagewing.filters.protocols import Dense, GainNoise
from sagewing.policy import Architecture, Network, Noise, Policy, Universal
from sagewing.policy.network import HIDDEN, Purpose
from sagewing.problems.chaos import (
    ALIGNED,
    DT,
    LORENZ,
    Q_BASE,
    R_BASE,
    Protocol,
    episodes,
    protocol_named,
)
from sagewing.runtime.training import TrainingBackend
from sagewing.shapes import Scalar
from sagewing.train.loop import Progress, Schedule, Trained, train
from sagewing.train.losses import state_loss
from sagewing.train.recipe import Recipe

# KalmanNet's loss leaves out larger squared errors; none on the attractor comes near this value.
KALMANNET_LARGEST = 1e4
# Bounds of the shared network's q and r, so wide that they hardly act.
WIDE = (1e-5, 1e4)


@dataclass(frozen=True)
class ChaosTraining:
    """The settings of a training on Lorenz; the defaults are the paper's, except the protocol.

    `architecture`, `aux_weight`, `bounds`, `gain_noise` and `dense` are the NDR-SHKF's;
    `ndr-shared` has the universal policy's networks; its `aux_weight` weighs the distance of q and
    r from the true ones.
    """

    filter: str = "ndr"
    protocol: str = ALIGNED.name
    architecture: Architecture = field(
        default_factory=lambda: Architecture(n_x=len(Q_BASE), n_z=len(R_BASE))
    )
    schedule: Schedule = field(default_factory=Schedule)
    steps: int = 60
    batch: int = 64
    aux_weight: float = 0.1
    bounds: tuple[float, float] = (0.1, 100.0)
    gain_noise: GainNoise = "prior"
    dense: Dense = False


def _network(purpose: Purpose) -> Callable[[ChaosTraining, PRNGKeyArray], Network]:
    def make(setup: ChaosTraining, key: PRNGKeyArray) -> Network:
        scales = _statistics(protocol_named(setup.protocol))
        return Network(purpose, len(Q_BASE), len(R_BASE), HIDDEN, *scales, key=key)

    return make


@cache
def _statistics(protocol: Protocol) -> tuple[tuple[float, ...], ...]:
    """Mean and standard deviation of the states, and that of their changes in a step."""
    with jax.ensure_compile_time_eval():
        truth = episodes(jax.random.key(0), LORENZ, protocol, 256, 600).truth
        states, changes = truth.reshape(-1, truth.shape[-1]), jnp.diff(truth, axis=1)
        changes = changes.reshape(-1, truth.shape[-1])
        statistics = (states.mean(axis=0), states.std(axis=0), changes.std(axis=0))
        return tuple(tuple(a.tolist()) for a in statistics)


RECIPES = {
    "ndr": Recipe(
        lambda setup, key: Policy(
            setup.architecture, setup.bounds, setup.gain_noise, dense=setup.dense, key=key
        )
    ),
    SHARED: Recipe(lambda setup, key: Universal(bounds=WIDE, key=key), compares_noise=True),
    "enn-akf": Recipe(_network("enn-akf")),
    "l-ekf": Recipe(_network("l-ekf")),
    "kalmannet": Recipe(_network("kalmannet"), largest=KALMANNET_LARGEST),
    "ekf-tuned": Recipe(lambda setup, key: Noise(Q_BASE, R_BASE)),
}


def train_chaos(
    setup: ChaosTraining,
    seeds: list[int],
    *,
    folder: Path | None = None,
    resume: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    width: int | None = None,
    backend: TrainingBackend = "jax",
) -> Trained:
    """Train one filter for each seed; see `train` for `folder`, `resume` and `width`.

    With backend "auto" the filter runs in C where it has one and a compiler is installed.
    """
    protocol = protocol_named(setup.protocol)
    model = LORENZ.model(protocol, adaptive=catalogue.entry(setup.filter).adapts)
    recipe = RECIPES[setup.filter]

    def loss(learned: Any, key: PRNGKeyArray) -> Scalar:
        filt = catalogue.build(setup.filter, model, Q_BASE, R_BASE, learned)
        drawn = episodes(key, LORENZ, protocol, setup.batch, setup.steps)
        return state_loss(
            filt,
            drawn.x0,
            drawn.P0,
            drawn.z,
            drawn.truth,
            DT,
            aux_weight=setup.aux_weight,
            largest=recipe.largest,
            noise=(drawn.q, drawn.r) if recipe.compares_noise else None,
            backend=backend,
        )

    return train(
        lambda key: recipe.begin(setup, key),
        loss,
        setup.schedule,
        seeds,
        folder=folder,
        settings=settings(setup, seeds),
        resume=resume,
        report=report,
        width=width,
    )


def settings(setup: ChaosTraining, seeds: list[int]) -> dict[str, Any]:
    """The settings for files: plain JSON, and only those that this filter depends on."""
    plain = {
        "domain": LORENZ.name,
        "seeds": seeds,
        "filter": setup.filter,
        "protocol": setup.protocol,
        "schedule": asdict(setup.schedule),
        "steps": setup.steps,
        "batch": setup.batch,
    }
    if setup.filter == "ndr":
        plain["policy"] = {
            **setup.architecture.card(),
            "aux_weight": setup.aux_weight,
            "bounds": list(setup.bounds),
            "gain_noise": setup.gain_noise,
        }
        if setup.dense:
            plain["policy"]["dense"] = setup.dense
    if setup.filter == SHARED:
        plain["policy"] = {"aux_weight": setup.aux_weight, "bounds": list(WIDE)}
    return plain
