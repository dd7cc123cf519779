"""A mission in closed loop: hover, a circle, a landing, controlled with an estimate.

The plant and its controller advance by rows of 10 ms; between two rows the caller updates the
estimate.
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
from sagewing.sim.plant import (
    DT,
    SAMPLES,
    Plant,
    PlantErrors,
    PlantState,
    advance,
    draw_plant,
    start,
)

ROW = DT * SAMPLES  # s
EASE = 2.0  # s; the circle's speed rises and falls over this time
DESCENT = 5.0  # s
TOUCHDOWN = 0.1  # m; the vehicle is on the ground below this height


class Mission(eqx.Module):
    """Hover, a circle flown for `seconds`, hover again, and a landing."""

    circle: Circle
    seconds: float = 10.0

    @property
    def landing_start(self) -> float:
        """The time at which the circle ends and the landing begins, in seconds."""
        return 2 * EASE + self.seconds

    def __call__(self, t: Scalar) -> Flat:
        """The flat outputs at t."""
        slow_down = EASE + self.seconds
        # The time along the circle; its rate rises smoothly from 0 to 1 and falls back to 0.
        along = EASE * (_eased(t / EASE) - _eased((t - slow_down) / EASE))
        descent = _smooth((t - self.landing_start) / DESCENT)
        flat = self.circle(along)
        return flat.at[2].set(HEIGHT * (1.0 - descent))

    @property
    def duration(self) -> float:
        """The time at which the mission ends: one second after the landing."""
        return self.landing_start + DESCENT + 1.0


def _smooth(s: Scalar) -> Scalar:
    """From 0 at s = 0 to 1 at s = 1, with two continuous derivatives."""
    s = jnp.clip(s, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def _eased(s: Scalar) -> Scalar:
    """The integral of `_smooth`."""
    clipped = jnp.clip(s, 0.0, 1.0)
    return clipped**4 * (2.5 - 3.0 * clipped + clipped**2) + jnp.maximum(s - 1.0, 0.0)


class SensorReadings(NamedTuple):
    """The sensors' readings at the end of a row."""

    pose: Float[Array, "6"]  # position and Euler angles, degraded
    imu: Float[Array, "6"]  # mean over the row
    motors: Float[Array, "4"]  # commands, mean over the row


class SimulatedVehicle(eqx.Module):
    """A plant with its controller and the noise of the whole mission."""

    plant: Plant
    mix: Float[Array, "4 4"]
    goals: Goal  # [rows, samples, 4]
    noise: Float[Array, "rows samples 3 6"]
    pose_noise: Float[Array, "rows 6"]

    @property
    def rows(self) -> int:
        """The number of rows of the mission."""
        return self.noise.shape[0]

    @eqx.filter_jit
    def advance(
        self, now: PlantState, estimate: X, k: Int[Array, ""]
    ) -> tuple[PlantState, SensorReadings]:
        """Row k, controlled by the estimate at its start and by the gyroscope."""
        goals = jax.tree.map(lambda a: a[k], self.goals)

        def tick(now: PlantState, inputs: tuple[Goal, jax.Array]) -> tuple[PlantState, tuple]:
            target, noise = inputs
            state = estimate.at[W].set(now.gyroscope)
            integral, command = control(now.integral, state, target, self.mix, DT)
            now, imu = advance(self.plant, now._replace(integral=integral), command, noise)
            return now, (imu, command)

        now, (imu, command) = jax.lax.scan(tick, now, (goals, self.noise[k]))
        pose = jnp.concatenate([now.x[R], euler_angles(now.x[Q])]) + self.pose_noise[k]
        return now, SensorReadings(pose, jnp.mean(imu, axis=0), jnp.mean(command, axis=0))


@eqx.filter_jit
def draw_vehicle(
    key: PRNGKeyArray, mission: Mission, degradation: Degradation
) -> tuple[SimulatedVehicle, PlantState]:
    """A vehicle drawn from the key, in hover at the start of its circle."""
    k_plant, k_start, k_noise, k_pose = jax.random.split(key, 4)
    plant = draw_plant(k_plant, PlantErrors())
    rows = round(mission.duration / ROW)
    ticks = jnp.arange(rows * SAMPLES).reshape(rows, SAMPLES)
    goals = jax.vmap(jax.vmap(lambda k: goal(mission, k * DT)))(ticks)
    noise = jax.random.normal(k_noise, (rows, SAMPLES, 3, 6), real_dtype())
    pose_noise = degradation.pose(k_pose, jnp.zeros((rows, 6), real_dtype()))
    first = jax.tree.map(lambda g: g[0, 0], goals)
    return SimulatedVehicle(plant, mixer(), goals, noise, pose_noise), start(k_start, plant, first)


def distance_to_path(
    place: Float[np.ndarray, "T 3"], path: Float[np.ndarray, "rows 3"]
) -> np.ndarray:
    """The distance from each position to the nearest point of the whole path."""
    return np.min(np.linalg.norm(place[:, None] - path[None], axis=2), axis=1)
