"""The numbers in the ROS messages of IMUs and poses, decoded from their bytes.

A bag carries the definitions of its messages, and rosbags decodes by running code made from them.
These few types never change, so that they are decoded here, and nothing of a bag is run.
"""

import struct
from typing import NamedTuple

import numpy as np

from sagewing.errors import InputError


class Layout(NamedTuple):
    """The fields after a message's header: strings, small fields, and then doubles."""

    strings: int
    small: int  # bytes of status before the doubles
    doubles: int


LAYOUTS = {
    # orientation, rate, acceleration, each with its covariance
    "sensor_msgs/msg/Imu": Layout(0, 0, 37),
    "geometry_msgs/msg/PoseStamped": Layout(0, 0, 7),
    "geometry_msgs/msg/PoseWithCovarianceStamped": Layout(0, 0, 43),
    "geometry_msgs/msg/TransformStamped": Layout(1, 0, 7),
    "geometry_msgs/msg/PointStamped": Layout(0, 0, 3),
    "nav_msgs/msg/Odometry": Layout(1, 0, 85),
    "sensor_msgs/msg/NavSatFix": Layout(0, 3, 12),  # status int8, service uint16
}
LITTLE_ENDIAN = (b"\x01", b"\x07", b"")  # CDR, XCDR2, and a message that is too short
IMU, FIX, ODOMETRY = "sensor_msgs/msg/Imu", "sensor_msgs/msg/NavSatFix", "nav_msgs/msg/Odometry"


class Messages:
    """The messages of one topic, gathered."""

    def __init__(self, topic: str, kind: str, cdr: bool, where: str):
        self.topic, self.kind, self.where = topic, kind, where
        self._layout, self._cdr = LAYOUTS[kind], cdr
        self._stamps: list[float] = []
        self._numbers = bytearray()

    def add(self, received_ns: int, raw: bytes) -> None:
        """Append a message; a NavSatFix without a fix is left out."""
        if self._cdr and raw[1:2] not in LITTLE_ENDIAN:
            raise InputError(
                f"{self.where}: message {len(self._stamps)} of {self.topic} is in the encoding "
                f"{raw[1]}; only little-endian CDR is read."
            )
        try:
            stamp, start, status = (
                _cdr(raw, self._layout) if self._cdr else _ros1(raw, self._layout)
            )
        except (struct.error, IndexError):
            start, stamp, status = len(raw), 0.0, 0
        stop = start + 8 * self._layout.doubles
        if stop > len(raw):
            raise InputError(
                f"{self.where}: message {len(self._stamps)} of {self.topic} has {len(raw)} bytes, "
                f"too few for a {self.kind}; the bag is damaged."
            )
        if self.kind != FIX or status >= 0:
            # Without a stamp in the header the time of recording is used.
            self._stamps.append(stamp if stamp > 0.0 else 1e-9 * received_ns)
            self._numbers += raw[start:stop]

    @property
    def t(self) -> np.ndarray:
        """Seconds."""
        return np.array(self._stamps, np.float64)

    @property
    def values(self) -> np.ndarray:
        """One row a message."""
        return np.frombuffer(bytes(self._numbers), "<f8").reshape(-1, self._layout.doubles)


def _ros1(raw: bytes, layout: Layout) -> tuple[float, int, int]:
    """The stamp, where the doubles begin, and the status."""
    _, seconds, nanoseconds, length = struct.unpack_from("<IIII", raw)
    at = 16 + length
    for _ in range(layout.strings):
        at += 4 + struct.unpack_from("<I", raw, at)[0]
    status = struct.unpack_from("<b", raw, at)[0] if layout.small else 0
    return seconds + 1e-9 * nanoseconds, at + layout.small, status


def _cdr(raw: bytes, layout: Layout) -> tuple[float, int, int]:
    """The same in ROS 2: values lie at multiples of their size, counted from the fifth byte."""
    body = memoryview(raw)[4:]
    seconds, nanoseconds, length = struct.unpack_from("<iII", body)
    at = 12 + length
    for _ in range(layout.strings):
        at += -at % 4
        at += 4 + struct.unpack_from("<I", body, at)[0]
    status = struct.unpack_from("<b", body, at)[0] if layout.small else 0
    if layout.small:
        at += 1
        at += -at % 2 + 2
    width = 8 if raw[1] == 1 else 4
    at += -at % width
    return seconds + 1e-9 * nanoseconds, 4 + at, status
