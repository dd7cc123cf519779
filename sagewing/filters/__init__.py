"""Filters: the recursion, its attenuation rules, and running them."""

from sagewing.filters.named import EKF, NDRSageHusa, SageHusa
from sagewing.filters.recursion import AdaptiveFilter, Estimate, FilterState
from sagewing.filters.rules import Attenuation, Fading, Frozen, Learned, Rule, Seen
from sagewing.filters.running import Result, run, run_from, scan

__all__ = [
    "EKF",
    "AdaptiveFilter",
    "Attenuation",
    "Estimate",
    "Fading",
    "FilterState",
    "Frozen",
    "Learned",
    "NDRSageHusa",
    "Result",
    "Rule",
    "SageHusa",
    "Seen",
    "run",
    "run_from",
    "scan",
]
