"""Compiled filters on disk: built once, kept where nobody else can write."""

import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from sagewing.codegen.c99 import CSource
from sagewing.codegen.header import CALLING, NAME
from sagewing.codegen.refusal import NotInC
from sagewing.errors import InputError
from sagewing.files import read_regular, sha256, write_atomically
from sagewing.runtime.cache_folder import check_owner, default_folder, private
from sagewing.runtime.compiling import compiled, ran

COMPILERS = ("cc", "gcc", "clang")
# Contraction and the absence of floating-point traps change no rule for NaN or infinity.
FLAGS = (
    *("-std=c99", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-trapping-math", "-fPIC", "-shared"),
)


def library(source: CSource, folder: Path | None = None, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a source, compiled unless an earlier process has done so.

    Beside it stands its SHA-256: a library that is damaged would end the process that loads it.
    """
    compiler = _compiler()
    try:
        folder = private(default_folder() if folder is None else folder)
    except InputError as error:
        raise NotInC(str(error)) from None
    parts = (*_files(source).values(), _target(compiler), " ".join(flags))
    made = folder / f"{sha256(chr(0).join(parts).encode())[:32]}.so"
    if not _whole(made):
        content = _compile(compiler, flags, source, folder)
        write_atomically(made, content, 0o700)
        write_atomically(_noted(made), sha256(content).encode(), 0o600)
    return made


def _noted(made: Path) -> Path:
    return made.with_suffix(".sha256")


def _whole(made: Path) -> bool:
    """Whether a library is there, and is what was written."""
    try:
        check_owner(made)
        return sha256(read_regular(made)).encode() == read_regular(_noted(made))
    except (OSError, InputError):  # not there, or not ours: it is replaced
        return False


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
        run = ran([compiler, *arguments], Path.cwd())
        said += [run.stdout, *(line for line in run.stderr.splitlines() if "-march" in line)]
    return "\n".join(said)


def _files(source: CSource) -> dict[str, str]:
    calling = [CALLING / f"{source.calling}{end}" for end in (".c", ".h")]
    return {
        f"{NAME}.h": source.header,
        f"{NAME}.c": source.code,
        **{path.name: path.read_text(encoding="utf-8") for path in calling},
    }


def _compile(compiler: str, flags: tuple[str, ...], source: CSource, folder: Path) -> bytes:
    """The library's bytes, built in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as name:
        work = Path(name)
        for file, text in _files(source).items():
            (work / file).write_text(text, encoding="utf-8")
        sources = (f"{NAME}.c", f"{source.calling}.c")
        command = [compiler, *flags, *sources, "-o", "filter.so", "-lm"]
        run = compiled(command, work)
        if run.returncode != 0:
            raise NotInC(f"The C compiler failed: {' '.join(command)}\n{run.stderr[:2000]}")
        built = work / "filter.so"
        content = read_regular(built) if built.exists() else b""
    if not content:
        raise NotInC(f"The C compiler wrote nothing: {' '.join(command)}")
    return content
