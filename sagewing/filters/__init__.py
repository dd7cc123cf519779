"""Filters: the recursion, its rules, the other filters, and running them."""

from sagewing.filters.attenuation import Fading, Frozen, Gated, PerPredictionStep
from sagewing.filters.bank import Bank
from sagewing.filters.chunks import LongSmoothing, smooth_long
from sagewing.filters.enn_akf import ENNAKF
from sagewing.filters.filter_state import FilterState
from sagewing.filters.gain_networks import LEKF, KalmanNet
from sagewing.filters.linearizations import Iterated, Unscented
from sagewing.filters.named import EKF, NDRSageHusa, SageHusa, per_prediction_step
from sagewing.filters.oracle import OracleEKF
from sagewing.filters.protocols import AttenuationPolicy, Filter, Rule
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.rules import AttenuationRule
from sagewing.filters.run import Result, Saved, run, run_from, run_saving, run_smoothing, smooth
from sagewing.filters.smoother import History, Smoothed
from sagewing.filters.step import (
    Attenuation,
    Estimate,
    RememberedNoise,
    Step,
    StepInfo,
    StepNoise,
)
from sagewing.filters.student import RobustEKF
from sagewing.filters.vbakf import VBAKF

__all__ = [
    "EKF",
    "ENNAKF",
    "LEKF",
    "VBAKF",
    "AdaptiveFilter",
    "Attenuation",
    "AttenuationPolicy",
    "AttenuationRule",
    "Bank",
    "Estimate",
    "Fading",
    "Filter",
    "FilterState",
    "Frozen",
    "Gated",
    "History",
    "Iterated",
    "KalmanNet",
    "LongSmoothing",
    "NDRSageHusa",
    "OracleEKF",
    "PerPredictionStep",
    "RememberedNoise",
    "Result",
    "RobustEKF",
    "Rule",
    "SageHusa",
    "Saved",
    "Smoothed",
    "Step",
    "StepInfo",
    "StepNoise",
    "Unscented",
    "per_prediction_step",
    "run",
    "run_from",
    "run_saving",
    "run_smoothing",
    "smooth",
    "smooth_long",
]
