"""The sizes of a policy network."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from sagewing.errors import InputError
from sagewing.policy.ndr.features import FEATURES, FeatureName

# A size beyond this means a damaged file or a typing error.
LARGEST = 4096
DEEPEST = 64


@dataclass(frozen=True)
class Architecture:
    """The sizes of a network; the defaults are the paper's for the chaotic systems."""

    n_x: int
    n_z: int
    features: FeatureName = "whitened"
    clip: float = 10.0
    depth: int = 3
    hidden: int = 32
    encoder: tuple[int, ...] = (32, 16)
    context: tuple[int, ...] = (32, 32)
    head: tuple[int, ...] = (16, 16)
    decoder: tuple[int, ...] = (16, 32)

    def __post_init__(self) -> None:
        """Refuse invalid sizes."""
        if self.features not in FEATURES:
            raise InputError(
                f"features must be one of {', '.join(FEATURES)}; got {self.features!r}."
            )
        for name in ("encoder", "context", "head", "decoder"):
            sizes = getattr(self, name)
            if not isinstance(sizes, (tuple, list)) or len(sizes) > DEEPEST:
                raise InputError(f"{name} must be the sizes of 1..{DEEPEST} layers; got {sizes}.")
            if not sizes or min(sizes) < 1 or max(sizes) > LARGEST:
                raise InputError(
                    f"{name} needs at least one layer of 1..{LARGEST} neurons; got {sizes}."
                )
        for name, largest in (
            ("n_x", LARGEST),
            ("n_z", LARGEST),
            ("hidden", LARGEST),
            ("depth", DEEPEST),
        ):
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= largest:
                raise InputError(f"{name} must lie in 1..{largest}; got {getattr(self, name)}.")
        if not 0.0 < self.clip < math.inf:
            raise InputError(f"clip must be positive; got {self.clip}.")

    @property
    def n_y(self) -> int:
        """The number of features."""
        return FEATURES[self.features].size(self.n_x, self.n_z)

    def card(self) -> dict[str, Any]:
        """The sizes as plain JSON; the clip of the features has its own key."""
        sizes = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"normalisation": {"clip": sizes.pop("clip")}, "architecture": sizes}

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "Architecture":
        """The sizes in a card; refuses a missing key or a wrong type."""
        sizes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in card["architecture"].items()
        }
        missing = {f.name for f in fields(cls)} - sizes.keys() - {"clip"}
        if missing:
            raise KeyError(f"architecture.{min(missing)}")
        for name, value in sizes.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if name != "features" and any(type(n) is not int for n in numbers):
                raise ValueError(f"{name} is {value!r}")
        clip = card["normalisation"]["clip"]
        if type(clip) not in (int, float):
            raise ValueError(f"clip is {clip!r}")
        return cls(**sizes, clip=float(clip))

    @classmethod
    def flight(cls, n_x: int = 19, n_z: int = 6) -> "Architecture":
        """The paper's sizes for the UAV: the same core and a wider head."""
        return cls(n_x=n_x, n_z=n_z, head=(32, 32))
