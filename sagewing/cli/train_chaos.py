"""`sagewing train chaos`: fit a learned filter to Lorenz episodes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sagewing.cli import console
from sagewing.cli.fitting import fit
from sagewing.cli.output import ResumableOutput
from sagewing.policy import Architecture
from sagewing.policy.ndr.features import FeatureName
from sagewing.problems.chaos import Q_BASE, R_BASE
from sagewing.train import Schedule
from sagewing.train.chaos import ChaosTraining, settings, train_chaos

DECAY = (0.6, 0.8, 0.9)


@dataclass(frozen=True)
class TrainChaos:
    """Train a learned filter by the paper's schedule on Lorenz episodes.

    Writes DIR/seed-N/ (for sw.Policy.load or sw.Network.load) for every seed, DIR/result.json
    with the losses, and a checkpoint twice a minute, from which --resume continues with
    bit-identical results.

    Example: sagewing train chaos --out out/chaos --seeds 3
    """

    filter: Literal["ndr", "ndr-shared", "enn-akf", "l-ekf", "kalmannet"] = "ndr"
    """which filter; --depth, --features, --gain-noise, --bounds and --aux-weight are ndr's"""
    output: ResumableOutput = ResumableOutput(Path("out/train-chaos"))
    seed: int = 0
    """the first seed"""
    seeds: int = 1
    """train this many seeds in one program"""
    epochs: int = 1000
    """updates, one batch each"""
    batch: int = 64
    """records in a batch"""
    steps: int = 60
    """measurements in a record"""
    learning_rate: float = 1e-3
    """of Adam"""
    decay: bool = False
    """multiply the learning rate by 1/3 at 60%, 80% and 90% of the epochs"""
    clip_norm: float = 0.5
    """largest norm of a gradient"""
    aux_weight: float = 0.1
    """weight of the reconstruction loss; for ndr-shared, of how far q and r are from the truth"""
    depth: int = 3
    """recurrent layers"""
    features: FeatureName = "whitened"
    """input representation of the network"""
    protocol: Literal["aligned", "paper"] = "aligned"
    """reading of the paper's benchmark (see docs/protocol.md)"""
    gain_noise: Literal["prior", "posterior"] = "prior"
    """which r a step's gain uses: the one of the step before, or of this step"""
    bounds: tuple[float, float] = (0.1, 100.0)
    """range of q and r, as factors of their base"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds", "epochs", "batch", "steps")
        self.output.check()
        setup = ChaosTraining(
            filter=self.filter,
            protocol=self.protocol,
            architecture=Architecture(
                n_x=len(Q_BASE), n_z=len(R_BASE), features=self.features, depth=self.depth
            ),
            schedule=Schedule(
                self.epochs,
                self.learning_rate,
                self.clip_norm,
                decay=tuple((round(share * self.epochs), 1 / 3) for share in DECAY)
                if self.decay
                else (),
            ),
            steps=self.steps,
            batch=self.batch,
            aux_weight=self.aux_weight,
            bounds=self.bounds,
            gain_noise=self.gain_noise,
        )
        seeds = list(range(self.seed, self.seed + self.seeds))
        out = self.output.out
        fit(
            "train chaos",
            lambda report: train_chaos(
                setup, seeds, folder=out, resume=self.output.resume, report=report
            ),
            settings(setup, seeds),
            out,
            self.output.json,
        )
