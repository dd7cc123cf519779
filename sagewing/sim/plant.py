"""A simulated QDrone in closed loop, at 1000 Hz: the rigid body, its sensors, its flights.

The plant is the filters' `QuadrotorDynamic` plus the effects that this model leaves out.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from sagewing.models.quadrotor import B_A, B_G, GRAVITY, QDRONE, Q, QuadrotorDynamic, R, V, W
from sagewing.models.rotations import from_euler_angles, rotation_matrix
from sagewing.shapes import Scalar, X, real_dtype
from sagewing.sim.controller import control, mixer
from sagewing.sim.paths import FAST_COMPILE, Circle, Goal, RandomPath, circles, goal, random_paths

DT = 0.001  # of the plant, its sensors and its controller, s
SAMPLES = 10  # samples in a row of a flight
LEAD_IN = 400  # rows at the start that are discarded
TRAINING_SECONDS = (70, 74, 78, 81, 85)  # 388 s in all, as the paper's
CIRCLE_SECONDS = 10
HOVER = QDRONE.mass * GRAVITY / (4 * QDRONE.thrust)

Vector = Float[Array, "3"]
Motors = Float[Array, "4"]
Reading = Float[Array, "6"]  # accelerometer, gyroscope
Series = Float[Array | np.ndarray, "*flights T channels"]


class Flown(NamedTuple):
    """One flight at 100 Hz: sensor means over the 10 ms that end at t, and the truth at t."""

    t: Float[Array | np.ndarray, "*flights T"]
    imu: Series  # accelerometer (m/s^2) and gyroscope (rad/s), mean of ten samples
    motors: Series  # commands in 0..1, mean of ten
    position: Series  # world, m
    velocity: Series  # world, m/s
    quaternion: Series  # w, x, y, z; body to world
    rate: Series  # body, rad/s


class PlantErrors(eqx.Module):
    """The differences between the plant and the filters' model; 0 switches a mechanism off.

    Errors with an `_std` are drawn once a flight, except gusts, walks and noise. The magnitudes of
    the sensors are those of a consumer MEMS IMU.
    """

    motor_lag: float = 0.04  # s
    mass_std: float = 0.02  # relative, as are the next three
    thrust_std: float = 0.02
    motor_std: float = 0.01  # of each motor
    inertia_std: float = 0.03
    rotor_drag: tuple[float, float, float] = (0.25, 0.25, 0.1)  # 1/s, body
    gust_std: float = 0.2  # m/s^2, world
    gust_torque_std: float = 0.002  # N m
    gust_time: float = 1.5  # s
    noise_std: tuple[float, float] = (0.08, 0.008)  # m/s^2, rad/s, at 1000 Hz
    bias_std: tuple[float, float] = (0.05, 0.005)
    bias_walk: tuple[float, float] = (2e-3, 1e-4)  # after one second
    scale_std: float = 3e-3
    vibration: tuple[float, float] = (1.0, 0.1)  # largest amplitude; a flight draws 0.5..1 of it
    vibration_rate: float = 630.0  # of a rotor in hover, rad/s


IDEAL = jax.tree.map(lambda _: 0.0, PlantErrors())


class Plant(eqx.Module):
    """One vehicle: the model with its own parameters, and the effects that the model leaves out."""

    body: QuadrotorDynamic
    motor: Motors  # relative thrust of each motor
    scale: Reading
    bias: Reading
    shake: Float[Array, "6 4"]  # amplitude of each rotor's vibration in each channel
    errors: PlantErrors

    def force_and_torque(self, x: X, gust: Reading) -> tuple[Vector, Vector]:
        """Specific force and torque of rotor drag and gusts, which the model leaves out."""
        drag = jnp.stack(self.errors.rotor_drag) * x[V]
        return rotation_matrix(x[Q]).T @ gust[:3] - drag, gust[3:]

    def drift(self, x: X, level: Motors, gust: Reading) -> X:
        """dx/dt at these motor levels."""
        force, torque = self.force_and_torque(x, gust)
        w_dot = torque / jnp.stack(self.body.vehicle.inertia)
        zero = jnp.zeros_like(x)
        unmodelled = jnp.concatenate([zero[R], force, zero[Q], w_dot, zero[B_A], zero[B_G]])
        return self.body.drift(x, self.motor * level) + unmodelled

    def sensed(self, x: X, level: Motors, gust: Reading, phase: Motors, noise: Reading) -> Reading:
        """The IMU's reading, for the rotors' phases and standard normal noise."""
        force, _ = self.force_and_torque(x, gust)
        true = self.body.observe(x, self.motor * level) + jnp.append(force, jnp.zeros(3))
        noise_std = per_channel(self.errors.noise_std)
        return (1.0 + self.scale) * true + self.shake @ jnp.sin(phase) + noise_std * noise


class PlantState(NamedTuple):
    """The state of the plant between two steps."""

    x: X
    level: Motors  # of the motors, which lag behind their commands
    gust: Reading  # specific force in the world, torque
    phase: Motors  # of the rotors
    gyroscope: Vector
    integral: Vector


def per_channel(pair: tuple[Any, Any]) -> Reading:
    """The accelerometer's and the gyroscope's number, repeated for their three channels."""
    return jnp.repeat(jnp.stack(pair), 3, total_repeat_length=6)


def draw_plant(key: PRNGKeyArray, errors: PlantErrors) -> Plant:
    """A vehicle whose errors are drawn from the key."""
    k_size, k_normal = jax.random.split(key)
    size = jax.random.uniform(k_size, (), real_dtype(), minval=0.5)
    normal = jax.random.normal(k_normal, (8, 6), real_dtype())  # a single draw compiles faster
    mass, thrust = 1.0 + jnp.stack([errors.mass_std, errors.thrust_std]) * normal[0, :2]
    inertia = jnp.asarray(QDRONE.inertia) * (1.0 + errors.inertia_std * normal[0, 2:5])
    vehicle = QDRONE._replace(
        mass=QDRONE.mass * mass,
        inertia=tuple(inertia),
        thrust=QDRONE.thrust * thrust,
        torque=QDRONE.torque * thrust,
    )
    rotors = normal[4:] / jnp.linalg.norm(normal[4:], axis=0)
    return Plant(
        body=QuadrotorDynamic(vehicle=vehicle),
        motor=1.0 + errors.motor_std * normal[1, :4],
        scale=errors.scale_std * normal[2],
        bias=per_channel(errors.bias_std) * normal[3],
        shake=size * (per_channel(errors.vibration) * rotors).T,
        errors=errors,
    )


def decay(dt: float, time: Scalar | float) -> Scalar:
    """exp(-dt / time): the factor of an exponential decay; the time constant may be 0."""
    return jnp.exp(-dt / jnp.maximum(time, 1e-9))


def advance(
    plant: Plant, now: PlantState, command: Motors, noise: Float[Array, "3 6"]
) -> tuple[PlantState, Reading]:
    """One millisecond by the midpoint rule, and the IMU's reading at its middle.

    The noise is standard normal: for the gusts, the bias walk and the IMU.
    """
    errors = plant.errors
    gust_decay = decay(DT, errors.gust_time)
    gust_std = jnp.repeat(jnp.stack([errors.gust_std, errors.gust_torque_std]), 3)
    gust = gust_decay * now.gust + jnp.sqrt(1.0 - gust_decay**2) * gust_std * noise[0]
    level = command + decay(DT / 2, errors.motor_lag) * (now.level - command)
    # Thrust is proportional to the speed squared
    spin = errors.vibration_rate * jnp.sqrt(level / HOVER)
    middle = now.x + 0.5 * DT * plant.drift(now.x, level, gust)
    walk = jnp.sqrt(DT) * per_channel(errors.bias_walk) * noise[1]
    x = now.x + DT * plant.drift(middle, level, gust) + jnp.append(jnp.zeros(13), walk)
    imu = plant.sensed(middle, level, gust, now.phase + 0.5 * DT * spin, noise[2])
    return PlantState(
        x=plant.body.normalize(x),
        level=command + decay(DT, errors.motor_lag) * (now.level - command),
        gust=gust,
        phase=jnp.mod(now.phase + DT * spin, 2.0 * jnp.pi),
        gyroscope=imu[3:],
        integral=now.integral,
    ), imu


def start(key: PRNGKeyArray, plant: Plant, first: Goal) -> PlantState:
    """The start on the path: its velocity and yaw, a level attitude, motors at nominal hover."""
    q = from_euler_angles(first.place[3] * jnp.array([0.0, 0.0, 1.0]))
    v = rotation_matrix(q).T @ first.velocity[:3]
    x = jnp.concatenate([first.place[:3], v, q, jnp.zeros(3), plant.bias])
    phase = jax.random.uniform(key, (4,), real_dtype(), maxval=2.0 * jnp.pi)
    return PlantState(x, jnp.full(4, HOVER), jnp.zeros(6), phase, jnp.zeros(3), jnp.zeros(3))


def flight(key: PRNGKeyArray, path: RandomPath | Circle, errors: PlantErrors, rows: int) -> Flown:
    """One flight of `rows` rows, after the lead-in."""
    k_plant, k_start, k_noise = jax.random.split(key, 3)
    plant, mix = draw_plant(k_plant, errors), mixer()
    ticks = jnp.arange((LEAD_IN + rows) * SAMPLES).reshape(-1, SAMPLES)
    goals = jax.vmap(jax.vmap(lambda k: goal(path, k * DT)))(ticks)

    def tick(now: PlantState, inputs: tuple[Goal, jax.Array]) -> tuple[PlantState, tuple[Any, ...]]:
        target, noise = inputs
        estimate = now.x.at[W].set(now.gyroscope)
        integral, command = control(now.integral, estimate, target, mix, DT)
        now, imu = advance(plant, now._replace(integral=integral), command, noise)
        return now, (imu, command)

    def row(now: PlantState, inputs: tuple[Goal, jax.Array]) -> tuple[PlantState, tuple[Any, ...]]:
        now, (imu, command) = jax.lax.scan(tick, now, inputs)
        return now, (jnp.mean(imu, axis=0), jnp.mean(command, axis=0), now.x)

    first = jax.tree.map(lambda g: g[0, 0], goals)
    noise = jax.random.normal(k_noise, (*ticks.shape, 3, 6), real_dtype())
    _, logged = jax.lax.scan(row, start(k_start, plant, first), (goals, noise))
    imu, motors, x = jax.tree.map(lambda a: a[LEAD_IN:], logged)
    velocity = jax.vmap(lambda x: rotation_matrix(x[Q]) @ x[V])(x)
    t = DT * SAMPLES * jnp.arange(1, rows + 1, dtype=real_dtype())
    return Flown(t, imu, motors, x[:, R], velocity, x[:, Q], x[:, W])


@partial(jax.jit, static_argnames="rows", compiler_options=FAST_COMPILE)
def flights(
    keys: Shaped[PRNGKeyArray, "flights"],
    paths: RandomPath | Circle,
    errors: PlantErrors,
    rows: int,
) -> Flown:
    """Several flights at once, one for each key and each of the stacked paths."""
    return jax.vmap(lambda key, path: flight(key, path, errors, rows))(keys, paths)


def training_flights(seed: int) -> list[Flown]:
    """Five flights along random paths with steps, 388 s in all."""
    k_paths, k_flights = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0))
    count = len(TRAINING_SECONDS)
    paths = random_paths(k_paths, count)
    rows = [round(s / (DT * SAMPLES)) for s in TRAINING_SECONDS]
    flown = flights(jax.random.split(k_flights, count), paths, PlantErrors(), max(rows))
    return [_one_flight(flown, i, length) for i, length in enumerate(rows)]


def circle_flights(seed: int) -> list[Flown]:
    """Three flights of 10 s along circles."""
    k_paths, k_flights = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1))
    paths = circles(k_paths)
    count, rows = paths.radius.size, round(CIRCLE_SECONDS / (DT * SAMPLES))
    flown = flights(jax.random.split(k_flights, count), paths, PlantErrors(), rows)
    return [_one_flight(flown, i, rows) for i in range(count)]


def _one_flight(flown: Flown, i: int, rows: int) -> Flown:
    """The first rows of flight i, as NumPy arrays."""
    return Flown(*(np.asarray(series[i, :rows]) for series in flown))
