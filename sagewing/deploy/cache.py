"""Compiled filters on disk: built once, kept where nobody else can write."""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from sagewing.deploy.c99 import Source
from sagewing.deploy.header import CALLING, NAME
from sagewing.deploy.refusal import NotInC

COMPILERS = ("cc", "gcc", "clang")
# Contraction and the absence of floating-point traps change no rule for NaN or infinity.
FLAGS = (
    *("-std=c99", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-trapping-math", "-fPIC", "-shared"),
)


def library(source: Source, folder: Path | None = None, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a source, compiled unless an earlier process has done so."""
    compiler = _compiler()
    folder = private(default_folder() if folder is None else folder)
    parts = (*_files(source).values(), _target(compiler), " ".join(flags))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    made = folder / f"{key}.so"
    if not made.exists():
        _compile(compiler, flags, source, made)
    _check_owner(made)
    return made


def default_folder() -> Path:
    """The user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"  # noqa: PTH117
    except RuntimeError as error:
        raise NotInC(f"There is no home folder to compile filters into: {error}.") from None
    return base / "sagewing"


def private(folder: Path) -> Path:
    """The folder, made if need be; refused where others could put a library of theirs into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotInC(f"{folder} cannot hold compiled filters: {error.strerror}.") from None
    folder = folder.resolve()
    _check_owner(folder)
    for parent in folder.parents:
        status = parent.stat()
        open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if open_to_all and not status.st_mode & stat.S_ISVTX:
            raise NotInC(f"{parent}, where compiled filters would live, is writable by others.")
        if status.st_uid not in (0, os.getuid()):
            raise NotInC(f"{parent}, where compiled filters would live, belongs to another.")
    return folder


def _check_owner(path: Path) -> None:
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotInC(f"{path} belongs to another user or is writable by others: remove it.")


def _compiler() -> str:
    for name in COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise NotInC(f"There is no C compiler: none of {', '.join(COMPILERS)} is installed.")


@lru_cache(maxsize=8)
def _target(compiler: str) -> str:
    """The compiler and the processor that it compiles for: a home may be shared by machines."""
    said = [compiler]
    for arguments in (["--version"], ["-march=native", "-E", "-v", "-x", "c", os.devnull]):
        run = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
        said += [run.stdout, *(line for line in run.stderr.splitlines() if "-march" in line)]
    return "\n".join(said)


def _files(source: Source) -> dict[str, str]:
    calling = [CALLING / f"{source.calling}{end}" for end in (".c", ".h")]
    return {
        f"{NAME}.h": source.header,
        f"{NAME}.c": source.code,
        **{path.name: path.read_text(encoding="utf-8") for path in calling},
    }


def _compile(compiler: str, flags: tuple[str, ...], source: Source, made: Path) -> None:
    """Build beside the final place and move there: a second process finds all of it or nothing."""
    work = Path(tempfile.mkdtemp(dir=made.parent, prefix=".build-"))
    try:
        for name, text in _files(source).items():
            (work / name).write_text(text, encoding="utf-8")
        sources = (f"{NAME}.c", f"{source.calling}.c")
        command = [compiler, *flags, *sources, "-o", "filter.so", "-lm"]
        run = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise NotInC(f"The C compiler failed: {' '.join(command)}\n{run.stderr[:2000]}")
        os.chmod(work / "filter.so", 0o700)
        os.replace(work / "filter.so", made)
    finally:
        shutil.rmtree(work, ignore_errors=True)
