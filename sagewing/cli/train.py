"""`sagewing train`: fit a policy."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from sagewing.bench.result import BenchResult, commit, versions
from sagewing.cli import console
from sagewing.policy import Architecture
from sagewing.policy.features import FeatureName
from sagewing.sim.chaos import Q_BASE, R_BASE
from sagewing.train import Progress, Schedule
from sagewing.train.chaos import ChaosTraining, settings, train_chaos


@dataclass(frozen=True)
class Train:
    """Train a learned filter; "chaos" is the paper's schedule on Lorenz episodes.

    Writes DIR/seed-N/ (for sw.Policy.load or sw.Network.load) for every seed, DIR/result.json
    with the losses, and a checkpoint twice a minute: a kill loses no more, and --resume goes on
    bit for bit.

    Example: sagewing train chaos --out out/chaos --seeds 3
    """

    domain: tyro.conf.Positional[Literal["chaos"]]
    """what to train on"""
    filter: Literal["ndr", "enn-akf", "l-ekf", "kalmannet"] = "ndr"
    """which filter; --depth, --features, --gain-noise, --bounds and --aux-weight are ndr's"""
    out: Path = Path("out/train-chaos")
    """folder for the policies and the checkpoint"""
    resume: bool = False
    """go on with the training that is in the folder"""
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
    clip_norm: float = 0.5
    """largest norm of a gradient"""
    aux_weight: float = 0.1
    """weight of the reconstruction loss"""
    depth: int = 3
    """recurrent layers"""
    features: FeatureName = "whitened"
    """what the network is fed"""
    protocol: Literal["aligned", "paper"] = "aligned"
    """how the benchmark is read"""
    gain_noise: Literal["prior", "posterior"] = "prior"
    """which r a step's gain uses: the one before it, or its own"""
    bounds: tuple[float, float] = (0.1, 100.0)
    """range of q and r, as factors of their base"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds", "epochs", "batch", "steps")
        setup = ChaosTraining(
            filter=self.filter,
            protocol=self.protocol,
            architecture=Architecture(
                n_x=len(Q_BASE), n_z=len(R_BASE), features=self.features, depth=self.depth
            ),
            schedule=Schedule(self.epochs, self.learning_rate, self.clip_norm),
            steps=self.steps,
            batch=self.batch,
            aux_weight=self.aux_weight,
            bounds=self.bounds,
            gain_noise=self.gain_noise,
        )
        seeds = list(range(self.seed, self.seed + self.seeds))
        fit(setup, seeds, "train chaos", self.out, self.json, resume=self.resume)


def fit(
    setup: ChaosTraining,
    seeds: list[int],
    command: str,
    out: Path,
    json: Path | None,
    *,
    resume: bool,
) -> list[Any]:
    """Train with a progress bar, write what came out, and return it."""
    with console.progress() as bar:
        task = bar.add_task("epochs", total=setup.schedule.epochs, note="compiling")

        def report(p: Progress) -> None:
            skipped = f", {p.skipped} updates skipped" if p.skipped else ""
            bar.update(task, completed=p.epoch, note=f"loss {p.loss:.4f}{skipped}")

        try:
            trained = train_chaos(setup, seeds, folder=out, resume=resume, report=report)
        except KeyboardInterrupt:
            bar.stop()
            console.err.print("Interrupted: the same command with --resume goes on.")
            sys.exit(1)
    plain, rows = settings(setup, seeds), []
    losses = np.asarray(trained.losses)
    for seed, learned, loss, skipped in zip(
        seeds, trained.models, losses, trained.skipped, strict=True
    ):
        row = {"seed": seed, "loss": float(loss[-20:].mean()), "skipped": int(skipped)}
        made = {"training": plain, **row, "commit": commit(), "versions": versions()}
        learned.save(out / f"seed-{seed}", made, overwrite=True)
        rows.append({**row, "losses": [float(v) for v in loss]})
        console.out.print(
            f"seed {seed}: loss {row['loss']:.4f} over the last 20 epochs, "
            f"{row['skipped']} updates skipped, {out / f'seed-{seed}'}",
            soft_wrap=True,
        )
    result = BenchResult(command, plain, seeds[0], rows)
    for path in filter(None, (out / "result.json", json)):
        result.write(path)
    return trained.models
