"""The claims about the universal policy, checked on the rows of its benchmark."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sagewing.studies.universal import LEARNED, PAIRED_RATIO, UNTRAINED, geometric

# The limits of the claims in `checks`.
ALL, RIGHT, BEHIND, BEST = 1.10, 1.03, 1.10, 0.8


class Check(NamedTuple):
    """A claim, the measured number, its limit `bar`, and whether the claim holds."""

    claim: str
    number: float
    bar: float
    holds: bool


def checks(rows: Sequence[dict[str, Any]]) -> list[Check]:
    """The claims about the policy, checked on the cells (systems and cases) of a benchmark."""
    cells = cells_of(rows)
    ours = {cell: by[LEARNED]["ratio"] for cell, by in cells.items()}
    overall = geometric(list(ours.values()))
    right = geometric([ratio for (_, case), ratio in ours.items() if case == "right"])
    behind = max(
        ours[cell] / min(by["ekf"]["ratio"], by["shkf99"]["ratio"]) for cell, by in cells.items()
    )
    best = win_counts(rows).smallest / len(cells)
    return [
        Check("geometric mean over all cells, at most", overall, ALL, overall <= ALL),
        Check("geometric mean where the nominal is right, at most", right, RIGHT, right <= RIGHT),
        Check(
            "worst cell against the better of EKF and Sage-Husa 0.99, at most",
            behind,
            BEHIND,
            behind <= BEHIND,
        ),
        Check("share of cells best of all untrained, at least", best, BEST, best >= BEST),
    ]


class WinCounts(NamedTuple):
    """In how many cells the policy beats all untrained filters, loses to one, or does neither.

    `ahead` and `behind` count differences that are significant at 95%, by the paired ratios of a
    cell's runs. `smallest` counts the cells in which its ratio is the smallest by any margin.
    """

    ahead: int
    level: int
    behind: int
    smallest: int


def win_counts(rows: Sequence[dict[str, Any]]) -> WinCounts:
    """Count the cells, comparing the policy with every untrained filter."""
    ahead = behind = smallest = 0
    _, low, high = PAIRED_RATIO
    cells = cells_of(rows).values()
    for by in cells:
        others = [by[name] for name in UNTRAINED]
        ahead += all(row[high] < 1.0 for row in others)
        behind += any(not row[low] <= 1.0 for row in others)  # NaN is not level
        smallest += by[LEARNED]["ratio"] <= min(row["ratio"] for row in others)
    return WinCounts(ahead, len(cells) - ahead - behind, behind, smallest)


def cells_of(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """The row of every filter, by system and case."""
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["system"], row["case"]), {})[row["filter"]] = row
    return cells
