"""The state of a training on disk, to resume from after an interruption."""

import json
from pathlib import Path
from typing import Any, TypeVar

from sagewing import tensors
from sagewing.errors import InputError
from sagewing.files import read_json, to_json, write_atomically

T = TypeVar("T")
STATE, SETTINGS = "checkpoint.safetensors", "settings.json"


def start(folder: Path, settings: dict[str, Any], *, resume: bool) -> bool:
    """Reserve `folder` for a training with these settings; True if it has a checkpoint to load.

    An existing training is neither overwritten nor continued with other settings.
    """
    path = folder / SETTINGS
    settings = json.loads(to_json(settings))  # as they are read back: tuples become lists
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is not empty and holds no training; choose another --out.")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_json(settings))
        return False
    if not resume:
        raise InputError(
            f"{folder} already holds a training: add --resume to go on with it, "
            "or choose another --out."
        )
    stored = read_json(path, "training's settings")
    for name in sorted(settings.keys() | stored.keys()):
        was, now = stored.get(name), settings.get(name)
        if was != now:
            raise InputError(
                f"{folder} was started with {name} = {was}, not {now}; "
                "resume with the same settings, or choose another --out."
            )
    return (folder / STATE).exists()


def save(folder: Path, state: Any) -> None:
    """Replace the last checkpoint."""
    write_atomically(folder / STATE, tensors.to_sealed_bytes(state))


def load(folder: Path, skeleton: T) -> T:
    """The last checkpoint; a damaged one is refused."""
    return tensors.from_file(folder / STATE, skeleton, sealed=True)
