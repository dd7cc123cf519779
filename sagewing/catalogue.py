"""Every filter by name: its label, its colour, how it is built, what it needs.

All commands, tables, pages and help texts read this list. Add a filter of your own before the
command line's `main` is called:

    from sagewing import catalogue
    from sagewing.cli.main import main

    catalogue.add(
        catalogue.CatalogueEntry(
            "mine", "My filter", "#117733", lambda model, Q0, R0, learned: Mine(model, Q0, R0)
        )
    )
    main()

Then `bench chaos --filters ekf,mine` has a row of it; with `shown_by=(catalogue.CHAOS,)` it has one
by default. The noise over time of an entry that `adapts` is drawn, if its steps have q, r and d.
"""

import colorsys
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sagewing.errors import InputError
from sagewing.filters import (
    EKF,
    ENNAKF,
    LEKF,
    VBAKF,
    Bank,
    Filter,
    KalmanNet,
    NDRSageHusa,
    RobustEKF,
    SageHusa,
)
from sagewing.filters.protocols import TrainedPolicy
from sagewing.models import Model
from sagewing.policy import Network, Noise, Policy, Universal
from sagewing.policy.filter_settings import StoredPolicy
from sagewing.policy.ndr.untrained import untrained
from sagewing.policy.storage import Stored
from sagewing.shapes import Numbers

# The gate of the gated EKF and of the flight policies, in standard deviations.
GATE = 3.0
# Names that studies and tables refer to.
ORACLE, SHARED, UNIVERSAL = "ekf-oracle", "ndr-shared", "ndr-universal"
GATED, ROBUST, BANK = "ekf-nominal-gated", "ekf-robust", "bank"
ONBOARD, DEAD_RECKONING = "onboard", "imu-only"
# What the row of a filter's smoothed estimates has after the filter's name.
SMOOTHED = "-smoothed"
# Commands with a default selection of filters.
CHAOS, FLIGHT, DEMO = "bench chaos", "bench flight", "demo"

# Builds a filter from a model, Q0, R0 and the filter's learned part or None.
Builder = Callable[[Model, Any, Any, Any], Filter]


@dataclass(frozen=True)
class CatalogueEntry:
    """A filter, or a reference row of a table.

    `build` builds the filter; if it is None, `not_built` gives the reason. `needs` is the class of
    the learned part: `Noise` replaces Q0 and R0 and may be absent, any other is required. `adapts`:
    an attenuation rule re-estimates q and r at every step, as in the Sage-Husa filters and the
    NDR-SHKF. `modes`: the filter supports models with several modes. `shown_by`: the commands
    whose table shows it by default.
    """

    name: str
    label: str
    colour: str
    build: Builder | None
    needs: type[Stored] | None = None
    adapts: bool = False
    modes: bool = False
    shown_by: tuple[str, ...] = ()
    not_built: str = ""


def _sage_husa(
    name: str, b: float, colour: str, *shown_by: str, posterior: bool = False
) -> CatalogueEntry:
    return CatalogueEntry(
        name,
        f"Sage-Husa {b}{', posterior' if posterior else ''}",
        colour,
        lambda model, Q0, R0, learned: SageHusa(
            model, Q0, R0, b=b, gain_noise="posterior" if posterior else "prior"
        ),
        adapts=True,
        modes=True,
        shown_by=shown_by,
    )


def _ndr(name: str, label: str, colour: str, needs: type[Stored], *shown_by: str) -> CatalogueEntry:
    return CatalogueEntry(
        name,
        label,
        colour,
        lambda model, Q0, R0, learned: NDRSageHusa(model, Q0, R0, learned),
        needs=needs,
        adapts=True,
        modes=True,
        shown_by=shown_by,
    )


def _ekf(
    name: str,
    label: str,
    colour: str,
    *shown_by: str,
    gate: float | None = None,
    needs: type[Stored] | None = None,
) -> CatalogueEntry:
    return CatalogueEntry(
        name,
        label,
        colour,
        lambda model, Q0, R0, learned: EKF(model, Q0, R0, gate=gate),
        needs=needs,
        modes=True,
        shown_by=shown_by,
    )


def _network(
    name: str, label: str, colour: str, kind: Callable[[Model, Any, Any, Any], Any]
) -> CatalogueEntry:
    return CatalogueEntry(name, label, colour, kind, needs=Network, shown_by=(CHAOS,))


