"""The defaults of `sagewing train flight`: the paper's, and those for own logs."""

from dataclasses import dataclass
from typing import Any, Literal

from sagewing.errors import InputError
from sagewing.policy import Noise
from sagewing.problems.flight.attitude import NOMINAL, Attitude
from sagewing.problems.flight.setup import PoseNoise
from sagewing.train.flight import EPOCHS


@dataclass(frozen=True)
class FlightDefaults:
    """The settings whose defaults differ between the paper's training and own logs."""

    epochs: int
    batch: int
    shortest: int
    longest: int
    learning_rate: float
    aux_weight: float
    noise: PoseNoise
    imu: Literal["paper", "as-flown"]


PAPER = FlightDefaults(EPOCHS, 128, 20, 300, 1e-3, 0.1, "paper", "paper")
# The settings of the shipped filters, with the pose noise of a good positioning system.
OWN = FlightDefaults(40, 64, 500, 500, 2e-3, 3e-4, "good", "as-flown")


def begin_from(noise: Noise, folder: str, attitude: Attitude) -> dict[str, Any]:
    """The settings of a training that starts from this noise."""
    _, Q0, R0 = NOMINAL[attitude]
    if noise.q.shape != Q0.shape or noise.r.shape != R0.shape:
        raise InputError(
            f"{folder} holds the noise of another model, of {noise.q.size} states; --attitude "
            f"{attitude} needs {Q0.size}: see sagewing tune flight."
        )
    return {
        "nominal_q": tuple(noise.q.tolist()),
        "nominal_r": tuple(tuple(row) for row in noise.r.tolist()),
    }
