"""Filters: the recursion, its attenuation rules, and running them."""

from sagewing.filters.enn_akf import ENNAKF
from sagewing.filters.gain_networks import LEKF, KalmanNet
from sagewing.filters.named import EKF, NDRSageHusa, SageHusa
from sagewing.filters.oracle import OracleEKF
from sagewing.filters.recursion import AdaptiveFilter, Estimate, FilterState
from sagewing.filters.rules import Attenuation, Fading, Frozen, Learned, Rule, Seen
from sagewing.filters.run import Result, run, run_from, scan
from sagewing.filters.vbakf import VBAKF

__all__ = [
    "EKF",
    "ENNAKF",
    "LEKF",
    "VBAKF",
    "AdaptiveFilter",
    "Attenuation",
    "Estimate",
    "Fading",
    "FilterState",
    "Frozen",
    "KalmanNet",
    "Learned",
    "NDRSageHusa",
    "OracleEKF",
    "Result",
    "Rule",
    "SageHusa",
    "Seen",
    "run",
    "run_from",
    "scan",
]
