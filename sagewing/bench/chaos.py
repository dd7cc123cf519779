"""The chaotic systems: every filter on the same records, from the same starts."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sagewing.bench.metrics import rmse_over_time, summary
from sagewing.filters import EKF, NDRSageHusa, Result, SageHusa, run
from sagewing.models import Model
from sagewing.policy import Policy
from sagewing.sim.chaos import DT, Q_BASE, R_BASE, SYSTEMS, Episodes, Protocol, episodes

FILTERS = ("ekf", "shkf95", "shkf99", "ndr")


@dataclass(frozen=True)
class Comparison:
    """The filters' runs on one system: the records, the results by filter, and their rows."""

    system: str
    records: Episodes
    results: dict[str, Result]
    rows: list[dict[str, Any]]


def build(name: str, model: Model, policy: Policy) -> Any:
    """A filter by its name in tables and options."""
    if name == "ekf":
        return EKF(model, Q_BASE, R_BASE)
    if name == "ndr":
        return NDRSageHusa(model, Q_BASE, R_BASE, policy)
    return SageHusa(model, Q_BASE, R_BASE, b=float(f"0.{name.removeprefix('shkf')}"))


def compare(
    system: str,
    protocol: Protocol,
    policy: Policy,
    *,
    seed: int,
    runs: int,
    steps: int,
    filters: tuple[str, ...] = FILTERS,
) -> Comparison:
    """Run the filters over `runs` records of one system."""
    chosen = SYSTEMS[system]
    records = episodes(jax.random.key(seed), chosen, protocol, runs, steps)
    truth = np.asarray(records.truth, np.float64)
    results, rows = {}, []
    for name in filters:
        filt = build(name, chosen.model(protocol), policy)
        results[name] = run(filt, records.x0, records.P0, records.z, dt=DT)
        errors = summary(rmse_over_time(np.asarray(results[name].x), truth))
        row = {"filter": name, "system": system, "runs": runs, "steps": steps}
        rows.append({**row, **errors._asdict()})
    return Comparison(system, records, results, rows)
