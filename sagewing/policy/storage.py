"""Learned parts on disk: the numbers in `weights.safetensors`, the rest in `policy.json`."""

import json
import math
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np

from sagewing import tensors
from sagewing.errors import InputError
from sagewing.files import (
    json_digest,
    read_json,
    read_regular,
    sha256,
    to_json,
    write_atomically,
    write_folder,
)

FORMAT = "sagewing-policy"
VERSION = 2
UNSEALED = 1  # the version before digests: only users' policies have it
SEAL = "sha256"  # keys of a card: the digests of the weights' file and of the other keys
WEIGHTS, CARD = "weights.safetensors", "policy.json"
SHIPPED = Path(__file__).parent / "shipped"
# Short names of shipped policies.
SHORT_NAMES = {"chaos": "chaos-ndr-posterior-aligned"}

# A weight beyond this is damaged or would overflow: trained ones stay below 100.
LARGEST_WEIGHT = 1e6
# Trained policies have about ten thousand; a sparse file could claim any number.
MOST_WEIGHTS = 1 << 25
LONGEST = 300  # characters of a message about a file's content

P = TypeVar("P", bound="Stored")


class Stored(eqx.Module):
    """A learned part that is stored in a folder.

    A subclass has a `kind`; its `card` has the settings from which `from_card` rebuilds it. Its
    `variants` are classes that `load` may return instead, according to the folder's content.
    """

    kind: ClassVar[str]
    variants: ClassVar[tuple[type["Stored"], ...]] = ()

    @abstractmethod
    def card(self) -> dict[str, Any]:
        """The settings for `from_card`, as plain JSON."""

    @classmethod
    @abstractmethod
    def from_card(cls: type[P], card: dict[str, Any]) -> P:
        """A part with these sizes and arbitrary weights."""

    def save(
        self,
        folder: str | Path,
        provenance: dict[str, Any] | None = None,
        *,
        overwrite: bool = False,
    ) -> None:
        """Write `weights.safetensors` and `policy.json`; replace them only with `overwrite`."""
        _save(self, Path(folder), provenance or {}, overwrite=overwrite)

    def digest(self) -> str:
        """The first letters of the weights' SHA-256, to identify them."""
        return sha256(tensors.to_bytes(self))[:16]

    @classmethod
    def load(cls: type[P], folder: str | Path) -> P:
        """Read a folder written by `save`; refuse a damaged or unknown file, with the reason."""
        return _load(cls, Path(folder))

    @classmethod
    def pretrained(cls: type[P], name: str) -> P:
        """A part that ships with the package, such as "chaos"."""
        return _load(cls, _shipped(name))


def _save(learned: Stored, folder: Path, provenance: dict[str, Any], *, overwrite: bool) -> None:
    """Write the folder; the new one replaces the old one when it is complete."""
    _check_count(learned, folder)
    existing = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (not folder.is_dir() or existing - {WEIGHTS, CARD}):
        raise InputError(f"{folder} exists and is not a policy folder; choose another name.")
    if existing and not overwrite:
        raise InputError(f"{folder} exists already; choose another folder or overwrite it.")
    card = {
        "format": FORMAT,
        "version": VERSION,
        "kind": learned.kind,
        **learned.card(),
        "provenance": provenance,
    }
    weights = tensors.to_bytes(learned)
    try:
        card_bytes = _sealed(card, weights)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"provenance must be plain numbers, text, lists and dicts: {error}."
        ) from None
    write_folder(folder, {WEIGHTS: weights, CARD: card_bytes})


def _sealed(card: dict[str, Any], weights: bytes) -> bytes:
    """The bytes of a card with the digests of the weights and of the card itself."""
    card = json.loads(to_json(card))  # as it is read back: tuples become lists
    card |= {"version": VERSION}
    card[SEAL] = {"weights": sha256(weights)}
    card[SEAL]["card"] = _digest(card)
    return to_json(card)


def _digest(card: dict[str, Any]) -> str:
    """The digest of a card without its own digest."""
    return json_digest({**card, SEAL: card[SEAL]["weights"]})


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Replace the card of a policy's folder."""
    write_atomically(folder / CARD, _sealed(card, read_regular(folder / WEIGHTS)))


