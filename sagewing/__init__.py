"""Adaptive state estimation: EKF, Sage-Husa and learned noise adaptation for any f and h."""

from sagewing import models
from sagewing.deploy.online import Online
from sagewing.errors import InputError
from sagewing.filters import EKF, NDRSageHusa, Result, SageHusa, run, run_from
from sagewing.models import ContinuousModel, Model
from sagewing.policy import Architecture, Policy

__version__ = "0.1.0"

__all__ = [
    "EKF",
    "Architecture",
    "ContinuousModel",
    "InputError",
    "Model",
    "NDRSageHusa",
    "Online",
    "Policy",
    "Result",
    "SageHusa",
    "models",
    "run",
    "run_from",
]
