"""The one form in which every command leaves its result."""

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
Said = str | int | float | list | None  # in a row


@dataclass(frozen=True)
class BenchResult:
    """What was run, with what, and the rows that came out."""

    command: str
    settings: dict[str, Any]
    seed: int
    rows: list[dict[str, Any]]

    def content(self) -> dict[str, Any]:
        """What `result.json` holds."""
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
    """Write `result.json` into a folder, and the same to another file if one is given."""
    for path in filter(None, (folder / RESULT, also)):
        result.write(path)


def read_result(path: Path) -> dict[str, Any]:
    """What a `result.json` holds, with rows that name their filter and say numbers about it."""
    found = read_json(path, "result")
    if found.get("schema") != SCHEMA:
        raise InputError(
            f"{path} is no result of this version: schema {shown(found.get('schema'))}."
        )
    kinds = {"command": str, "settings": dict, "seed": int, "versions": dict, "rows": list}
    for key, kind in kinds.items():
        if not isinstance(found.get(key), kind):
            raise InputError(f"{path} has no {key!r} as a result has.")
    if not all(isinstance(version, str) for version in found["versions"].values()):
        raise InputError(f"{path}: 'versions' must name a version for each package.")
    for row in found["rows"]:
        named = isinstance(row, dict) and isinstance(row.get("filter"), str)
        if not named or not all(isinstance(v, Said) for v in row.values()):
            raise InputError(
                f"{path}: a row must name its filter and hold numbers; it is {shown(row)}."
            )
    return found


def _plain(value: Any) -> Any:
    """JSON knows no NaN: a number that does not exist is null."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in ("sagewing", "jax", "jaxlib", "equinox", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str | None:
    """The commit of the checkout that this package runs from; None for an installed wheel."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    tracked = found.returncode == 0 and "site-packages" not in here.parts
    return found.stdout.strip() if tracked else None
