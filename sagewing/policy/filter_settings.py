"""The settings of the filter that a policy was trained in."""

from typing import Any, NamedTuple

import equinox as eqx

from sagewing.filters import checks
from sagewing.filters.protocols import GainNoise
from sagewing.policy.noise import Noise
from sagewing.policy.storage import Stored, number, numbers

MOST_MODES = 64  # the most modes of a model; more mean a damaged file


class FilterSettings(NamedTuple):
    """The settings of a policy's filter: see `StoredPolicy`."""

    bounds: tuple[float, float]
    gain_noise: GainNoise
    nominal: Noise | None = None
    gate: float | None = None
    adapts_in: tuple[int, ...] | None = None

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "FilterSettings":
        """The settings in a policy's card."""
        inside = card["filter"]
        if not isinstance(inside["bounds"], list):
            raise ValueError(f"bounds is {inside['bounds']!r}")
        low, high = (number(b) for b in inside["bounds"])
        nominal = Noise.from_card(card["nominal"]) if "nominal" in card else None
        gate = number(inside["gate"]) if "gate" in inside else None
        modes = inside.get("adapts_in")
        modes = None if modes is None else tuple(int(mode) for mode in numbers(modes, MOST_MODES))
        return cls((low, high), inside["gain_noise"], nominal, gate, modes)


class StoredPolicy(Stored):
    """A policy with the settings of the filter that it was trained in.

    `bounds`, `gain_noise`, `gate`, `adapts_in` (the modes of a model in which the noise is adapted)
    and the `nominal` noise, if any, are the defaults of a filter with this policy.
    """

    bounds: tuple[float, float] = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)
    gate: float | None = eqx.field(static=True)
    adapts_in: tuple[int, ...] | None = eqx.field(static=True)
    nominal: Noise | None

    def __init__(self, inside: FilterSettings):
        checks.adaptation(inside.bounds, inside.gain_noise)
        if inside.gate is not None:
            checks.gate(inside.gate)
        self.bounds = inside.bounds
        self.gain_noise = inside.gain_noise
        self.gate = inside.gate
        self.adapts_in = inside.adapts_in
        self.nominal = inside.nominal

    def card(self) -> dict[str, Any]:
        """What `FilterSettings.from_card` reads."""
        inside: dict[str, Any] = {"bounds": list(self.bounds), "gain_noise": self.gain_noise}
        if self.gate is not None:
            inside["gate"] = self.gate
        if self.adapts_in is not None:
            inside["adapts_in"] = list(self.adapts_in)
        base = {} if self.nominal is None else {"nominal": self.nominal.card()}
        return {"filter": inside, **base}
