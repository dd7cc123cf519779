"""The settings of the filter that a policy was trained in."""

from typing import Any, NamedTuple

import equinox as eqx

from sagewing.filters import checks
from sagewing.filters.protocols import Dense, GainNoise
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
    dense: Dense = False

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "FilterSettings":
        """The settings in a policy's card."""
        stored = card["filter"]
        if not isinstance(stored["bounds"], list):
            raise ValueError(f"bounds is {stored['bounds']!r}")
        low, high = (number(b) for b in stored["bounds"])
        nominal = Noise.from_card(card["nominal"]) if "nominal" in card else None
        gate = number(stored["gate"]) if "gate" in stored else None
        modes = stored.get("adapts_in")
        modes = None if modes is None else tuple(int(mode) for mode in numbers(modes, MOST_MODES))
        dense = stored.get("dense", False)
        if type(dense) is not bool and dense != "R":
            raise ValueError(f"dense is {dense!r}")
        return cls((low, high), stored["gain_noise"], nominal, gate, modes, dense)


class StoredPolicy(Stored):
    """A policy with the settings of the filter that it was trained in.

    `bounds`, `gain_noise`, `gate`, `adapts_in` (the modes of a model in which the noise is
    adapted), `dense` (which correlations are) and the `nominal` noise, if any, are the defaults
    of a filter with this policy.
    """

    bounds: tuple[float, float] = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)
    gate: float | None = eqx.field(static=True)
    adapts_in: tuple[int, ...] | None = eqx.field(static=True)
    dense: Dense = eqx.field(static=True)
    nominal: Noise | None

    def __init__(self, settings: FilterSettings):
        checks.adaptation(settings.bounds, settings.gain_noise, settings.dense)
        if settings.gate is not None:
            checks.gate(settings.gate)
        self.bounds = settings.bounds
        self.gain_noise = settings.gain_noise
        self.gate = settings.gate
        self.adapts_in = settings.adapts_in
        self.dense = settings.dense
        self.nominal = settings.nominal

    def card(self) -> dict[str, Any]:
        """What `FilterSettings.from_card` reads."""
        settings: dict[str, Any] = {"bounds": list(self.bounds), "gain_noise": self.gain_noise}
        if self.gate is not None:
            settings["gate"] = self.gate
        if self.adapts_in is not None:
            settings["adapts_in"] = list(self.adapts_in)
        if self.dense:
            settings["dense"] = self.dense
        nominal = {} if self.nominal is None else {"nominal": self.nominal.card()}
        return {"filter": settings, **nominal}
