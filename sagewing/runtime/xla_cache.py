"""JAX's compiled programs on disk."""

import os
from pathlib import Path

import jax

from sagewing.errors import InputError
from sagewing.files import read_regular, sha256, write_atomically
from sagewing.runtime.cache_folder import check_owner, default_folder, private_folder

DIGEST = 64  # bytes at the beginning of an entry: the SHA-256 of the rest


def enable_compilation_cache() -> None:
    """Keep JAX's compiled programs in the user's cache: the second run of a command starts at once.

    Without a home folder, or if others may write to the cache, nothing is kept. A user who names a
    folder in JAX_COMPILATION_CACHE_DIR has JAX's own cache there.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        # JAX's own cache does not notice all damage and never replaces a damaged entry, and it has
        # no public interface to change that.
        from jax._src import compilation_cache

        folder = private_folder(default_folder() / "xla")
        if not callable(compilation_cache.get_file_cache):
            return
    except (InputError, ImportError, AttributeError):
        return
    compilation_cache.get_file_cache = lambda path: (XlaCache(Path(path)), path)
    jax.config.update("jax_compilation_cache_dir", str(folder))


class XlaCache:
    """JAX's cache of programs in a folder, one file an entry; a damaged entry counts as missing."""

    def __init__(self, folder: Path):
        self._path = folder

    def get(self, key: str) -> bytes | None:
        """The program; None if it is not there, and JAX compiles it."""
        path = self._path / key
        try:
            check_owner(path)
            content = read_regular(path)
        except (OSError, InputError):
            return None
        digest, program = content[:DIGEST], content[DIGEST:]
        return program if digest == sha256(program).encode() else None

    def put(self, key: str, value: bytes) -> None:
        """Write or replace an entry; does nothing if the disk is full."""
        try:
            write_atomically(self._path / key, sha256(value).encode() + value, 0o600)
        except OSError:
            return
