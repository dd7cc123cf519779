"""Names and units of the channels of q, r and d in the quadrotor's filters."""

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
POSE = (*_of("position", "m²"), *(Channel(turn, "rad²") for turn in ("roll", "pitch", "yaw")))
# Where the IMU is measured in an outage, it has the same six channels.
POSE_OR_IMU = (
    *(Channel(f"{c.name} | acc.", f"{c.unit} | (m/s²)²") for c in POSE[:3]),
    *(Channel(f"{c.name} | gyro", f"{c.unit} | (rad/s)²") for c in POSE[3:]),
)
ATTENUATIONS = tuple(
    Channel(f"{kind}: {channel.name}", "")
    for kind, channels in (("q", STATES), ("r", POSE))
    for channel in channels
)
