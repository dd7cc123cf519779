"""A policy on disk: numbers in `weights.safetensors`, the rest in `policy.json`. Nothing is executed."""

import math
import os
import shutil
import tempfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from sagewing.errors import InputError
from sagewing.files import read_json, to_json, write_atomically
from sagewing.policy.architecture import Architecture
from sagewing.shapes import real_dtype

FORMAT = "sagewing-policy"
VERSION = 1
WEIGHTS, CARD = "weights.safetensors", "policy.json"
SHIPPED = Path(__file__).parent / "shipped"

P = TypeVar("P", bound=eqx.Module)


def named_arrays(tree: Any) -> dict[str, Any]:
    """The arrays of a pytree under the names of the fields that lead to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def save(policy: Any, folder: Path, provenance: dict[str, Any], *, overwrite: bool) -> None:
    """Write the folder as a whole: the new one replaces the old one when it is complete."""
    if folder.exists() and not overwrite and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already; choose another folder or overwrite it.")
    card = {
        "format": FORMAT,
        "version": VERSION,
        "architecture": asdict(policy.arch),
        "normalisation": {"clip": policy.arch.clip},
        "filter": {"bounds": list(policy.bounds), "gain_noise": policy.gain_noise},
        "provenance": provenance,
    }
    weights = {k: np.asarray(v, np.float32) for k, v in named_arrays(policy).items()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        write_atomically(new / WEIGHTS, format_tensors(weights))
        write_atomically(new / CARD, to_json(card))
        os.chmod(new, 0o755)
        if folder.exists():
            old = new.with_suffix(".old")
            os.replace(folder, old)
            os.replace(new, folder)
            shutil.rmtree(old)
        else:
            os.replace(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def read_card(folder: Path) -> dict[str, Any]:
    """`policy.json`, which also says where the policy comes from."""
    path = folder / CARD
    card = read_json(path, "policy description")
    if card.get("format") != FORMAT:
        raise InputError(
            f'{path} does not describe a sagewing policy: its "format" is not "{FORMAT}".'
        )
    if card.get("version") != VERSION:
        raise InputError(
            f"{path} has version {card.get('version')!r}; this sagewing reads version {VERSION}."
        )
    return card


def load(cls: type[P], folder: Path) -> P:
    """The policy in a folder."""
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    arch, bounds, gain_noise = _settings(card, folder / CARD)
    skeleton = eqx.filter_eval_shape(lambda: cls(arch, bounds, gain_noise, key=jax.random.key(0)))  # type: ignore[call-arg]
    expected = named_arrays(skeleton)
    weights = _weights(folder / WEIGHTS)
    missing, foreign = expected.keys() - weights.keys(), weights.keys() - expected.keys()
    if missing or foreign:
        first = sorted(missing or foreign)[0]
        raise InputError(
            f"{folder / WEIGHTS} does not fit {CARD}: it {'lacks' if missing else 'has a foreign'} "
            f"tensor {first!r}."
        )
    for name, leaf in expected.items():
        if weights[name].shape != leaf.shape:
            raise InputError(
                f"{folder / WEIGHTS} does not fit {CARD}: {name!r} has shape {weights[name].shape}, "
                f"expected {leaf.shape}."
            )
        if not np.all(np.isfinite(weights[name])):
            raise InputError(
                f"{folder / WEIGHTS} is damaged: {name!r} holds NaN or infinite numbers."
            )
    leaves = [jnp.asarray(weights[name], real_dtype()) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)


def _settings(card: dict[str, Any], path: Path) -> tuple[Architecture, tuple[float, float], Any]:
    try:
        given = dict(card["architecture"])
        known = {f.name for f in fields(Architecture)}
        if given.keys() - known:
            raise ValueError(f"unknown size {sorted(given.keys() - known)[0]!r}")
        sizes = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        for name, size in sizes.items():
            numbers = (
                size if isinstance(size, tuple) else () if name in ("features", "clip") else (size,)
            )
            if any(type(n) is not int or n > 65536 for n in numbers):
                raise ValueError(f"{name} = {size!r}")
        low, high = (float(b) for b in card["filter"]["bounds"])
        gain_noise = card["filter"]["gain_noise"]
        if not (math.isfinite(low) and math.isfinite(high)) or gain_noise not in (
            "prior",
            "posterior",
        ):
            raise ValueError(f"filter = {card['filter']!r}")
        return Architecture(**sizes), (low, high), gain_noise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}.") from None


def _weights(path: Path) -> dict[str, np.ndarray]:
    try:
        return parse_tensors(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"There are no weights at {path}.") from None
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a readable safetensors file: {error}.") from None


def shipped(name: str) -> Path:
    """The folder of a policy that ships with the package."""
    known = (
        sorted(p.name for p in SHIPPED.iterdir() if (p / CARD).exists()) if SHIPPED.is_dir() else []
    )
    if name not in known:
        raise InputError(
            f"There is no shipped policy {name!r}; known: {', '.join(known) or 'none'}."
        )
    return SHIPPED / name
