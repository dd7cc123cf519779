"""Programs compiled by JAX that outlive the process."""

import os
from pathlib import Path

import jax

from sagewing.errors import InputError
from sagewing.files import read_regular, sha256, write_atomically
from sagewing.runtime.cache_folder import check_owner, default_folder, private

DIGEST = 64  # bytes at the beginning of an entry: the SHA-256 of the rest


def remember_compilations() -> None:
    """Keep compiled programs in the user's cache: the second run of a command starts at once.

    Without a home, or where others may write to the cache, there is none. A user who names a
    folder in JAX_COMPILATION_CACHE_DIR has JAX's own cache there.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        # JAX itself neither notices every damage nor ever replaces a damaged entry, and it has no
        # public way to do better.
        from jax._src import compilation_cache

        folder = private(default_folder() / "xla")
        if not callable(compilation_cache.get_file_cache):
            return
    except (InputError, ImportError, AttributeError):
        return
    compilation_cache.get_file_cache = lambda path: (Programs(Path(path)), path)
    jax.config.update("jax_compilation_cache_dir", str(folder))


class Programs:
    """JAX's cache of programs in a folder, an entry a file; a damaged one counts as missing."""

    def __init__(self, folder: Path):
        self._path = folder

    def get(self, key: str) -> bytes | None:
        """The program; JAX compiles it where there is None."""
        path = self._path / key
        try:
            check_owner(path)
            content = read_regular(path)
        except (OSError, InputError):
            return None
        digest, program = content[:DIGEST], content[DIGEST:]
        return program if digest == sha256(program).encode() else None

    def put(self, key: str, value: bytes) -> None:
        """Write it in place of what is there; a full disk is no reason to stop."""
        try:
            write_atomically(self._path / key, sha256(value).encode() + value, 0o600)
        except OSError:
            return
