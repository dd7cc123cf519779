"""Many seeds through the sweep's local engine, against as many separate training runs.

Both train and nothing else: no test, no store. A separate run is a process of its own that trains
one seed, one after another, as `sagewing train chaos --seed S` does; with and without programs that
an earlier run compiled. Then the time of an epoch for each seed and element, one seed alone against
all of them in one program.
Usage: python benchmarks/sweep_throughput.py [--seeds 20] [--epochs 1000] [--processes 2]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from sagewing.bench.ablation import WIDTH, Ablation, setup_of
from sagewing.bench.local_engine import LocalEngine
from sagewing.bench.store import Outcome
from sagewing.bench.sweep import GROUP, Study, grouped
from sagewing.train.chaos import ChaosTraining, train_chaos

CACHE = "JAX_COMPILATION_CACHE_DIR"


def train_alone(settings: list[dict[str, Any]], report: Any) -> list[Outcome]:
    """A group's training without its test; how long its epochs took, compilation apart."""
    setup: ChaosTraining = setup_of(settings[0]["training"])
    times: list[tuple[int, float]] = []
    seeds = [task["seed"] for task in settings]
    train_chaos(
        setup,
        seeds,
        report=lambda p: times.append((p.epoch, time.perf_counter())),
        width=max(WIDTH, len(seeds)),
    )
    (first, began), (last, ended) = times[0], times[-1]
    elements = (last - first) * setup.batch * setup.steps * len(seeds)
    return [Outcome({"us": 1e6 * (ended - began) / elements}, {}) for _ in settings]


def engine(study: Study, processes: int, group: int) -> tuple[float, float]:
    """Seconds for the whole study, and microseconds for each seed and element."""
    began, us = time.perf_counter(), []
    groups = grouped(study.tasks, group)
    for said in LocalEngine(processes).run(train_alone, groups, lambda tasks: True):
        if said.outcomes:
            us.append(said.outcomes[0].numbers["us"])
    return time.perf_counter() - began, min(us)


def separate(seeds: int, epochs: int, folder: str) -> float:
    """Seconds for one training after another, each by the command."""
    began = time.perf_counter()
    for seed in range(seeds):
        command = [sys.executable, "-m", "sagewing", "train", "chaos", "--protocol", "paper"]
        command += ["--seed", str(seed), "--epochs", str(epochs), "--out", f"{folder}/{seed}"]
        subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("seeds", 20), ("epochs", 1000), ("processes", 2), ("group", GROUP)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    study = Ablation(epochs=chosen.epochs).study(["default"], range(chosen.seeds))
    one = Ablation(epochs=chosen.epochs).study(["default"], [0])
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in ("each compiles", "programs remembered"):
            if name == "each compiles":
                os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
            else:
                os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "true"
                os.environ[CACHE] = f"{folder}/programs"
            found[f"separate, {name}"] = separate(chosen.seeds, chosen.epochs, f"{folder}/{name}")
            whole, together = engine(study, chosen.processes, chosen.group)
            found[f"engine, {name}"] = whole
            if name == "each compiles":
                rates = engine(one, 1, 1)[1], engine(study, 1, chosen.seeds)[1], together
    print(f"{chosen.seeds} seeds, {chosen.epochs} epochs, {chosen.processes} processes")
    for name, seconds in found.items():
        ratio = found[f"separate, {name.partition(', ')[2]}"] / seconds
        print(f"  {name:34s} {seconds:8.1f} s   {ratio:5.2f} x separate")
    alone, all_in_one, busy = rates
    print("time for each seed and element of a training step")
    print(f"  {'one seed':34s} {alone:8.3f} us")
    print(f"  {'all seeds in one program':34s} {all_in_one:8.3f} us   {all_in_one / alone:5.2f} x")
    print(f"  {'the engine, all processes busy':34s} {busy:8.3f} us   {busy / alone:5.2f} x")


if __name__ == "__main__":
    main()
