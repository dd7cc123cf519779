"""The command line: `sagewing COMMAND`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import jax
import tyro
from rich.markup import escape

from sagewing.cli import console
from sagewing.cli.bench_chaos import BenchChaos
from sagewing.cli.bench_flight import BenchFlight
from sagewing.cli.bench_latency import BenchLatency
from sagewing.cli.bench_transfer import BenchTransfer
from sagewing.cli.demo import Demo
from sagewing.cli.export import Export
from sagewing.cli.fly import Fly
from sagewing.cli.inspect import Inspect
from sagewing.cli.run import Run
from sagewing.cli.train_chaos import TrainChaos
from sagewing.cli.train_flight import TrainFlight
from sagewing.cli.tune_chaos import TuneChaos
from sagewing.cli.tune_flight import TuneFlight
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
    | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[Run, tyro.conf.subcommand("run")]
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
    | Annotated[Export, tyro.conf.subcommand("export")]
    | Annotated[Fly, tyro.conf.subcommand("fly")]
)


def remember_compilations() -> None:
    """Keep compiled programs in the user's cache: the second run of a command starts at once."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(cache / "sagewing" / "xla"))


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
        # Escaped: a message may hold names from a file, and these may look like markup.
        console.err.print(
            f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(2)
    except KeyboardInterrupt:
        console.err.print("Interrupted.")
        sys.exit(1)
