"""Every command: its class, and its line on the first screen."""

import textwrap
from typing import NamedTuple


class Entry(NamedTuple):
    """A command: `module:Class` in this folder, and its line on the first screen."""

    target: str
    line: str


COMMANDS = {
    "demo": Entry("demo:Demo", "see it work on simulated flights: a table and a page"),
    "inspect": Entry("inspect:Inspect", "what is in a log: signals, rates, gaps, clocks, units"),
    "run": Entry("run:Run", "the filters on your own log: trajectories, errors, a page"),
    "train flight": Entry("train_flight:TrainFlight", "train the learned filter on flights"),
    "train chaos": Entry("train_chaos:TrainChaos", "train a learned filter on Lorenz"),
    "train universal": Entry("train_universal:TrainUniversal", "train one policy for any model"),
    "tune flight": Entry("tune_flight:TuneFlight", "fit a constant Q and R to flights"),
    "tune chaos": Entry("tune_chaos:TuneChaos", "fit a constant Q and R to Lorenz"),
    "bench flight": Entry("bench_flight:BenchFlight", "the paper's flight table and figures"),
    "bench chaos": Entry("bench_chaos:BenchChaos", "the paper's chaotic systems, every filter"),
    "bench transfer": Entry("bench_transfer:BenchTransfer", "policies where they were not trained"),
    "bench universal": Entry("bench_universal:BenchUniversal", "one policy, unseen models"),
    "bench latency": Entry(
        "bench_latency:BenchLatency", "microseconds a step, size on a Cortex-M7"
    ),
    "export": Entry("export:Export", "a filter as C99 for a flight computer"),
    "sweep ablation": Entry(
        "sweep_ablation:SweepAblation", "the ablation over many seeds, resumable"
    ),
    "report": Entry("report:Report", "make the page of an earlier result again"),
    "fly": Entry("fly:Fly", "a simulated quadrotor flies on the generated C"),
}
GROUPS = {
    "bench": "Compare the filters: the paper's tables and figures.",
    "sweep": "Train many variants with many seeds; a killed sweep can be resumed.",
    "train": "Train a learned filter.",
    "tune": "Fit a constant Q and R to data: a careful engineer's EKF.",
}
FIRST = ("demo", "inspect", "run", "train flight", "export")


def screen(group: str | None = None) -> str:
    """The first screen, or that of a group of commands."""
    if group is not None:
        names = [name for name in COMMANDS if name.split()[0] == group]
        usage = f"usage: sagewing {group} {{{','.join(name.split()[1] for name in names)}}} ..."
        lines = [usage, "", GROUPS[group], "", *_lines(names)]
    else:
        rest = [name for name in COMMANDS if name not in FIRST]
        lines = [
            "usage: sagewing COMMAND [options]",
            "",
            "Adaptive state estimation: EKF, Sage-Husa and learned noise adaptation.",
            "",
            "What most people need:",
            *_lines(FIRST),
            "",
            "And:",
            *_lines(rest),
        ]
    lines += ["", "Options and an example of each: sagewing COMMAND --help"]
    return "\n".join([*lines, "Every command takes --quiet: no progress, no notes."])


def _lines(names: tuple[str, ...] | list[str]) -> list[str]:
    return [f"  {name:<15} {COMMANDS[name].line}" for name in names]


def wrapped(help: str, width: int) -> str:
    """A command's help, wrapped to this width: the parser wraps options, but not prose."""
    return "\n\n".join(_paragraph(part, width) for part in help.strip().split("\n\n"))


def _paragraph(part: str, width: int) -> str:
    lines = [line.rstrip() for line in part.splitlines()]
    if max(map(len, lines), default=0) <= width:
        return "\n".join(lines)
    return textwrap.fill(
        " ".join(lines),
        width,
        subsequent_indent=" " * 8 if part.startswith("usage:") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
