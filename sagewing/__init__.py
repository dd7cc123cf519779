"""Adaptive state estimation: EKF, Sage-Husa and learned noise adaptation for any f and h.

A name is imported at its first use, so that `sagewing --help` needs no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagewing import models as models
    from sagewing import train as train
    from sagewing.errors import InputError as InputError
    from sagewing.filters import EKF as EKF
    from sagewing.filters import ENNAKF as ENNAKF
    from sagewing.filters import LEKF as LEKF
    from sagewing.filters import VBAKF as VBAKF
    from sagewing.filters import AdaptiveFilter as AdaptiveFilter
    from sagewing.filters import Attenuation as Attenuation
    from sagewing.filters import AttenuationPolicy as AttenuationPolicy
    from sagewing.filters import AttenuationRule as AttenuationRule
    from sagewing.filters import Bank as Bank
    from sagewing.filters import Estimate as Estimate
    from sagewing.filters import Filter as Filter
    from sagewing.filters import Iterated as Iterated
    from sagewing.filters import KalmanNet as KalmanNet
    from sagewing.filters import NDRSageHusa as NDRSageHusa
    from sagewing.filters import OracleEKF as OracleEKF
    from sagewing.filters import RememberedNoise as RememberedNoise
    from sagewing.filters import Result as Result
    from sagewing.filters import RobustEKF as RobustEKF
    from sagewing.filters import Rule as Rule
    from sagewing.filters import SageHusa as SageHusa
    from sagewing.filters import Saved as Saved
    from sagewing.filters import Smoothed as Smoothed
    from sagewing.filters import Step as Step
    from sagewing.filters import StepInfo as StepInfo
    from sagewing.filters import StepNoise as StepNoise
    from sagewing.filters import Unscented as Unscented
    from sagewing.filters import smooth as smooth
    from sagewing.filters import smooth_long as smooth_long
    from sagewing.filters.reported import with_reported_noise as with_reported_noise
    from sagewing.models import ContinuousModel as ContinuousModel
    from sagewing.models import ManifoldModel as ManifoldModel
    from sagewing.models import Model as Model
    from sagewing.policy import Architecture as Architecture
    from sagewing.policy import Embedded as Embedded
    from sagewing.policy import Network as Network
    from sagewing.policy import Noise as Noise
    from sagewing.policy import Policy as Policy
    from sagewing.policy import Tiled as Tiled
    from sagewing.policy import Universal as Universal
    from sagewing.runtime.online import Online as Online
    from sagewing.runtime.run import run as run
    from sagewing.runtime.run import run_from as run_from

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "sagewing.runtime.online": ("Online",),
    "sagewing.runtime.run": ("run", "run_from"),
    "sagewing.errors": ("InputError",),
    "sagewing.filters": (
        *("EKF", "ENNAKF", "LEKF", "VBAKF", "KalmanNet", "NDRSageHusa", "OracleEKF"),
        *("Result", "SageHusa", "Saved", "Smoothed", "smooth", "smooth_long"),
        *("AdaptiveFilter", "Attenuation", "AttenuationPolicy", "AttenuationRule", "Estimate"),
        *("Filter", "RememberedNoise", "Rule", "Step", "StepInfo", "StepNoise"),
        *("Bank", "Iterated", "RobustEKF", "Unscented"),
    ),
    "sagewing.filters.reported": ("with_reported_noise",),
    "sagewing.models": ("ContinuousModel", "ManifoldModel", "Model"),
    "sagewing.policy": (
        "Architecture",
        "Embedded",
        "Network",
        "Noise",
        "Policy",
        "Tiled",
        "Universal",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("models", "train"):
        return import_module(f"sagewing.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sagewing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "models", "train", "__version__"])
