"""The options for a command's output, and writing its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sagewing.cli import console
from sagewing.results import RESULT, BenchResult, write_result


@dataclass(frozen=True)
class Output:
    """Where the results go."""

    out: Path
    """folder for the results"""
    json: Path | None = None
    """also write the result here"""

    def check(self) -> None:
        """Refuse paths that cannot be written."""
        console.check_writable(self.out, self.json)

    def write(self, result: BenchResult) -> None:
        """Write result.json into the folder, and to --json."""
        write_result(result, self.out, self.json)


@dataclass(frozen=True)
class NewOutput(Output):
    """Where the results go; existing files are replaced only with --force."""

    force: bool = False
    """replace existing files"""

    def check(self, files: Sequence[str] = (RESULT,)) -> None:
        """Also refuse to replace these files of the folder."""
        super().check()
        console.check_absent((*(self.out / name for name in files), self.json), self.force)


@dataclass(frozen=True)
class ResumableOutput(Output):
    """Where the results go; an unfinished training is continued only with --resume."""

    resume: bool = False
    """continue the training that is in the folder"""
