"""Reading and writing files so that a kill, a full disk or a foreign file does no harm."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sagewing.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path`: whoever reads it finds the old file or the new one, never a part."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {what} at {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a readable {what}: {error}.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a {what}: it holds no JSON object.")
    return value


def to_json(value: dict[str, Any]) -> bytes:
    """A JSON file's bytes, for people to read."""
    return utf8(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def utf8(text: str) -> bytes:
    """A text file's bytes; a name that is not UTF-8, as a file's may be, gets question marks."""
    return text.encode("utf-8", "replace")
