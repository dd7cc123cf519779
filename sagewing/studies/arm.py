"""The generated C on ARM: its size on a flight computer, and its numbers under emulation."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sagewing.codegen.c99 import CSource
from sagewing.codegen.header import NAME
from sagewing.studies.latency import TIMING, TimedFilter, loop, run, write

# A Pixhawk's STM32H7: Cortex-M7, 2 MB of flash, 1 MB of RAM.
FLASH, RAM = 2 * 2**20, 2**20
CORTEX_M7 = ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard")
BARE = ("--specs=nano.specs", "--specs=nosys.specs", "-Wl,--gc-sections")
OPTIMISED = ("-std=c99", "-O2", "-fno-math-errno")
STEPS = 60


class Footprint(NamedTuple):
    """Bytes of a program: code and constants in flash; data and the largest stack in RAM."""

    flash: int
    ram: int


def on_cortex_m7(source: CSource) -> Footprint | None:
    """The size of a linked program in single precision; None without Debian's cross compiler."""
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write(source, folder)
        shutil.copy(TIMING / "firmware.c", folder)
        sources = ("firmware.c", f"{NAME}.c")
        flags = (*OPTIMISED, *CORTEX_M7, *BARE, "-fstack-usage")
        run([compiler, *flags, *sources, "-o", "firmware", "-lm"], folder)
        sizes = run(["arm-none-eabi-size", "firmware"], folder).splitlines()[1].split()
        text, data, bss = (int(number) for number in sizes[:3])
        stack = sum(_deepest(path) for path in folder.glob("*.su"))
    return Footprint(text + data, data + bss + stack)


def _deepest(usage: Path) -> int:
    return max(int(line.split("\t")[1]) for line in usage.read_text().splitlines())


def on_linux_arm(case: TimedFilter) -> float | None:
    """The difference between ARM, under qemu, and this machine after 60 steps in single precision.

    The largest over the states, relative where a state exceeds 1. None without compiler or qemu.
    """
    compiler, emulator = shutil.which("arm-linux-gnueabihf-gcc"), shutil.which("qemu-arm")
    if compiler is None or emulator is None:
        return None
    with (
        loop(case, ["cc", *OPTIMISED]) as on_host,
        loop(case, [compiler, *OPTIMISED, "-static"], (emulator,)) as on_arm,
    ):
        a, b = on_host(STEPS), on_arm(STEPS)
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(a), 1.0)))
