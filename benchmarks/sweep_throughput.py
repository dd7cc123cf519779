"""Many seeds through the sweep's local engine, against as many separate training runs.

Both train and nothing else: no test, no store. A separate run is a process of its own that trains
one seed, one after another, as `sagewing train chaos --seed S` does; with and without programs that
an earlier run compiled. Then the time of an epoch for each seed and element, one seed alone against
all of them in one program.
Usage: python benchmarks/sweep_throughput.py [--seeds 20] [--epochs 1000] [--processes 2] [--warm]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from sagewing.jobs.local_engine import LocalEngine
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import GROUP, Study, grouped
from sagewing.studies.ablation import WIDTH, Ablation, setup_of
from sagewing.train.chaos import ChaosTraining, train_chaos


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


def engine(study: Study, processes: int, group: int) -> float:
    """Do the whole study; microseconds for each seed and element."""
    us = []
    groups = grouped(study.tasks, group)
    for progress in LocalEngine(processes).run(train_alone, groups, lambda tasks: True):
        if progress.outcomes:
            us.append(progress.outcomes[0].numbers["us"])
    return min(us)


def separate(seeds: int, epochs: int, folder: str) -> None:
    """One training after another, each by the command."""
    for seed in range(seeds):
        command = [sys.executable, "-m", "sagewing", "train", "chaos", "--protocol", "paper"]
        command += ["--seed", str(seed), "--epochs", str(epochs), "--out", f"{folder}/{seed}"]
        subprocess.run(command, check=True, capture_output=True)


def timed(name: str, act: Callable[[], Any], beside: tuple[float, float] | None = None) -> Any:
    """Do it and print its seconds, by the clock and of the processors, and its ratio to another."""
    began, used = time.perf_counter(), _processors()
    result = act()
    spent = (time.perf_counter() - began, _processors() - used)
    ratios = (
        "" if beside is None else f"  {beside[0] / spent[0]:5.2f} x  {beside[1] / spent[1]:5.2f} x"
    )
    print(f"  {name:34s} {spent[0]:8.1f} s  {spent[1]:8.1f} s{ratios}", flush=True)
    return result, spent


def _processors() -> float:
    """Seconds of the processes that have ended: on a busy machine they tell more than a clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("seeds", 20), ("epochs", 1000), ("processes", 2), ("group", GROUP)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warm", action="store_true", help="only with programs remembered")
    chosen = parser.parse_args()
    study = Ablation(epochs=chosen.epochs).study(["default"], range(chosen.seeds))
    one = Ablation(epochs=chosen.epochs).study(["default"], [0])
    print(f"{chosen.seeds} seeds, {chosen.epochs} epochs, {chosen.processes} processes")
    print(f"  {'':34s} {'clock':>10s}  {'processors':>10s}  times as fast by either")
    with tempfile.TemporaryDirectory() as folder:
        for name, remembered in (("each compiles", "false"), ("programs remembered", "true")):
            if chosen.warm and remembered == "false":
                continue
            os.environ["JAX_ENABLE_COMPILATION_CACHE"] = remembered
            os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/programs"
            place = f"{folder}/{name}"
            apart = timed(
                f"separate, {name}", lambda p=place: separate(chosen.seeds, chosen.epochs, p)
            )
            timed(
                f"engine, {name}", lambda: engine(study, chosen.processes, chosen.group), apart[1]
            )
        print("time for each seed and element of a training step", flush=True)
        alone = engine(one, 1, 1)
        print(f"  {'one seed':34s} {alone:8.3f} us", flush=True)
        together = engine(study, 1, chosen.seeds)
        print(f"  {'all seeds in one program':34s} {together:8.3f} us   {together / alone:5.2f} x")


if __name__ == "__main__":
    main()
