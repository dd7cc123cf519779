"""Timing contenders in turn, so that a busy minute hits all of them alike."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def race(contenders: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """The median seconds of each contender over `rounds`, after one warm-up (compilation) each."""
    for contender in contenders.values():
        jax.block_until_ready(contender())
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            began = time.perf_counter()
            jax.block_until_ready(contender())
            seconds[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def show(title: str, seconds: dict[str, float], baseline: str, units: int) -> None:
    """Print microseconds for each unit of work, and the ratio to the baseline."""
    print(title)
    for name, value in seconds.items():
        ratio = seconds[baseline] / value
        print(f"  {name:34s} {1e6 * value / units:8.3f} us   {ratio:5.2f} x {baseline}")
