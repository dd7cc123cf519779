"""What filters made of one record, as a page or a file shows it: plain arrays, time first."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sagewing.logs.flight import Pose, Times, Vectors


@dataclass(frozen=True)
class Track:
    """One filter's estimates; None for what it does not say."""

    name: str  # as in `--filters`
    pose: Pose
    position_std: Vectors | None = None  # m
    attitude_std: Vectors | None = None  # rad, a small rotation in the body
    nis: Times | None = None  # NaN where nothing arrived
    q: Float[np.ndarray, "T n_x"] | None = None
    r: Float[np.ndarray, "T n_z"] | None = None
    d: Float[np.ndarray, "T n_d"] | None = None


@dataclass(frozen=True)
class Scene:
    """What all filters were shown, and the truth where there is one; seconds from the start."""

    name: str
    t: Times
    measured: Pose  # NaN where no pose arrived
    arrived: Times  # how many channels did, at each step: the degrees of freedom of a NIS
    truth: Pose | None
    outages: tuple[tuple[float, float], ...]
    tracks: tuple[Track, ...]
