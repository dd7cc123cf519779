"""Adaptive state estimation: EKF, Sage-Husa and learned noise adaptation for any f and h."""

from sagewing import models
from sagewing.deploy.online import Online
from sagewing.deploy.records import run, run_from
from sagewing.errors import InputError
from sagewing.filters import (
    EKF,
    ENNAKF,
    LEKF,
    VBAKF,
    KalmanNet,
    NDRSageHusa,
    OracleEKF,
    Result,
    SageHusa,
)
from sagewing.models import ContinuousModel, Model
from sagewing.policy import Architecture, Embedded, Network, Noise, Policy, Tiled

__version__ = "0.1.0"

__all__ = [
    "EKF",
    "ENNAKF",
    "LEKF",
    "VBAKF",
    "Architecture",
    "ContinuousModel",
    "Embedded",
    "InputError",
    "KalmanNet",
    "Model",
    "NDRSageHusa",
    "Network",
    "Noise",
    "Online",
    "OracleEKF",
    "Policy",
    "Result",
    "SageHusa",
    "Tiled",
    "models",
    "run",
    "run_from",
]
