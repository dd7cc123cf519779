"""A mission in closed loop: hover, a circle, a landing, flown on whatever an estimator believes.

The plant and its controller advance by a row of 10 ms at a time; between two rows the estimator,
which may be anything, has its turn.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from sagewing.models.quadrotor import Q, R, W
from sagewing.models.rotations import euler_angles
from sagewing.shapes import Scalar, X, real_dtype
from sagewing.sim.controller import control, mixer
from sagewing.sim.degradation import Degradation
from sagewing.sim.paths import HEIGHT, Circle, Flat, Goal, goal
from sagewing.sim.plant import DT, SAMPLES, Flying, Plant, PlantErrors, advance, drawn, start

ROW = DT * SAMPLES  # s
EASE = 2.0  # seconds in which the circle is sped up and slowed down
DESCENT = 5.0  # s
TOUCHDOWN = 0.1  # m: lower is on the ground


class Mission(eqx.Module):
    """From hover into a circle of so many seconds, out of it into hover, and down."""

    circle: Circle
    seconds: float = 10.0

    @property
    def over(self) -> float:
        """When the circle is over and the landing begins."""
        return 2 * EASE + self.seconds

    def __call__(self, t: Scalar) -> Flat:
        """The flat outputs at t."""
        out = EASE + self.seconds
        # The circle's own time, whose rate goes smoothly from 0 to 1 and back.
        flown = EASE * (_eased(t / EASE) - _eased((t - out) / EASE))
        down = _smooth((t - self.over) / DESCENT)
        place = self.circle(flown)
        return place.at[2].set(HEIGHT * (1.0 - down))

    @property
    def duration(self) -> float:
        """Until it should be on the ground, and a second more."""
        return self.over + DESCENT + 1.0


def _smooth(s: Scalar) -> Scalar:
    """From 0 at s = 0 to 1 at s = 1, with two continuous derivatives."""
    s = jnp.clip(s, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def _eased(s: Scalar) -> Scalar:
    """The integral of `_smooth`."""
    inside = jnp.clip(s, 0.0, 1.0)
    return inside**4 * (2.5 - 3.0 * inside + inside**2) + jnp.maximum(s - 1.0, 0.0)


class Sensed(NamedTuple):
    """What the vehicle's sensors say at the end of a row."""

    pose: Float[Array, "6"]  # position and Euler angles, degraded
    imu: Float[Array, "6"]  # means over the row, as are the motors
    motors: Float[Array, "4"]


class SimulatedVehicle(eqx.Module):
    """One plant with its controller and all the noise that it will meet."""

    plant: Plant
    mix: Float[Array, "4 4"]
    goals: Goal  # [rows, samples, 4]
    noise: Float[Array, "rows samples 3 6"]
    pose_noise: Float[Array, "rows 6"]

    @property
    def rows(self) -> int:
        """How long the mission may last."""
        return self.noise.shape[0]

    @eqx.filter_jit
    def advance(self, now: Flying, believed: X, k: Int[Array, ""]) -> tuple[Flying, Sensed]:
        """Row k, controlled by what is believed at its start and by the gyroscope."""
        aims = jax.tree.map(lambda a: a[k], self.goals)

        def tick(now: Flying, given: tuple[Goal, jax.Array]) -> tuple[Flying, tuple]:
            aim, noise = given
            seen = believed.at[W].set(now.gyroscope)
            integral, command = control(now.integral, seen, aim, self.mix, DT)
            now, imu = advance(self.plant, now._replace(integral=integral), command, noise)
            return now, (imu, command)

        now, (imu, command) = jax.lax.scan(tick, now, (aims, self.noise[k]))
        pose = jnp.concatenate([now.x[R], euler_angles(now.x[Q])]) + self.pose_noise[k]
        return now, Sensed(pose, jnp.mean(imu, axis=0), jnp.mean(command, axis=0))


@eqx.filter_jit
def prepared(
    key: PRNGKeyArray, mission: Mission, degradation: Degradation
) -> tuple[SimulatedVehicle, Flying]:
    """A vehicle drawn from the key, hovering where its circle begins."""
    k_plant, k_start, k_noise, k_pose = jax.random.split(key, 4)
    plant = drawn(k_plant, PlantErrors())
    rows = round(mission.duration / ROW)
    ticks = jnp.arange(rows * SAMPLES).reshape(rows, SAMPLES)
    goals = jax.vmap(jax.vmap(lambda k: goal(mission, k * DT)))(ticks)
    noise = jax.random.normal(k_noise, (rows, SAMPLES, 3, 6), real_dtype())
    pose_noise = degradation.pose(k_pose, jnp.zeros((rows, 6), real_dtype()))
    first = jax.tree.map(lambda g: g[0, 0], goals)
    return SimulatedVehicle(plant, mixer(), goals, noise, pose_noise), start(k_start, plant, first)


def off_path(place: Float[np.ndarray, "T 3"], path: Float[np.ndarray, "rows 3"]) -> np.ndarray:
    """How far from its path the vehicle is: from the nearest point of it, flown when it may be."""
    return np.min(np.linalg.norm(place[:, None] - path[None], axis=2), axis=1)
