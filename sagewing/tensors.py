"""Write the arrays of a pytree to a safetensors file, and read them back.

Nothing in such a file is executed.
"""

import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sagewing.errors import InputError
from sagewing.files import read_regular, sha256

T = TypeVar("T")
DIGEST = "sha256"  # key in a file's metadata: the digest of the file without metadata


def named_arrays(tree: Any) -> dict[str, Any]:
    """The arrays of a pytree by the path of fields to each."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def to_bytes(tree: Any) -> bytes:
    """The file that `from_file` reads."""
    return save(_as_numpy(tree))


def to_sealed_bytes(tree: Any) -> bytes:
    """The same with its own digest in its metadata."""
    arrays = _as_numpy(tree)
    return save(arrays, {DIGEST: sha256(save(arrays))})


def _as_numpy(tree: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in named_arrays(tree).items()}


def from_file(path: Path, skeleton: T, digest: str | None = None, *, sealed: bool = False) -> T:
    """The arrays in a file, as a pytree like `skeleton`; refuses any other content.

    The file must have the SHA-256 `digest`, if given. With `sealed` it is that of its metadata.
    """
    content = _content(path, skeleton)
    if digest is not None and sha256(content) != digest:
        raise InputError(
            f"{path} is damaged: its SHA-256 is not the one recorded when it was written. "
            "Copy it again from its source."
        )
    try:
        arrays = load(content)
        stated = _metadata(content).get(DIGEST) if sealed else None
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a readable safetensors file: {error}.") from None
    if sealed and stated != sha256(save(arrays)):
        raise InputError(
            f"{path} is damaged, or of an earlier version: the SHA-256 in it is not that of its "
            "numbers. Restore a copy of it, or start again."
        )
    expected = named_arrays(skeleton)
    for name in sorted(expected.keys() ^ arrays.keys()):
        what = "lacks the" if name in expected else "has a foreign"
        raise InputError(f"{path} {what} tensor {name!r}.")
    for name, leaf in expected.items():
        if arrays[name].dtype.kind != np.dtype(leaf.dtype).kind:
            raise InputError(f"{path}: tensor {name!r} holds {arrays[name].dtype} numbers.")
        if arrays[name].shape != leaf.shape:
            raise InputError(
                f"{path}: tensor {name!r} has shape {arrays[name].shape}, expected {leaf.shape}."
            )
    with np.errstate(over="ignore"):
        leaves = [jnp.asarray(arrays[name], leaf.dtype) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)


def _content(path: Path, skeleton: Any) -> bytes:
    arrays = named_arrays(skeleton)
    # Double precision, and the header's entry of each array
    most = sum(8 * leaf.size + 1024 + len(name) for name, leaf in arrays.items()) + 65536
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _metadata(content: bytes) -> dict[str, Any]:
    """The metadata in the JSON header with which a safetensors file begins."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]).get("__metadata__", {})
