"""A policy on disk: numbers in `weights.safetensors`, everything else in `policy.json`."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np

from sagewing import tensors
from sagewing.errors import InputError
from sagewing.files import read_json, to_json, write_atomically
from sagewing.filters import checks
from sagewing.policy.architecture import Architecture

FORMAT = "sagewing-policy"
VERSION = 1
WEIGHTS, CARD = "weights.safetensors", "policy.json"
SHIPPED = Path(__file__).parent / "shipped"

P = TypeVar("P", bound=eqx.Module)


def save(policy: Any, folder: Path, provenance: dict[str, Any], *, overwrite: bool) -> None:
    """Write the folder as a whole: the new one replaces the old one when it is complete."""
    here = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (not folder.is_dir() or here - {WEIGHTS, CARD}):
        raise InputError(f"{folder} exists and is not a policy folder; choose another name.")
    if here and not overwrite:
        raise InputError(f"{folder} exists already; choose another folder or overwrite it.")
    sizes = asdict(policy.arch)
    card = {
        "format": FORMAT,
        "version": VERSION,
        "normalisation": {"clip": sizes.pop("clip")},
        "architecture": sizes,
        "filter": {"bounds": list(policy.bounds), "gain_noise": policy.gain_noise},
        "provenance": provenance,
    }
    try:
        described = to_json(card)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"provenance must be plain numbers, text, lists and dicts: {error}."
        ) from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        write_atomically(new / WEIGHTS, tensors.to_bytes(policy))
        write_atomically(new / CARD, described)
        os.chmod(new, 0o755)
        if folder.exists():
            old = new.with_name(f"{new.name}.old")
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
    if type(card.get("version")) is not int or card["version"] != VERSION:
        raise InputError(
            f"{path} has version {card.get('version')!r}; this sagewing reads version {VERSION}."
        )
    return card


def load(make: Callable[..., P], folder: Path) -> P:
    """The policy in a folder, whose class is `make`."""
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    settings = _settings(read_card(folder), folder / CARD)
    skeleton = eqx.filter_eval_shape(lambda: make(*settings, key=jax.random.key(0)))
    policy = tensors.from_file(folder / WEIGHTS, skeleton)
    for name, array in tensors.named_arrays(policy).items():
        if not np.all(np.isfinite(array)):
            raise InputError(f"{folder / WEIGHTS}: tensor {name!r} holds NaN or infinite numbers.")
    return policy


def _settings(card: dict[str, Any], path: Path) -> tuple[Architecture, tuple[float, float], Any]:
    try:
        clip = _number(card["normalisation"]["clip"])
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in card["architecture"].items()}
        missing = {f.name for f in fields(Architecture)} - given.keys() - {"clip"}
        if missing:
            raise ValueError(f"architecture lacks {min(missing)!r}")
        for name, size in given.items():
            numbers = size if isinstance(size, tuple) else (size,)
            if name != "features" and any(type(n) is not int for n in numbers):
                raise ValueError(f"{name} is {size!r}")
        arch = Architecture(**cast(dict[str, Any], given), clip=clip)
        if not isinstance(card["filter"]["bounds"], list):
            raise ValueError(f"bounds is {card['filter']['bounds']!r}")
        low, high = (_number(b) for b in card["filter"]["bounds"])
        checks.adaptation((low, high), card["filter"]["gain_noise"])
        return arch, (low, high), card["filter"]["gain_noise"]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


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
