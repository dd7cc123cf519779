"""The estimates of filters on one record, for pages and files: plain arrays, time first."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sagewing.logs.flight import Pose, Times, Vectors


@dataclass(frozen=True)
class Track:
    """One filter's estimates; None for what it does not provide."""

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
    """What all filters were given, the truth if there is one, and their estimates; t from 0."""

    name: str
    t: Times
    measured: Pose  # NaN where no pose arrived
    arrived: Times  # how many channels arrived in each step: the NIS's degrees of freedom
    truth: Pose | None
    outages: tuple[tuple[float, float], ...]
    tracks: tuple[Track, ...]
