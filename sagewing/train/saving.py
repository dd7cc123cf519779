"""What a training leaves on disk: a folder a seed, which says where it comes from."""

from pathlib import Path
from typing import Any

import numpy as np

from sagewing.policy import Noise
from sagewing.results import commit, versions
from sagewing.train.loop import Trained

LAST = 20  # epochs over which the loss of a training is reported


def seed_folder(out: Path, seed: int) -> Path:
    """Where what one seed has learned is written."""
    return out / f"seed-{seed}"


def save_trained(trained: Trained, settings: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """Write every seed's model with its provenance; a row of the result for each."""
    rows = []
    losses = np.asarray(trained.losses)
    for seed, learned, loss, skipped in zip(
        settings["seeds"], trained.models, losses, trained.skipped, strict=True
    ):
        row = {"seed": seed, "loss": float(loss[-LAST:].mean()), "skipped": int(skipped)}
        made = {"training": settings, **row, "commit": commit(), "versions": versions()}
        learned.save(seed_folder(out, seed), made, overwrite=True)
        rows.append({**row, "losses": [float(v) for v in loss]})
    return rows


def save_noise(
    noise: Noise, folder: Path, training: dict[str, Any], seed: int, loss: float | None = None
) -> None:
    """Write tuned noise with its provenance."""
    made = {"training": training, "seed": seed}
    made |= {} if loss is None else {"loss": loss}
    noise.save(folder, {**made, "commit": commit(), "versions": versions()}, overwrite=True)