def _reference(
    name: str, label: str, colour: str, not_built: str, *shown_by: str
) -> CatalogueEntry:
    return CatalogueEntry(name, label, colour, None, not_built=not_built, shown_by=shown_by)


# In the order of the tables. The colours are Okabe and Ito's palette, which colour-blind readers
# can distinguish; a variant is darker.
_BUILT_IN = (
    _ekf("ekf", "EKF", "#0072B2", CHAOS, FLIGHT, DEMO),
    _sage_husa("shkf95", 0.95, "#E69F00", CHAOS),
    _sage_husa("shkf99", 0.99, "#CC79A7", CHAOS),
    _sage_husa("shkf95-posterior", 0.95, "#9C6B00", CHAOS, posterior=True),
    _sage_husa("shkf99-posterior", 0.99, "#8C4A6E", CHAOS, posterior=True),
    _sage_husa("shkf995", 0.995, "#C9A400", FLIGHT, DEMO),
    _sage_husa("shkf999", 0.999, "#8E5BB5", FLIGHT, DEMO),
    CatalogueEntry(
        "vbakf",
        "VBAKF",
        "#009E73",
        lambda model, Q0, R0, learned: VBAKF(model, Q0, R0),
        shown_by=(CHAOS,),
    ),
    _ekf(GATED, "EKF, gated", "#66A9CF", CHAOS, gate=GATE),
    CatalogueEntry(
        ROBUST,
        "EKF, Student-t",
        "#4D7F17",
        lambda model, Q0, R0, learned: RobustEKF(model, Q0, R0),
        modes=True,
        shown_by=(CHAOS, FLIGHT),
    ),
    CatalogueEntry(
        BANK,
        "bank of 25 EKFs",
        "#6A5ACD",
        lambda model, Q0, R0, learned: Bank.grid(model, Q0, R0),
        modes=True,
        shown_by=(CHAOS, FLIGHT),
    ),
    _ekf("ekf-tuned", "EKF, tuned", "#003F66", CHAOS, FLIGHT, DEMO, needs=Noise),
    _ekf("ekf-gated", "EKF, tuned, gated", "#1B9E77", FLIGHT, DEMO, gate=GATE, needs=Noise),
    _network("enn-akf", "ENN-AKF", "#56B4E9", ENNAKF),
    _network("l-ekf", "L-EKF", "#B8AE1F", LEKF),
    _network("kalmannet", "KalmanNet", "#999999", KalmanNet),
    _ndr("ndr", "NDR-SHKF", "#D55E00", Policy, CHAOS, FLIGHT, DEMO),
    _ndr("ndr-posterior", "NDR-SHKF, posterior", "#8B1A00", Policy, CHAOS),
    _ndr(SHARED, "NDR-SHKF, shared network", "#D6457B", Universal, CHAOS, FLIGHT, DEMO),
    _ndr("ndr-paper", "NDR-SHKF, as in the paper", "#F2A07B", Policy),
    _ndr(UNIVERSAL, "universal", "#E8743B", Universal, FLIGHT),
    CatalogueEntry(
        "ndr-untrained",
        "NDR-SHKF, every d = 1/2",
        "#C7B299",
        lambda model, Q0, R0, learned: NDRSageHusa(model, Q0, R0, untrained(Q0, R0)),
        adapts=True,
        modes=True,
    ),
    _reference(
        ORACLE,
        "EKF, oracle",
        "#444444",
        "it needs the true noise of every step, which only a simulation knows",
        CHAOS,
    ),
    _reference(ONBOARD, "vehicle's own", "#7F7F7F", "it is the estimate that the vehicle logged"),
    _reference(DEAD_RECKONING, "IMU alone", "#A0522D", "it integrates the IMU from a true state"),
)
_entries: dict[str, CatalogueEntry] = {entry.name: entry for entry in _BUILT_IN}


