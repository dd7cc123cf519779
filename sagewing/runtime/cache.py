"""Compiled filters on disk: each is compiled once, and kept where nobody else can write."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from sagewing.codegen.c99 import CSource
from sagewing.codegen.header import CALLING, LATE, NAME
from sagewing.codegen.refusal import NotInC
from sagewing.errors import InputError
from sagewing.files import read_regular, sha256, write_atomically
from sagewing.runtime.cache_folder import check_owner, default_folder, private_folder
from sagewing.runtime.compiling import run_compiler, run_limited

COMPILERS = ("cc", "gcc", "clang")
# Contraction, and code without floating-point traps, keep the rules for NaN and infinity.
FLAGS = (
    *("-std=c99", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-trapping-math", "-fPIC", "-shared"),
)


def library(source: CSource, folder: Path | None = None, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a filter, compiled if it is not in the folder yet."""
    return library_of(_files(source), folder, flags)


def library_of(
    files: Mapping[str, str], folder: Path | None = None, flags: tuple[str, ...] = FLAGS
) -> Path:
    """The shared library of some C files, compiled if it is not in the folder yet.

    Its SHA-256 is kept with it, because loading a damaged library would end the process.
    """
    compiler = _compiler()
    try:
        folder = private_folder(default_folder() if folder is None else folder)
    except InputError as error:
        raise NotInC(str(error)) from None
    parts = (*files.values(), _compiler_and_target(compiler), " ".join(flags))
    made = folder / f"{sha256(chr(0).join(parts).encode())[:32]}.so"
    if not _is_intact(made):
        content = _compile(compiler, flags, files, folder)
        write_atomically(made, content, 0o700)
        write_atomically(_digest_file(made), sha256(content).encode(), 0o600)
    return made


def _digest_file(made: Path) -> Path:
    return made.with_suffix(".sha256")


def _is_intact(made: Path) -> bool:
    """Whether a library is there and undamaged."""
    try:
        check_owner(made)
        return sha256(read_regular(made)).encode() == read_regular(_digest_file(made))
    except (OSError, InputError):  # missing, or of another user: it is replaced
        return False


def _compiler() -> str:
    for name in COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise NotInC(f"There is no C compiler: none of {', '.join(COMPILERS)} is installed.")


@lru_cache(maxsize=8)
def _compiler_and_target(compiler: str) -> str:
    """The compiler and the processor it compiles for: machines may share a home folder."""
    texts = [compiler]
    for arguments in (["--version"], ["-march=native", "-E", "-v", "-x", "c", os.devnull]):
        run = run_limited([compiler, *arguments], Path.cwd())
        texts += [run.stdout, *(line for line in run.stderr.splitlines() if "-march" in line)]
    return "\n".join(texts)


def _files(source: CSource) -> dict[str, str]:
    calling = [CALLING / f"{source.calling}{end}" for end in (".c", ".h")]
    calling += LATE if source.calling == "records" else ()
    return {
        f"{NAME}.h": source.header,
        f"{NAME}.c": source.code,
        **{path.name: path.read_text(encoding="utf-8") for path in calling},
        **dict(source.more),
    }


def _compile(
    compiler: str, flags: tuple[str, ...], files: Mapping[str, str], folder: Path
) -> bytes:
    """The bytes of the library, compiled in a temporary folder."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text, encoding="utf-8")
        sources = [name for name in files if name.endswith(".c")]
        command = [compiler, *flags, *sources, "-o", "filter.so", "-lm"]
        run = run_compiler(command, work)
        if run.returncode != 0:
            raise NotInC(f"The C compiler failed: {' '.join(command)}\n{run.stderr[:2000]}")
        built = work / "filter.so"
        content = read_regular(built) if built.exists() else b""
    if not content:
        raise NotInC(f"The C compiler wrote nothing: {' '.join(command)}")
    return content
