"""Names and units of the channels of q, r and d in the quadrotor's filters."""

from typing import NamedTuple


class Channel(NamedTuple):
    """A state, a measurement or the attenuation of one of them."""

    name: str
    unit: str


def _of(name: str, unit: str, axes: str = "xyz") -> list[Channel]:
    return [Channel(f"{name} {axis}", unit) for axis in axes]


_ATTITUDES = {
    18: _of("rotation", "rad²"),
    19: _of("attitude", "(quaternion)", "wxyz"),
}
KNOWN = tuple(_ATTITUDES)  # the numbers of q
_ANGLES = {18: ("rotation x", "rotation y", "rotation z"), 19: ("roll", "pitch", "yaw")}


def states(n: int) -> list[Channel]:
    """Those of q in a filter of 18 errors, or of 19 states with a quaternion."""
    return [
        *_of("position", "m²"),
        *_of("velocity", "(m/s)²"),
        *_ATTITUDES[n],
        *_of("rate", "(rad/s)²"),
        *_of("acc. bias", "(m/s²)²"),
        *_of("gyro bias", "(rad/s)²"),
    ]


def pose(n: int) -> list[Channel]:
    """Those of r while a pose is measured."""
    return [*_of("position", "m²"), *(Channel(turn, "rad²") for turn in _ANGLES[n])]


def of_track(n: int, imu_measured: bool) -> dict[str, list[Channel]]:
    """Those of q, r and d; in an outage the IMU may be measured, in the same six channels of r."""
    r = pose(n)
    d = [
        Channel(f"{kind}: {channel.name}", "")
        for kind, channels in (("q", states(n)), ("r", r))
        for channel in channels
    ]
    if imu_measured:
        r = [
            *(Channel(f"{c.name} | acc.", f"{c.unit} | (m/s²)²") for c in r[:3]),
            *(Channel(f"{c.name} | gyro", f"{c.unit} | (rad/s)²") for c in r[3:]),
        ]
    return {"q": states(n), "r": r, "d": d}
