"""A scene for tests of the page: a circle, two filters, a second without a pose."""

import numpy as np

from sagewing.logs.flight import Pose
from sagewing.logs.track import Scene, Track


def circle(seconds=10.0, rate=100.0, names=("ekf", "ndr"), truth=True) -> Scene:
    rng = np.random.default_rng(0)
    t = np.arange(1, round(seconds * rate) + 1) / rate
    steps = len(t)
    position = np.stack([np.cos(t), np.sin(t), 1.0 + 0.1 * np.sin(3 * t)], axis=1)
    quaternion = np.stack([np.cos(t / 2), 0 * t, 0 * t, np.sin(t / 2)], axis=1)
    outage = (0.4 * seconds, 0.5 * seconds)
    missing = (t >= outage[0]) & (t <= outage[1])
    seen = np.where(missing[:, None], np.nan, position + 0.1 * rng.normal(size=(steps, 3)))
    turned = np.where(missing[:, None], np.nan, quaternion)
    noise = np.exp(rng.normal(size=(steps, 25)))
    tracks = tuple(
        Track(
            name,
            Pose(position + 0.05 * (i + 1) * rng.normal(size=(steps, 3)), quaternion),
            position_std=np.full((steps, 3), 0.1),
            attitude_std=np.full((steps, 3), 0.02),
            nis=np.where(missing, np.nan, rng.chisquare(6, steps)),
            q=noise[:, :19] if i else None,
            r=noise[:, 19:],
            d=np.minimum(noise, 1.0) if i else None,
        )
        for i, name in enumerate(names)
    )
    arrived = np.where(missing, 0.0, 6.0)
    true = Pose(position, quaternion) if truth else None
    return Scene("circle", t, Pose(seen, turned), arrived, true, (outage,), tracks)


ROWS = [
    {"filter": "ekf", "pos_rmse_m": 0.2, "att_rmse_rad": 0.02, "drift_m": 1.0, "nees_mean": 7.0},
    {"filter": "ndr", "pos_rmse_m": 0.1, "att_rmse_rad": 0.03, "drift_m": None, "nees_mean": 5.0},
]
