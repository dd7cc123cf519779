"""Reading and writing files so that a kill, a full disk or a foreign file does no harm."""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagewing.errors import InputError

LARGEST_JSON = 1 << 28  # bytes; no card and no result has as many


def sha256(content: bytes) -> str:
    """The digest by which a damaged file is told from a whole one."""
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Put `content` at `path`: whoever reads it finds the old file or the new one, never a part.

    The file is on the disk when this returns. A symbolic link at `path` is replaced, not followed.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk: after this a renamed file stays renamed."""
    if hasattr(os, "O_DIRECTORY"):  # not on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder with these files at `folder`; one that is there goes when all is written."""
    if folder.is_symlink():
        raise InputError(
            f"{folder} is a symbolic link to {folder.readlink()}; name that folder, or remove "
            "the link."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, content in files.items():
            write_atomically(new / name, content)
        os.chmod(new, 0o755)
        if folder.exists():
            old = new.with_name(f"{new.name}.old")
            os.replace(folder, old)
            os.replace(new, folder)
            shutil.rmtree(old)
        else:
            os.replace(new, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read_regular(path: Path, most: int | None = None) -> bytes:
    """What a file holds; refuses a pipe or a device, which may never end, and a file too large."""
    # Without O_NONBLOCK the opening of a pipe waits for somebody who writes to it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; replace it by a copy of the file.")
        if most is None:
            return file.read()
        # A file may be longer than it says: one that grows, or one of /proc, which says 0.
        content = file.read(most + 1) if status.st_size <= most else b""
        if max(status.st_size, len(content)) > most:
            raise InputError(f"{path} has more than {most} bytes; no such file is as large.")
        return content


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(read_regular(path, LARGEST_JSON).decode("utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {what} at {path}.") from None
    except InputError:
        raise
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


def json_digest(value: Any) -> str:
    """The digest of a JSON value, whatever the order of its keys and the spaces in its file."""
    try:
        return sha256(json.dumps(value, sort_keys=True).encode())
    except RecursionError:
        raise InputError("A JSON file has too many brackets inside brackets.") from None
