"""The latency benchmark: its table, and what it shows, in sentences."""

from typing import Any

import numpy as np

from sagewing.report.numbers import MISSING
from sagewing.report.style import LABELS
from sagewing.report.table import ReportTable, Section, TableColumn
from sagewing.studies.latency import ROUNDS


def table(rows: list[dict[str, Any]]) -> ReportTable:
    """Microseconds a step, a section for each model."""
    columns = [
        TableColumn("", lambda row: LABELS[row["filter"]], left=True),
        TableColumn("backend", lambda row: row["backend"], left=True),
        TableColumn("median", lambda row: f"{row['us_median']:.2f}"),
        TableColumn("p99", lambda row: f"{row['us_p99']:.2f}"),
        TableColumn("worst", lambda row: f"{row['us_worst']:.2f}"),
        TableColumn("flash", lambda row: _size(row["flash_bytes"])),
        TableColumn("RAM", lambda row: _size(row["ram_bytes"])),
    ]
    sections = [
        Section([row for row in rows if row["model"] == model], {"terminal": model})
        for model in dict.fromkeys(row["model"] for row in rows)
    ]
    return ReportTable(columns, sections, title="Microseconds a step, single precision")


def _size(bytes_: int | None) -> str:
    return MISSING if bytes_ is None else f"{bytes_ / 1024:.1f} KB"


def tails(rows: list[dict[str, Any]]) -> list[str]:
    """How much the steps of a loop of C vary, and how much other programs disturbed it."""
    loops = [row for row in rows if row["backend"] == "c-loop"]
    if not loops:
        return []
    quiet = max(row["us_p99"] / row["us_median"] for row in loops)
    each = [
        p / m
        for r in loops
        for p, m in zip(*(r[f"us_{k}_of_rounds"] for k in ("p99", "median")), strict=True)
    ]
    return [
        f"in a loop of C the p99 is at most {quiet:.2f} times the median, in the quietest of "
        f"{ROUNDS} rounds (in the {len(each)} rounds of all filters: median {np.median(each):.2f}, "
        f"largest {max(each):.2f})"
    ]


def on_arm(rows: list[dict[str, Any]]) -> list[str]:
    """Whether the C fits a flight computer, and gives the same numbers on ARM, in sentences."""
    lines = []
    if any(row["fits_stm32h7"] is None for row in rows):
        lines.append("without gcc-arm-none-eabi there is no size for a Cortex-M7")
    else:
        fit = "each fits" if all(row["fits_stm32h7"] for row in rows) else "NOT each fits"
        lines.append(f"{fit} the STM32H7 of a Pixhawk (2 MB of flash, 1 MB of RAM)")
    differences = [row["arm_difference"] for row in rows]
    if None in differences:
        lines.append("without gcc-arm-linux-gnueabihf and qemu-user nothing was run on ARM")
    else:
        largest = max(differences)
        lines.append(f"60 steps on ARM, under qemu, end within {largest:.1e} of those here")
    return lines
