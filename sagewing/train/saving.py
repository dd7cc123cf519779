"""The result of a training on disk: a folder for each seed, with its provenance."""

from pathlib import Path
from typing import Any

import numpy as np

from sagewing.policy import Noise
from sagewing.results import commit, versions
from sagewing.train.loop import Trained

LAST = 20  # epochs over which the reported loss is the mean


def seed_folder(out: Path, seed: int) -> Path:
    """The folder of one seed's model."""
    return out / f"seed-{seed}"


def save_trained(trained: Trained, settings: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """Write every seed's model with its provenance; returns a row of the result for each."""
    rows = []
    losses = np.asarray(trained.losses)
    for seed, learned, loss, skipped in zip(
        settings["seeds"], trained.models, losses, trained.skipped, strict=True
    ):
        row = {"seed": seed, "loss": float(loss[-LAST:].mean()), "skipped": int(skipped)}
        provenance = {"training": settings, **row, "commit": commit(), "versions": versions()}
        learned.save(seed_folder(out, seed), provenance, overwrite=True)
        rows.append({**row, "losses": [float(v) for v in loss]})
    return rows


def save_noise(
    noise: Noise, folder: Path, training: dict[str, Any], seed: int, loss: float | None = None
) -> None:
    """Write tuned noise with its provenance."""
    provenance = {"training": training, "seed": seed}
    provenance |= {} if loss is None else {"loss": loss}
    noise.save(folder, {**provenance, "commit": commit(), "versions": versions()}, overwrite=True)
