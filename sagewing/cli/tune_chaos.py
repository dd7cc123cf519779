"""`sagewing tune chaos`: fit constant Q and R to Lorenz episodes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sagewing.cli import console
from sagewing.cli.fitting import fit, show
from sagewing.cli.output import ResumableOutput
from sagewing.train import Schedule
from sagewing.train.chaos import ChaosTraining, settings, train_chaos


@dataclass(frozen=True)
class TuneChaos:
    """Fit the variances of a constant Q and R by gradient descent: a careful engineer's EKF.

    Minimises the state error on the Lorenz episodes that the learned filters train on.
    Writes DIR/seed-N/ for sw.Noise.load, and DIR/result.json.

    Example: sagewing tune chaos --out out/tune
    """

    output: ResumableOutput = ResumableOutput(Path("out/tune-chaos"))
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
    """reading of the paper's benchmark (see docs/protocol.md)"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "epochs", "batch", "steps")
        self.output.check()
        setup = ChaosTraining(
            filter="ekf-tuned",
            protocol=self.protocol,
            schedule=Schedule(self.epochs, self.learning_rate),
            steps=self.steps,
            batch=self.batch,
        )
        seeds = [self.seed]
        out = self.output.out
        noise = fit(
            "tune chaos",
            lambda report: train_chaos(
                setup, seeds, folder=out, resume=self.output.resume, report=report
            ),
            settings(setup, seeds),
            out,
            self.output.json,
        )[0]
        show(noise)
