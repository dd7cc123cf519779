"""Training the NDR-SHKF on Lorenz episodes, as the paper does."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import PRNGKeyArray

from sagewing.filters import NDRSageHusa
from sagewing.filters.recursion import GainNoise
from sagewing.policy import Architecture, Policy
from sagewing.shapes import Scalar
from sagewing.sim.chaos import ALIGNED, DT, LORENZ, PROTOCOLS, Q_BASE, R_BASE, episodes
from sagewing.train.loop import Progress, Schedule, Trained, train
from sagewing.train.losses import state_loss


@dataclass(frozen=True)
class ChaosTraining:
    """The settings of a training on Lorenz; the defaults are the paper's, but for the protocol."""

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


def train_chaos(
    setup: ChaosTraining,
    seeds: list[int],
    *,
    folder: Path | None = None,
    resume: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Trained:
    """Train one policy for each seed; see `train` for `folder` and `resume`."""
    protocol = PROTOCOLS[setup.protocol]
    model = LORENZ.model(protocol)

    def make(key: PRNGKeyArray) -> Policy:
        return Policy(setup.architecture, setup.bounds, setup.gain_noise, key=key)

    def loss(policy: Policy, key: PRNGKeyArray) -> Scalar:
        filt = NDRSageHusa(model, Q_BASE, R_BASE, policy)
        drawn = episodes(key, LORENZ, protocol, setup.batch, setup.steps)
        return state_loss(filt, drawn.x0, drawn.P0, drawn.z, drawn.truth, DT, setup.aux_weight)

    return train(
        make,
        loss,
        setup.schedule,
        seeds,
        folder=folder,
        settings=settings(setup, seeds),
        resume=resume,
        report=report,
    )


def settings(setup: ChaosTraining, seeds: list[int]) -> dict[str, Any]:
    """The settings as they go into files: plain JSON."""
    plain = asdict(setup)
    plain["architecture"] = {
        k: list(v) if isinstance(v, tuple) else v for k, v in plain["architecture"].items()
    }
    plain["bounds"] = list(setup.bounds)
    return {"domain": "lorenz", "seeds": seeds, **plain}
