"""The command line: `sagewing COMMAND`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import jax
import tyro

from sagewing.cli import console
from sagewing.cli.bench import Bench
from sagewing.cli.demo import Demo
from sagewing.cli.train import Train
from sagewing.cli.tune import Tune
from sagewing.errors import InputError

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
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
        config=(tyro.conf.OmitArgPrefixes,),
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
