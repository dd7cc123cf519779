"""Compiled programs that outlive the process."""

import os
from pathlib import Path

import jax


def remember_compilations() -> None:
    """Keep compiled programs in the user's cache: the second run of a command starts at once."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(cache / "sagewing" / "xla"))
