"""A quadrotor that flies on estimates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sagewing.models.quadrotor import Q, R
from sagewing.models.rotations import from_euler_angles
from sagewing.problems.flight.records import IMU, POSE
from sagewing.problems.flight.setup import NOISE
from sagewing.report import closed_loop
from sagewing.report.table import markdown
from sagewing.sim.mission import DESCENT, EASE, Mission
from sagewing.sim.paths import HEIGHT, circles, goal
from sagewing.studies.closed_loop import CORRIDOR, fly

SECONDS, DARK = 2.0, 0.6


class Trusting:
    """Believes every pose, remembers the modes, and stands still without one."""

    def __init__(self, x0, P0):
        self.x, self.modes, self.z = np.array(x0), [], []

    def step(self, z, u, dt):
        """The pose itself, with a velocity by differences."""
        self.modes.append(u[0])
        self.z.append(np.array(z))
        if u[0] == POSE:
            self.x[R] = z[:3]
            self.x[Q] = from_euler_angles(jnp.asarray(z[3:], jnp.float32))
        return self.x, None


@pytest.fixture(scope="module")
def on_truth():
    return fly("truth", None, "euler", NOISE["good"], circle=1, seconds=SECONDS, blackout=DARK)


def test_on_the_truth_it_follows_its_path_and_lands(on_truth):
    row = on_truth.row
    assert row["stayed"]
    assert row["landed"]
    assert row["off_path_max_m"] < 0.3
    assert row["pos_rmse_m"] == 0.0
    assert on_truth.t[-1] > 2 * EASE + SECONDS
    assert np.linalg.norm(on_truth.position[-1, :2] - on_truth.path[-1, :2]) < 0.3


def test_the_estimator_sees_the_pose_outside_the_blackout_and_the_imu_inside():
    made = []

    def make(x0, P0):
        made.append(Trusting(x0, P0))
        return made[0]

    flown = fly("ekf", make, "euler", NOISE["good"], circle=1, seconds=SECONDS, blackout=DARK)
    modes = np.array(made[0].modes)
    first, last = flown.blackout
    inside = (flown.t > first + 0.005) & (flown.t < last + 0.005)
    np.testing.assert_array_equal(modes, np.where(inside, IMU, POSE))
    assert inside.sum() == round(DARK / 0.01)
    # Without a velocity it swings out of its corridor or into the ground, and is told so.
    assert not (flown.row["stayed"] and flown.row["landed"])
    assert flown.row["pos_rmse_m"] > 0.01


def test_the_same_seed_flies_the_same_way(on_truth):
    again = fly("truth", None, "euler", NOISE["good"], circle=1, seconds=SECONDS, blackout=DARK)
    np.testing.assert_array_equal(again.position, on_truth.position)


def test_a_mission_starts_and_ends_at_rest_and_is_a_circle_between():
    circle = jax.tree.map(lambda a: a[0], circles(jax.random.key(0)))
    mission = Mission(circle, 5.0)
    times = jnp.array([0.0, EASE + 2.5, mission.landing_start, mission.landing_start + DESCENT])
    aims = jax.vmap(lambda t: goal(mission, t))(times)
    speed = np.linalg.norm(aims.velocity[:, :3], axis=1)
    np.testing.assert_allclose(speed[[0, 2, 3]], 0.0, atol=1e-5)
    np.testing.assert_allclose(speed[1], abs(circle.turn) * circle.radius, rtol=1e-4)
    np.testing.assert_allclose(aims.place[:, 2], [HEIGHT, HEIGHT, HEIGHT, 0.0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(aims.place[:, :2], axis=1), circle.radius, rtol=1e-4)


def test_table_and_picture_show_every_mission(on_truth, tmp_path):
    lost = {**on_truth.row, "drift_m": None, "stayed": False, "touchdown_m_s": 3.0, "landed": False}
    page = markdown(closed_loop.table([on_truth.row, lost]))
    assert f"within {CORRIDOR:g} m" in page
    assert "crash, 3.00 m/s" in page
    closed_loop.picture([on_truth], tmp_path / "circle.png")
    assert (tmp_path / "circle.png").stat().st_size > 10_000
