"""What the channels of q, r and d are in the quadrotor's filters, and their units."""

from typing import NamedTuple


class Channel(NamedTuple):
    """A state, a measurement or the attenuation of one of them."""

    name: str
    unit: str


def _of(name: str, unit: str, axes: str = "xyz") -> list[Channel]:
    return [Channel(f"{name} {axis}", unit) for axis in axes]


STATES = (
    *_of("position", "m²"),
    *_of("velocity", "(m/s)²"),
    *_of("attitude", "(quaternion)", "wxyz"),
    *_of("rate", "(rad/s)²"),
    *_of("acc. bias", "(m/s²)²"),
    *_of("gyro bias", "(rad/s)²"),
)
# In an outage the same six channels are the IMU's.
MEASUREMENTS = (
    *(Channel(f"position {axis} | acc.", "m² | (m/s²)²") for axis in "xyz"),
    *(Channel(f"{turn} | gyro", "rad² | (rad/s)²") for turn in ("roll", "pitch", "yaw")),
)
ATTENUATIONS = tuple(
    Channel(f"{kind}: {channel.name.split(' |')[0]}", "")
    for kind, channels in (("q", STATES), ("r", MEASUREMENTS))
    for channel in channels
)
