"""The error figures in a model card: of a filter on flights that it was not trained on."""

from pathlib import Path
from typing import Any

import numpy as np

from sagewing.policy.storage import read_card, write_card

Figures = dict[str, dict[str, float]]


def figures(rows: list[dict[str, Any]], name: str) -> Figures:
    """Means over flights and draws, and the median drift, in every scenario of `bench flight`."""
    by_scenario: Figures = {}
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        own = [row for row in rows if (row["filter"], row["scenario"]) == (name, scenario)]
        means = {e: float(np.mean([row[e] for row in own])) for e in ("pos_rmse_m", "att_rmse_rad")}
        drift = float(np.median([row["drift_m"] for row in own]))
        by_scenario[scenario] = means | {"drift_m": drift}
    return by_scenario


def add_figures(folder: Path, figures: dict[str, Any], not_for: str) -> None:
    """Write figures, and what the filter is not suited for, into a policy's card."""
    card = read_card(folder)
    card["provenance"] |= {"figures": figures, "not_for": not_for}
    write_card(folder, card)