def read_card(folder: Path) -> dict[str, Any]:
    """The content of `policy.json`, with the policy's provenance."""
    path = folder / CARD
    card = read_json(path, "policy description")
    if card.get("format") != FORMAT:
        raise InputError(
            f'{path} does not describe a sagewing policy: its "format" is not "{FORMAT}".'
        )
    version = card.get("version")
    if type(version) is not int or version not in (UNSEALED, VERSION):
        raise InputError(
            f"{path} has version {_shortened(repr(version))}; this sagewing reads {UNSEALED} and "
            f"{VERSION}."
        )
    if not isinstance(card.get("provenance", {}), dict):
        raise InputError(f'{path}: "provenance" must be a JSON object.')
    if version == VERSION or SEAL in card or folder.parent == SHIPPED:
        seal = card.get(SEAL)
        seal = seal if isinstance(seal, dict) and seal.keys() == {"weights", "card"} else None
        if seal is None or seal["card"] != _digest(card):
            raise InputError(
                f'{path} is damaged or was edited: its "{SEAL}" is not that of its content. Copy '
                f'it again; after an edit of your own, remove "{SEAL}" and set "version" to '
                f"{UNSEALED}."
            )
    return card


def _load(expected: type[P], folder: Path) -> P:
    if not folder.is_dir():
        raise InputError(f"There is no policy folder at {folder}.")
    card = read_card(folder)
    kinds: dict[Any, Any] = {cls.kind: cls for cls in (expected, *expected.variants)}
    if not isinstance(card.get("kind"), str) or card["kind"] not in kinds:
        raise InputError(
            f"{folder / CARD} has the kind {_shortened(repr(card.get('kind')))}; "
            + f"{expected.__name__}.load reads "
            + " or ".join(f'"{kind}"' for kind in kinds)
            + "."
        )
    try:
        skeleton = eqx.filter_eval_shape(lambda: kinds[card["kind"]].from_card(card))
    except KeyError as error:
        raise InputError(f"{folder / CARD} is damaged: it lacks {error}.") from None
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise InputError(f"{folder / CARD} is damaged: {kind}{_shortened(str(error))}") from None
    _check_count(skeleton, folder / CARD)
    digest = card[SEAL]["weights"] if SEAL in card else None
    learned = tensors.from_file(folder / WEIGHTS, skeleton, digest)
    for name, array in tensors.named_arrays(learned).items():
        if not np.all(np.abs(array) <= LARGEST_WEIGHT):
            raise InputError(
                f"{folder / WEIGHTS}: tensor {name!r} holds NaN, infinite numbers or numbers "
                f"beyond {LARGEST_WEIGHT:g}; train the policy again."
            )
    return learned


def _check_count(learned: Stored, place: Path) -> None:
    """Refuse more weights than any policy has, both on writing and on reading."""
    count = sum(array.size for array in tensors.named_arrays(learned).values())
    if count > MOST_WEIGHTS:
        raise InputError(f"{place}: a policy of {count} weights; at most {MOST_WEIGHTS} are read.")


def _shortened(text: str) -> str:
    """A text from a file, shortened for a message."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def number(value: Any) -> float:
    """A number in a card; raises a ValueError for anything else."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


def numbers(value: Any, longest: int) -> tuple[float, ...]:
    """A list of numbers in a card; raises a ValueError for anything else."""
    if not isinstance(value, list) or len(value) > longest:
        raise ValueError(f"{value!r} is not a list of at most {longest} numbers")
    return tuple(number(item) for item in value)


def folder_of(name: str) -> Path:
    """The folder with this path, or the shipped one with this name."""
    path = Path(name)
    return path if path.is_dir() or len(path.parts) > 1 else _shipped(name)


def _shipped(name: str) -> Path:
    """The folder of a learned part that ships with the package."""
    name = SHORT_NAMES.get(name, name)
    known = (
        sorted(p.name for p in SHIPPED.iterdir() if (p / CARD).exists()) if SHIPPED.is_dir() else []
    )
    if name not in known:
        known = sorted(SHORT_NAMES) + known
        raise InputError(f"There is no shipped policy {name!r}; known: {', '.join(known)}.")
    return SHIPPED / name
