"""Latitude, longitude and altitude as metres east, north and up of a first fix (WGS84)."""

import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError

# WGS84: the semi-major axis and the flattening that define it.
SEMI_MAJOR_M = 6378137.0
FLATTENING = 1.0 / 298.257223563
ECCENTRICITY_2 = FLATTENING * (2.0 - FLATTENING)

# The standard deviations that a receiver states are limited to this range, in metres; and what is
# assumed where it states none: east, north, up.
STD_RANGE_M = (0.02, 20.0)
DEFAULT_STD_M = (1.5, 1.5, 3.0)

Geodetic = Float[np.ndarray, "n 3"]  # latitude and longitude in degrees, altitude in m
Vectors = Float[np.ndarray, "n 3"]


def earth_centred(fixes: Geodetic) -> Vectors:
    """X, Y, Z in metres from the centre of the earth."""
    latitude, longitude = np.radians(fixes[:, 0]), np.radians(fixes[:, 1])
    sine, cosine = np.sin(latitude), np.cos(latitude)
    normal = SEMI_MAJOR_M / np.sqrt(1.0 - ECCENTRICITY_2 * sine**2)
    across = (normal + fixes[:, 2]) * cosine
    z = (normal * (1.0 - ECCENTRICITY_2) + fixes[:, 2]) * sine
    return np.stack([across * np.cos(longitude), across * np.sin(longitude), z], axis=1)


def east_north_up(fixes: Geodetic, origin: Float[np.ndarray, "3"] | None = None) -> Vectors:
    """Metres east, north and up from the first finite fix, or from `origin`; NaN stays NaN."""
    if origin is None:
        known = np.flatnonzero(np.isfinite(fixes).all(axis=1))
        if not len(known):
            return np.full_like(fixes, np.nan)
        origin = fixes[known[0]]
    latitude, longitude = np.radians(origin[0]), np.radians(origin[1])
    s_lat, c_lat, s_lon, c_lon = (f(a) for a in (latitude, longitude) for f in (np.sin, np.cos))
    axes = np.array(
        [
            [-s_lon, c_lon, 0.0],
            [-s_lat * c_lon, -s_lat * s_lon, c_lat],
            [c_lat * c_lon, c_lat * s_lon, s_lat],
        ]
    )
    return (earth_centred(fixes) - earth_centred(origin[None])) @ axes.T


def check_fixes(fixes: Geodetic, where: str, name: str) -> None:
    """Refuses latitudes and longitudes that are not in degrees."""
    known = fixes[np.isfinite(fixes).all(axis=1)]
    if len(known) and (np.abs(known[:, 0]).max() > 90.0 or np.abs(known[:, 1]).max() > 360.0):
        raise InputError(
            f"{where}: {name} reaches latitude {np.abs(known[:, 0]).max():.4g} and longitude "
            f"{np.abs(known[:, 1]).max():.4g}; expected degrees (PX4's old integers are 1e-7 "
            "degrees: divide them by 1e7)."
        )


def receiver_std(stated: Vectors) -> tuple[float, ...]:
    """The standard deviations of a receiver's fixes: the median of those that it states."""
    std = np.median(stated, axis=0)
    if not np.all(std > 0.0):
        return DEFAULT_STD_M
    return tuple(np.clip(std, *STD_RANGE_M).tolist())
