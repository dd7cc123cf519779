"""The command line: `sagewing COMMAND`."""

import sys
from typing import Annotated

import tyro

from sagewing.cli import console
from sagewing.cli.bench_chaos import BenchChaos
from sagewing.cli.bench_flight import BenchFlight
from sagewing.cli.bench_latency import BenchLatency
from sagewing.cli.bench_transfer import BenchTransfer
from sagewing.cli.demo import Demo
from sagewing.cli.export import Export
from sagewing.cli.fly import Fly
from sagewing.cli.sweep_ablation import SweepAblation
from sagewing.cli.train_chaos import TrainChaos
from sagewing.cli.train_flight import TrainFlight
from sagewing.cli.tune_chaos import TuneChaos
from sagewing.cli.tune_flight import TuneFlight
from sagewing.compilations import remember_compilations
from sagewing.errors import InputError

Bench = (
    Annotated[BenchChaos, tyro.conf.subcommand("chaos")]
    | Annotated[BenchFlight, tyro.conf.subcommand("flight")]
    | Annotated[BenchTransfer, tyro.conf.subcommand("transfer")]
    | Annotated[BenchLatency, tyro.conf.subcommand("latency")]
)
Train = (
    Annotated[TrainChaos, tyro.conf.subcommand("chaos")]
    | Annotated[TrainFlight, tyro.conf.subcommand("flight")]
)
Tune = (
    Annotated[TuneChaos, tyro.conf.subcommand("chaos")]
    | Annotated[TuneFlight, tyro.conf.subcommand("flight")]
)
Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[
        Bench,
        tyro.conf.subcommand(
            "bench",
            description="Compare the filters: the paper's tables and figures.\n\n"
            "Example: sagewing bench flight --data sim",
        ),
    ]
    | Annotated[
        Train,
        tyro.conf.subcommand(
            "train",
            description="Train a learned filter.\n\n"
            "Example: sagewing train flight --out out/flight",
        ),
    ]
    | Annotated[
        Tune,
        tyro.conf.subcommand(
            "tune",
            description="Fit a constant Q and R to data: a careful engineer's EKF.\n\n"
            "Example: sagewing tune flight --out out/tune",
        ),
    ]
    | Annotated[SweepAblation, tyro.conf.subcommand("sweep")]
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Fly, tyro.conf.subcommand("fly")]
)


def main(args: list[str] | None = None) -> None:
    """Parse, run, and turn what the user got wrong into a sentence and exit code 2."""
    command = tyro.cli(
        Command,
        prog="sagewing",
        description="Adaptive state estimation: EKF, Sage-Husa and learned noise adaptation.",
        args=args,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    remember_compilations()
    try:
        command()
    except InputError as error:
        console.err.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        console.err.print("Interrupted.")
        sys.exit(1)
