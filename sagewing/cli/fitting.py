"""What `sagewing train` and `sagewing tune` share: a training with a progress bar and a result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.cli import console
from sagewing.policy import Noise
from sagewing.results import BenchResult, commit, versions, write_result
from sagewing.train import Progress
from sagewing.train.loop import Trained


@contextmanager
def resumable(bar: console.Bar) -> Iterator[None]:
    """Ctrl-C in here loses nothing that --resume does not bring back."""
    try:
        yield
    except KeyboardInterrupt:
        bar.stop()
        console.interrupted("Interrupted: the same command with --resume goes on.")


def fit(
    command: str,
    train: Callable[[Callable[[Progress], None]], Trained],
    settings: dict[str, Any],
    out: Path,
    json: Path | None,
) -> list[Any]:
    """Train with a progress bar, write what came out, and return it."""
    seeds, epochs = settings["seeds"], settings["schedule"]["epochs"]
    with console.progress() as bar:
        task = bar.add_task("epochs", total=epochs, note="compiling")

        def report(p: Progress) -> None:
            skipped = f", {p.skipped} updates skipped" if p.skipped else ""
            note = f"loss {p.loss:.4f}{skipped}"
            bar.update(task, completed=p.epoch, note=note)

        with resumable(bar):
            trained = train(report)
    rows = []
    losses = np.asarray(trained.losses)
    for seed, learned, loss, skipped in zip(
        seeds, trained.models, losses, trained.skipped, strict=True
    ):
        row = {"seed": seed, "loss": float(loss[-20:].mean()), "skipped": int(skipped)}
        made = {"training": settings, **row, "commit": commit(), "versions": versions()}
        learned.save(out / f"seed-{seed}", made, overwrite=True)
        rows.append({**row, "losses": [float(v) for v in loss]})
        console.out.print(
            f"seed {seed}: loss {row['loss']:.4f} over the last 20 epochs, "
            f"{row['skipped']} updates skipped, {out / f'seed-{seed}'}",
            soft_wrap=True,
        )
    result = BenchResult(command, settings, seeds[0], rows)
    write_result(result, out, json)
    return trained.models


def show(noise: Noise) -> None:
    """The variances that were found."""
    for name, values in (("Q", noise.q), ("R", noise.r)):
        for row in np.atleast_2d(np.asarray(values)):
            console.out.print(f"{name}: {', '.join(f'{v:.4g}' for v in row.tolist())}")