def add(entry: CatalogueEntry) -> None:
    """Add a filter; its name must be new."""
    if entry.name in _entries:
        raise InputError(f"There is a filter {entry.name!r} already; choose another name.")
    if entry.name == "truth" or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", entry.name):
        raise InputError(
            "A filter's name has lowercase letters, digits and hyphens, and is not truth; got "
            f"{entry.name!r}."
        )
    if not re.fullmatch("#[0-9A-Fa-f]{6}", entry.colour):
        raise InputError(f"The colour of {entry.name} must be like #117733; got {entry.colour!r}.")
    if entry.build is None and not entry.not_built:
        raise InputError(f"{entry.name} has neither `build` nor a reason in `not_built`.")
    _entries[entry.name] = entry


def find(name: str) -> CatalogueEntry | None:
    """The entry of this name, or None; a filter's smoothed estimates have its label and hue."""
    if not is_smoothed(name):
        return _entries.get(name)
    own = _entries.get(name.removesuffix(SMOOTHED))
    if own is None:
        return None
    return CatalogueEntry(
        name,
        f"{own.label}, smoothed",
        _variant(own.colour),
        None,
        not_built=f"it is the smoothed estimate of {own.name}, which --smooth adds",
    )


def smoothed(name: str) -> str:
    """The name of a filter's smoothed estimates."""
    return name + SMOOTHED


def is_smoothed(name: str) -> bool:
    """Whether a row's name is that of smoothed estimates."""
    return name not in _entries and name.endswith(SMOOTHED)


def _variant(colour: str) -> str:
    """A lighter colour of the same hue, or of a light colour a darker one."""
    parts = (int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(*parts)
    lightness += 0.25 if lightness < 0.45 else -0.25
    return "#" + "".join(
        f"{round(255 * part):02X}" for part in colorsys.hls_to_rgb(hue, lightness, saturation)
    )


def entry(name: str) -> CatalogueEntry:
    """The entry of this name; refuses an unknown name."""
    found = find(name)
    if found is None:
        raise InputError(f"There is no filter {name!r}; known: {', '.join(buildable())}.")
    return found


def entries() -> tuple[CatalogueEntry, ...]:
    """All entries, in the order of the tables."""
    return tuple(_entries.values())


def buildable() -> tuple[str, ...]:
    """The names of all filters that can be built from a model, its noise and a learned part."""
    return tuple(e.name for e in entries() if e.build is not None)


def shown_by(command: str) -> tuple[str, ...]:
    """The names of the rows that a command's table shows by default."""
    return tuple(e.name for e in entries() if command in e.shown_by)


def check(name: str) -> CatalogueEntry:
    """The entry of this name; refuses one that cannot be built, with the reason."""
    checked = entry(name)
    if checked.build is None:
        raise InputError(f"{name} cannot be built: {checked.not_built}.")
    return checked


def check_names(names: Sequence[str], also: Sequence[str] = ()) -> None:
    """Refuse a name that is unknown or cannot be built, unless it is one of `also`."""
    if not names:
        raise InputError(f"Give at least one filter; known: {', '.join(buildable())}.")
    for name in names:
        if name not in also:
            check(name)


def build(
    name: str,
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    learned: Any = None,
    *,
    own_noise: bool = True,
) -> Filter:
    """The filter of this name.

    Learned noise variances replace Q0 and R0, unless `own_noise` is False.
    """
    chosen = check(name)
    assert chosen.build is not None
    _check_learned(chosen, learned)
    if model.modes > 1 and not chosen.modes:
        raise InputError(f"{name} has no modes: choose another filter for this model.")
    own = learned_noise(learned) if own_noise else None
    Q0, R0 = (Q0, R0) if own is None else (own.q, own.r)
    return chosen.build(model, Q0, R0, learned)


def learned_noise(learned: Any) -> Noise | None:
    """Learned noise variances: tuned ones, or a policy's nominal ones; None if there are none."""
    if isinstance(learned, StoredPolicy):
        return learned.nominal
    return learned if isinstance(learned, Noise) else None


def _check_learned(chosen: CatalogueEntry, learned: Any) -> None:
    name, needs = chosen.name, chosen.needs
    if needs is None or needs is Noise:
        if not (learned is None or isinstance(learned, Noise)):
            raise InputError(f"{name} takes no policy; give none, or choose --filter ndr.")
        return
    is_policy = issubclass(needs, StoredPolicy)
    if not isinstance(learned, TrainedPolicy if is_policy else needs):
        what = "a policy" if is_policy else f"a network for {name}"
        raise InputError(f"--filter {name} needs {what}: a folder of `sagewing train`, or a name.")
