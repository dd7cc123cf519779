"""`sagewing train universal`: one policy for every filter, on a random family of systems."""

from dataclasses import dataclass
from pathlib import Path

from sagewing.cli import console
from sagewing.cli.fitting import fit
from sagewing.cli.output import ResumableOutput
from sagewing.errors import InputError
from sagewing.policy import Universal
from sagewing.policy.storage import folder_of
from sagewing.train.universal import (
    UniversalTraining,
    held_out,
    schedule,
    settings,
    train_universal,
)


@dataclass(frozen=True)
class TrainUniversal:
    """Train the universal policy on a random family of systems and noises.

    Writes DIR/seed-N/ (for sw.Policy.load) for every seed, DIR/result.json with the losses, and a
    checkpoint twice a minute, from which --resume continues with bit-identical results.
    Prints every seed's error over the oracle's, on held-out episodes of the family.

    Example: sagewing train universal --out out/universal --seeds 3
    """

    output: ResumableOutput = ResumableOutput(Path("out/train-universal"))
    seed: int = 0
    """the first seed"""
    seeds: int = 1
    """train this many seeds in one program"""
    epochs: int = 7500
    """updates, one batch each"""
    batch: int = 64
    """systems in a batch"""
    steps: int = 80
    """measurements with derivatives"""
    longest: int = 1500
    """most measurements before them, without derivatives"""
    learning_rate: float = 5e-3
    """of Adam, at first"""
    loss_to_ekf: float = 1.0
    """weight of the loss against the nominal EKF"""
    noise_weight: float = 0.4
    """weight of the distance of q and r from the true ones, in logarithms"""
    wrong_models: float = 0.35
    """share of the episodes with wrong noise in which the model is wrong, too"""
    alarm_threshold: float = 10.5
    """CUSUM of the log likelihood ratio, against the nominal noise, above which it adapts"""
    probe_sigmas: float = 2.5
    """standard deviations from the mean at which the curvature of f is probed; 0: not at all"""
    begin: str = ""
    """policies to start from, one for each seed: shipped names or folders, separated by commas"""
    held_out: int = 1000
    """episodes to score every seed on, after the training"""

    def __call__(self) -> None:
        """Run it."""
        counts = ("seeds", "epochs", "batch", "steps", "longest", "held_out")
        console.at_least_one(self, *counts)
        if not 0.0 <= self.wrong_models <= 1.0:
            raise InputError(f"--wrong-models is a share, 0..1; got {self.wrong_models}.")
        self.output.check()
        setup = UniversalTraining(
            schedule=schedule(self.epochs, self.learning_rate),
            steps=self.steps,
            longest=self.longest,
            batch=self.batch,
            loss_to_ekf=self.loss_to_ekf,
            noise_weight=self.noise_weight,
            wrong_models=self.wrong_models,
            alarm_threshold=self.alarm_threshold,
            probe_sigmas=self.probe_sigmas,
        )
        seeds = list(range(self.seed, self.seed + self.seeds))
        names = [name.strip() for name in self.begin.split(",") if name]
        begin = [Universal.load(folder_of(name)) for name in names]
        out = self.output.out
        policies = fit(
            "train universal",
            lambda report: train_universal(
                setup, seeds, begin=begin, folder=out, resume=self.output.resume, report=report
            ),
            settings(setup, seeds, begin),
            out,
            self.output.json,
        )
        for seed, policy in zip(seeds, policies, strict=True):
            scores = held_out(policy, runs=self.held_out)
            console.out.print(
                f"seed {seed}, held out: {scores.ratio:.3f} times the oracle's error, "
                f"{scores.right:.3f} where the nominal noise is right; {scores.late:.3f} and "
                f"{scores.late_right:.3f} late in a long record; nominal EKF {scores.ekf:.3f}, "
                f"{scores.ekf_late:.3f} late; over 10% behind it in "
                f"{100 * scores.lost_to_ekf:.1f}%; "
                f"with wrong models {scores.wrong:.3f} times the nominal EKF's",
                soft_wrap=True,
            )
