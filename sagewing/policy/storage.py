"""Something learned on disk: numbers in `weights.safetensors`, the rest in `policy.json`."""

import hashlib
import os
import shutil
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np

from sagewing import tensors
from sagewing.errors import InputError
from sagewing.files import read_json, to_json, write_atomically

FORMAT = "sagewing-policy"
VERSION = 1
WEIGHTS, CARD = "weights.safetensors", "policy.json"
SHIPPED = Path(__file__).parent / "shipped"
# What a name without a filter and a protocol means.
SHORT_NAMES = {"chaos": "chaos-ndr-posterior-aligned"}

P = TypeVar("P", bound="Stored")


class Stored(eqx.Module):
    """Something learned that lives in a folder.

    A subclass has a `kind`, says in `card` what rebuilds it, and rebuilds itself `from_card`. What
    serves in its place, and `load` gives where a folder holds it, are its `variants`.
    """

    kind: ClassVar[str]
    variants: ClassVar[tuple[type["Stored"], ...]] = ()

    @abstractmethod
    def card(self) -> dict[str, Any]:
        """What `from_card` needs, as plain JSON."""

    @classmethod
    @abstractmethod
    def from_card(cls: type[P], card: dict[str, Any]) -> P:
        """One with these sizes and some weights."""

    def save(
        self,
        folder: str | Path,
        provenance: dict[str, Any] | None = None,
        *,
        overwrite: bool = False,
    ) -> None:
        """Write `weights.safetensors` and `policy.json`; what is there stays unless `overwrite`."""
        _save(self, Path(folder), provenance or {}, overwrite=overwrite)

    def digest(self) -> str:
        """Which weights these are: a few letters of their SHA-256."""
        return hashlib.sha256(tensors.to_bytes(self)).hexdigest()[:16]

    @classmethod
    def load(cls: type[P], folder: str | Path) -> P:
        """Read what `save` wrote; a damaged or foreign file is refused with the reason."""
        return _load(cls, Path(folder))

    @classmethod
    def pretrained(cls: type[P], name: str) -> P:
        """One that ships with the package, such as "chaos"."""
        return _load(cls, _shipped(name))


def _save(learned: Stored, folder: Path, provenance: dict[str, Any], *, overwrite: bool) -> None:
    """Write the folder as a whole: the new one replaces the old one when it is complete."""
    here = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (not folder.is_dir() or here - {WEIGHTS, CARD}):
        raise InputError(f"{folder} exists and is not a policy folder; choose another name.")
    if here and not overwrite:
        raise InputError(f"{folder} exists already; choose another folder or overwrite it.")
    card = {
        "format": FORMAT,
        "version": VERSION,
        "kind": learned.kind,
        **learned.card(),
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
        write_atomically(new / WEIGHTS, tensors.to_bytes(learned))
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


def _load(make: type[P], folder: Path) -> P:
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    kinds: dict[Any, Any] = {one.kind: one for one in (make, *make.variants)}
    if card.get("kind") not in kinds:
        raise InputError(
            f"{folder / CARD} has the kind {card.get('kind')!r}; {make.__name__}.load reads "
            + " or ".join(f'"{kind}"' for kind in kinds)
            + "."
        )
    try:
        skeleton = eqx.filter_eval_shape(lambda: kinds[card["kind"]].from_card(card))
    except KeyError as error:
        raise InputError(f"{folder / CARD} is damaged: it lacks {error}.") from None
    except InputError as error:
        raise InputError(f"{folder / CARD} is damaged: {error}") from None
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CARD} is damaged: {type(error).__name__}: {error}") from None
    learned = tensors.from_file(folder / WEIGHTS, skeleton)
    for name, array in tensors.named_arrays(learned).items():
        if not np.all(np.isfinite(array)):
            raise InputError(f"{folder / WEIGHTS}: tensor {name!r} holds NaN or infinite numbers.")
    return learned


def number(value: Any) -> float:
    """A number that a card holds, or a ValueError."""
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def folder_of(name: str) -> Path:
    """The folder that a user means: one of that path, or one that ships under that name."""
    here = Path(name)
    return here if here.is_dir() or len(here.parts) > 1 else _shipped(name)


def _shipped(name: str) -> Path:
    """The folder of something that ships with the package."""
    name = SHORT_NAMES.get(name, name)
    known = (
        sorted(p.name for p in SHIPPED.iterdir() if (p / CARD).exists()) if SHIPPED.is_dir() else []
    )
    if name not in known:
        known = sorted(SHORT_NAMES) + known
        raise InputError(f"There is no shipped policy {name!r}; known: {', '.join(known)}.")
    return SHIPPED / name
