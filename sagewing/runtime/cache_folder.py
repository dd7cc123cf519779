"""The folder of compiled programs, which belongs to the user and which nobody else can write to."""

import os
import stat
from pathlib import Path

from sagewing.errors import InputError


def default_folder() -> Path:
    """The user's cache folder; refuses a user without a home."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "sagewing"
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute() or not home.is_dir():
        raise InputError(
            f"There is no home folder to keep compiled programs in ({str(home)!r}); set HOME or "
            "XDG_CACHE_HOME to a folder of yours."
        )
    return home / ".cache" / "sagewing"


def private_folder(folder: Path) -> Path:
    """The folder, created if it is missing; refuses one that other users could write to."""
    try:
        # One by one, because mkdir gives missing parents the permissions of the umask
        for missing in reversed([p for p in folder.parents if not p.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder = folder.resolve()
        check_owner(folder)
        for parent in folder.parents:
            status = parent.stat()
            open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if open_to_all and not status.st_mode & stat.S_ISVTX:
                raise InputError(
                    f"{parent}, where compiled programs would live, is writable by others."
                )
            if status.st_uid not in (0, os.getuid()):
                raise InputError(f"{parent}, where compiled programs would live, is of another.")
    except (OSError, RuntimeError) as error:
        raise InputError(f"{folder} cannot hold compiled programs: {error}.") from None
    return folder


def check_owner(path: Path) -> None:
    """Refuse a file or folder that another user owns or may write to."""
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"{path} belongs to another user or is writable by others: remove it.")
