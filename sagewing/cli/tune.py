"""`sagewing tune`: fit constant Q and R to data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from sagewing.cli import console
from sagewing.cli.train import fit
from sagewing.train import Schedule
from sagewing.train.chaos import ChaosTraining


@dataclass(frozen=True)
class Tune:
    """Fit the variances of a constant Q and R by gradient descent: a careful engineer's EKF.

    "chaos" minimises the state error on the Lorenz episodes that the learned filters train on.
    Writes DIR/seed-N/ for sw.Noise.load, and DIR/result.json.

    Example: sagewing tune chaos --out out/tune
    """

    domain: tyro.conf.Positional[Literal["chaos"]]
    """what to fit to"""
    out: Path = Path("out/tune-chaos")
    """folder for the variances"""
    resume: bool = False
    """go on with the fit that is in the folder"""
    seed: int = 0
    """draws the episodes"""
    epochs: int = 600
    """updates, one batch each"""
    batch: int = 64
    """records in a batch"""
    steps: int = 200
    """measurements in a record"""
    learning_rate: float = 2e-2
    """of Adam, on the logarithms of the variances"""
    protocol: Literal["aligned", "paper"] = "aligned"
    """how the benchmark is read"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "epochs", "batch", "steps")
        setup = ChaosTraining(
            filter="ekf-tuned",
            protocol=self.protocol,
            schedule=Schedule(self.epochs, self.learning_rate),
            steps=self.steps,
            batch=self.batch,
        )
        noise = fit(setup, [self.seed], "tune chaos", self.out, self.json, resume=self.resume)[0]
        for name, values in (("Q", noise.q), ("R", noise.r)):
            console.out.print(f"{name}: {', '.join(f'{v:.4g}' for v in values.tolist())}")
