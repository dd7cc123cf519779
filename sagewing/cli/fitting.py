"""Shared by `sagewing train` and `sagewing tune`: progress bars, data, results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sagewing.cli import console
from sagewing.errors import InputError
from sagewing.policy import Noise
from sagewing.problems.flight.dataset import Dataset, load
from sagewing.problems.flight.own_logs import are_logs, own_flights
from sagewing.results import BenchResult, write_result
from sagewing.train import Progress
from sagewing.train.flight import FlightTraining
from sagewing.train.loop import Trained
from sagewing.train.saving import save_trained, seed_folder
from sagewing.train.tuning import ROUNDS, STRIDES, Tuned, tune_flight


@contextmanager
def resumable(bar: console.Bar) -> Iterator[None]:
    """On Ctrl-C say that --resume continues, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        bar.stop()
        console.interrupted("Interrupted: the same command with --resume continues.")


def fit(
    command: str,
    train: Callable[[Callable[[Progress], None]], Trained],
    settings: dict[str, Any],
    out: Path,
    json: Path | None,
) -> list[Any]:
    """Train with a progress bar, write the results, and return the trained models."""
    with console.progress() as bar:
        task = bar.add_task("epochs", total=settings["schedule"]["epochs"], note="compiling")

        def report(p: Progress) -> None:
            skipped = f", {p.skipped} updates skipped" if p.skipped else ""
            note = f"loss {p.loss:.4f}{skipped}"
            bar.update(task, completed=p.epoch, note=note)

        with resumable(bar):
            trained = train(report)
    rows = save_trained(trained, settings, out)
    for row in rows:
        console.out.print(
            f"seed {row['seed']}: loss {row['loss']:.4f} over the last 20 epochs, "
            f"{row['skipped']} updates skipped, {seed_folder(out, row['seed'])}",
            soft_wrap=True,
        )
    result = BenchResult(command, settings, settings["seeds"][0], rows)
    write_result(result, out, json)
    return trained.models


def tune(setup: FlightTraining, data: Dataset, seed: int, note: str) -> Tuned:
    """Tune an EKF's noise with a progress bar."""
    with console.progress() as bar:
        rounds = ROUNDS * len(STRIDES)
        task = bar.add_task(note, total=rounds, note="compiling")

        def report(loss: float) -> None:
            bar.update(task, advance=1, note=f"loss {loss:.5f}")

        tuned = tune_flight(setup, data.train, seed, report)
        bar.update(task, completed=rounds)
    return tuned


def dataset(data: Sequence[str]) -> Dataset:
    """The flights that --data names; prints the notes about them."""
    with console.err.status("preparing the flights"):
        loaded = own_flights(data) if are_logs(data) else load(data[0], parts=("train",))
    console.notes(loaded.notes)
    return loaded


def share(option: str, value: float) -> float:
    """An option's value; refuses one that is not in 0..1."""
    if not 0.0 <= value <= 1.0:
        raise InputError(f"--{option} must lie in 0..1; got {value:g}.")
    return value


def show(noise: Noise) -> None:
    """Print the tuned variances."""
    for name, values in (("Q", noise.q), ("R", noise.r)):
        for row in np.atleast_2d(np.asarray(values)):
            console.out.print(f"{name}: {', '.join(f'{v:.4g}' for v in row.tolist())}")
