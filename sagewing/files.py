"""Reading and writing files safely: against a kill, a full disk and untrusted files."""

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

LARGEST_JSON = 1 << 28  # bytes, more than any card or result


def sha256(content: bytes) -> str:
    """The digest that detects a damaged file."""
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to `path`: a reader sees the old file or the new one, never a part.

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
    """Write a folder's entries to the disk, so that a crash does not undo a rename."""
    if hasattr(os, "O_DIRECTORY"):  # not on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with these files; an existing folder is replaced once all are written."""
    if folder.is_symlink():
        raise InputError(
            f"{folder} is a symbolic link to {folder.readlink()}; give that folder, or remove "
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
    """The content of a file; refuses a pipe or a device, and a file of more than `most` bytes."""
    # Without O_NONBLOCK opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; replace it by a copy of the file.")
        if most is None:
            return file.read()
        # A file may be longer than `st_size`: one that grows, or one of /proc, where it is 0.
        content = file.read(most + 1) if status.st_size <= most else b""
        if max(status.st_size, len(content)) > most:
            raise InputError(f"{path} has more than {most} bytes, the most for such a file.")
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
        raise InputError(f"{path} is not a {what}: it contains no JSON object.")
    return value


def to_json(value: dict[str, Any]) -> bytes:
    """The bytes of a JSON file, indented."""
    return utf8(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def utf8(text: str) -> bytes:
    """The bytes of a text file; characters without a UTF-8 form become question marks."""
    return text.encode("utf-8", "replace")


def json_digest(value: Any) -> str:
    """The digest of a JSON value, independent of the order of keys and of white space."""
    try:
        return sha256(json.dumps(value, sort_keys=True).encode())
    except RecursionError:
        raise InputError("A JSON file is nested too deeply.") from None
