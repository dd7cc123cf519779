"""A learned policy in a filter of another domain: flight to chaos, and chaos to flight."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sagewing import catalogue
from sagewing.filters import NDRSageHusa
from sagewing.filters.protocols import GainNoise
from sagewing.logs import Flight
from sagewing.policy import Embedded, Policy, Tiled
from sagewing.policy.ndr.untrained import untrained
from sagewing.problems.chaos import Q_BASE, R_BASE, SYSTEMS, Protocol
from sagewing.studies import chaos, flight
from sagewing.train.chaos import ChaosTraining

# (z_off, x_off); paper, table "Cross-Dynamics Transfer Benchmark"
COUPLED = ((0, 0), (1, 4), (2, 8), (3, 12), (4, 16))
DECOUPLED = ((3, 0), (3, 8), (3, 16))
OFFSETS = (*COUPLED, *DECOUPLED)
FROM_FLIGHT, FROM_CHAOS = "ndr-from-flight", "ndr-from-chaos"
UNTRAINED = "ndr-untrained"

# Of the filter that runs a transferred policy, in both directions: as in the chaos filter.
BOUNDS = ChaosTraining().bounds


def native(gain_noise: GainNoise) -> str:
    """The catalogue name of the policy that was trained on chaos with this gain noise."""
    return "ndr" if gain_noise == "prior" else f"ndr-{gain_noise}"


def untuned() -> tuple[str, ...]:
    """The EKF and the adaptive filters of the flight table that have no learned part."""
    entries = (catalogue.entry(name) for name in catalogue.shown_by(catalogue.FLIGHT))
    return tuple(e.name for e in entries if e.needs is None and (e.adapts or e.name == "ekf"))


def to_chaos(
    policy: Policy,
    system: str,
    protocol: Protocol,
    *,
    seed: int,
    runs: int,
    steps: int,
    offsets: Sequence[tuple[int, int]] = OFFSETS,
    bounds: tuple[float, float] = BOUNDS,
    gain_noise: GainNoise = "prior",
    report: Callable[[str], None] = lambda name: None,
) -> chaos.ChaosComparison:
    """A policy for a larger filter on a chaotic system, at every offset, with references.

    The references come first: the EKF, an untrained policy and the policy trained on chaos. Their
    rows have None for `z_off` and `x_off`.
    """
    chaos.check_names((native(gain_noise),), (system,))
    chosen = SYSTEMS[system]
    model = chosen.model(protocol, adaptive=True)
    filts = {
        "ekf": chaos.build("ekf", chosen, protocol),
        UNTRAINED: NDRSageHusa(
            model, Q_BASE, R_BASE, untrained(Q_BASE, R_BASE, bounds, gain_noise)
        ),
        native(gain_noise): chaos.build(native(gain_noise), chosen, protocol),
    }
    labels: dict[str, tuple[str, int | None, int | None]] = {
        name: (name, None, None) for name in filts
    }
    for z_off, x_off in offsets:
        name = f"{FROM_FLIGHT}, z_off={z_off}, x_off={x_off}"
        embedded = Embedded(policy, len(Q_BASE), len(R_BASE), x_off, z_off, bounds, gain_noise)
        filts[name] = NDRSageHusa(model, Q_BASE, R_BASE, embedded)
        labels[name] = (FROM_FLIGHT, z_off, x_off)
    comparison = chaos.compare_built(
        chosen, protocol, filts, seed=seed, runs=runs, steps=steps, report=report
    )
    rows = []
    for row in comparison.rows:
        name, z_off, x_off = labels[row["filter"]]
        rows.append({**row, "filter": name, "z_off": z_off, "x_off": x_off})
    return replace(comparison, rows=rows)


def to_flight(
    policy: Policy,
    scenario: str,
    flights: Sequence[Flight],
    *,
    home: Policy | None = None,
    references: Sequence[str] | None = None,
    seed: int = 0,
    seeds: int = 5,
    bounds: tuple[float, float] = BOUNDS,
    gain_noise: GainNoise = "prior",
    report: Callable[[str], None] = lambda name: None,
) -> list[dict[str, Any]]:
    """A policy for a smaller filter in the flight filter, with references.

    The references come first: the filters `references`, by default those of the flight table
    without a learned part, and the policy `home` that was trained on flights, if given.
    """
    references = untuned() if references is None else references
    draws: dict[str, Any] = {"seed": seed, "seeds": seeds, "attitude": "euler"}
    learned: dict[str, Any] = {}
    if home is not None:
        learned["ndr"] = home
    filters = [*references, *learned]
    native_rows = flight.compare(
        scenario, flights, filters=filters, learned=learned, report=report, **draws
    ).rows
    tiled = Tiled(policy, bounds=bounds, gain_noise=gain_noise)
    transferred = flight.compare(
        scenario,
        flights,
        filters=["ndr"],
        learned={"ndr": tiled},
        report=lambda name: report(FROM_CHAOS),
        **draws,
    )
    rows = [{**row, "filter": FROM_CHAOS} for row in transferred.rows if row["filter"] == "ndr"]
    return [row for row in native_rows if row["filter"] in filters] + rows
