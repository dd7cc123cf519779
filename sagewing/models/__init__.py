"""Models of systems: the base class that a user extends, and examples."""

from sagewing.models import manifolds, rotations
from sagewing.models.angles import wrap_angle
from sagewing.models.constant_velocity import ConstantVelocity
from sagewing.models.continuous import ContinuousModel
from sagewing.models.delay import with_delay
from sagewing.models.drift import with_drift
from sagewing.models.error_state import ErrorState
from sagewing.models.lorenz import Lorenz
from sagewing.models.manifolds import ManifoldModel
from sagewing.models.model import Model
from sagewing.models.quadrotor import (
    CRAZYFLIE,
    QDRONE,
    QuadrotorDrag,
    QuadrotorDynamic,
    QuadrotorKinematic,
    Vehicle,
)
from sagewing.models.rossler import Rossler
from sagewing.models.switched import Switched
from sagewing.models.thomas import Thomas

__all__ = [
    "CRAZYFLIE",
    "QDRONE",
    "ConstantVelocity",
    "ContinuousModel",
    "ErrorState",
    "Lorenz",
    "ManifoldModel",
    "Model",
    "QuadrotorDrag",
    "QuadrotorDynamic",
    "QuadrotorKinematic",
    "Rossler",
    "Switched",
    "Thomas",
    "Vehicle",
    "manifolds",
    "rotations",
    "with_delay",
    "with_drift",
    "wrap_angle",
]
