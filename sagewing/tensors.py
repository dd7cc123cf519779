"""The arrays of a pytree as a safetensors file, and back. Nothing in such a file is executed."""

from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sagewing.errors import InputError

T = TypeVar("T")


def named_arrays(tree: Any) -> dict[str, Any]:
    """The arrays of a pytree under the names of the fields that lead to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def to_bytes(tree: Any) -> bytes:
    """The file that `from_file` reads."""
    return save({name: np.asarray(array) for name, array in named_arrays(tree).items()})


def from_file(path: Path, skeleton: T) -> T:
    """The arrays in a file, in the form of `skeleton`; anything else is refused with the reason."""
    try:
        found = load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a readable safetensors file: {error}.") from None
    expected = named_arrays(skeleton)
    for name in sorted(expected.keys() ^ found.keys()):
        what = "lacks the" if name in expected else "has a foreign"
        raise InputError(f"{path} {what} tensor {name!r}.")
    for name, leaf in expected.items():
        if found[name].dtype.kind != np.dtype(leaf.dtype).kind:
            raise InputError(f"{path}: tensor {name!r} holds {found[name].dtype} numbers.")
        if found[name].shape != leaf.shape:
            raise InputError(
                f"{path}: tensor {name!r} has shape {found[name].shape}, expected {leaf.shape}."
            )
    with np.errstate(over="ignore"):
        leaves = [jnp.asarray(found[name], leaf.dtype) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)
