"""The result file of every command."""

import math
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sagewing.errors import InputError, shown
from sagewing.files import read_json, to_json, write_atomically

SCHEMA = 1
RESULT = "result.json"
RowValue = str | int | float | list | None  # a value in a row


@dataclass(frozen=True)
class BenchResult:
    """A command with its settings and its resulting rows."""

    command: str
    settings: dict[str, Any]
    seed: int
    rows: list[dict[str, Any]]

    def content(self) -> dict[str, Any]:
        """The content of `result.json`."""
        return {
            "schema": SCHEMA,
            "command": self.command,
            "settings": self.settings,
            "seed": self.seed,
            "commit": commit(),
            "versions": versions(),
            "rows": [{k: _plain(v) for k, v in row.items()} for row in self.rows],
        }

    def write(self, path: Path) -> None:
        """Write the content to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_json(self.content()))


def write_result(result: BenchResult, folder: Path, also: Path | None = None) -> None:
    """Write `result.json` into a folder, and a copy to the file `also` if given."""
    for path in filter(None, (folder / RESULT, also)):
        result.write(path)


def read_result(path: Path) -> dict[str, Any]:
    """The content of a `result.json`; every row has a filter's name and numbers."""
    content = read_json(path, "result")
    if content.get("schema") != SCHEMA:
        raise InputError(
            f"{path} is no result of this version: schema {shown(content.get('schema'))}."
        )
    kinds = {"command": str, "settings": dict, "seed": int, "versions": dict, "rows": list}
    for key, kind in kinds.items():
        if not isinstance(content.get(key), kind):
            raise InputError(f"{path} is no result: {key!r} is missing or of the wrong type.")
    if not all(isinstance(version, str) for version in content["versions"].values()):
        raise InputError(f"{path}: 'versions' must name a version for each package.")
    for row in content["rows"]:
        named = isinstance(row, dict) and isinstance(row.get("filter"), str)
        if not named or not all(isinstance(v, RowValue) for v in row.values()):
            raise InputError(
                f"{path}: a row must name its filter and hold numbers; it is {shown(row)}."
            )
    return content


def _plain(value: Any) -> Any:
    """The value for JSON, with null for NaN and infinity."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the numbers depend on."""
    by_name = {"python": platform.python_version()}
    for name in ("sagewing", "jax", "jaxlib", "equinox", "numpy"):
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = "not installed"
    return by_name


def commit() -> str | None:
    """The commit of the checkout that this package runs from; None for an installed wheel."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    tracked = done.returncode == 0 and "site-packages" not in folder.parts
    return done.stdout.strip() if tracked else None
