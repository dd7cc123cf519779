"""Trajectories as TUM files: `timestamp tx ty tz qx qy qz qw`, a line each."""

import numpy as np

from sagewing.logs.flight import Pose, Times

HEADER = b"# timestamp tx ty tz qx qy qz qw\n"
BLOCK = 10_000


def tum(t: Times, pose: Pose) -> bytes:
    """The file's bytes; rows with NaN are left out."""
    rows = np.column_stack([t, pose.position, pose.quaternion[:, [1, 2, 3, 0]]])
    rows = rows[np.isfinite(rows).all(axis=1)]
    line = "%.6f" + " %.6f" * 3 + " %.7f" * 4 + "\n"
    text = [HEADER]
    for first in range(0, len(rows), BLOCK):  # ten times faster than savetxt
        block = rows[first : first + BLOCK]
        text.append((line * len(block) % tuple(block.ravel().tolist())).encode())
    return b"".join(text)
