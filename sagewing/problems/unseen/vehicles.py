"""Vehicles outside the training family: aircraft, satellite, cars, ship, glider."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from sagewing.models import ContinuousModel, Model
from sagewing.models.angles import wrap_angle
from sagewing.shapes import Duration, Input, X, Z


class CoordinatedTurn(Model):
    """An aircraft that turns at an unknown rate, tracked by a radar at the origin.

    State: x, v_x, y, v_y (m, m/s) and the turn rate (rad/s). Measured: range and bearing.
    """

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """The velocity turns at a constant rate."""
        p1, v1, p2, v2, w = x
        turn = w * dt
        small = jnp.abs(turn) < 1e-3
        w = jnp.where(small, 1.0, w)
        along = jnp.where(small, dt * (1.0 - turn**2 / 6.0), jnp.sin(turn) / w)
        across = jnp.where(small, 0.5 * dt * turn, (1.0 - jnp.cos(turn)) / w)
        c, s = jnp.cos(turn), jnp.sin(turn)
        return jnp.stack(
            [
                p1 + along * v1 - across * v2,
                c * v1 - s * v2,
                p2 + across * v1 + along * v2,
                s * v1 + c * v2,
                x[4],
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """Range and bearing."""
        return jnp.stack([jnp.sqrt(x[0] ** 2 + x[2] ** 2 + 1.0), jnp.arctan2(x[2], x[0])])

    def innovation(self, z: Z, z_hat: Z) -> Z:
        """The difference, with the bearing wrapped."""
        nu = z - z_hat
        return nu.at[1].set(wrap_angle(nu[1]))


class Orbit(ContinuousModel):
    """A satellite around a point mass; three stations measure its range.

    Units: the Earth's radius and the time in which mu = 1 (806.8 s).
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Newton's law."""
        r, v = x[:3], x[3:]
        return jnp.concatenate([v, -r / jnp.sum(r**2) ** 1.5])

    def observe(self, x: X, u: Input) -> Z:
        """The distances from three places on a non-rotating Earth."""
        stations = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.6], [0.0, -0.6, 0.8]], x.dtype)
        return jnp.sqrt(jnp.sum((x[:3] - stations) ** 2, axis=1))


class Car(Model):
    """The kinematic bicycle model of a car.

    State: position (m), heading (rad), speed (m/s) and steering angle (rad). Measured: position and
    speed.
    """

    wheelbase: float = 2.7

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Speed and steering angle are constant."""
        p1, p2, heading, v, steering = x
        turn = dt * v * jnp.tan(jnp.clip(steering, -1.0, 1.0)) / self.wheelbase
        middle = heading + 0.5 * turn
        moved = [p1 + dt * v * jnp.cos(middle), p2 + dt * v * jnp.sin(middle), heading + turn]
        return jnp.stack([*moved, v, steering])

    def observe(self, x: X, u: Input) -> Z:
        """Position and speed."""
        return x[jnp.array([0, 1, 3])]


class Ship(ContinuousModel):
    """A ship with a compass, in an unknown current, with ranges to two beacons.

    State: position (m), heading (rad), rate of turn (rad/s), speed through the water (m/s), and the
    current (m/s). Measured: the distances from both beacons, and the heading.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Norrbin's turning equation, and a speed that returns to 6 m/s."""
        _, _, heading, turn, speed, east, north = x
        return jnp.stack(
            [
                speed * jnp.cos(heading) + east,
                speed * jnp.sin(heading) + north,
                turn,
                -(turn + 400.0 * turn**3) / 30.0,
                (6.0 - speed) / 50.0,
                -east / 500.0,
                -north / 500.0,
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """Two distances and the compass."""
        first, second = (
            (x[0] - a) ** 2 + (x[1] - b) ** 2 for a, b in ((-2000.0, 500.0), (0.0, -2500.0))
        )
        return jnp.stack([jnp.sqrt(first + 1.0), jnp.sqrt(second + 1.0), x[2]])


class Glider(ContinuousModel):
    """A glider in slowly rising and sinking air, whose acceleration is neglected.

    State: airspeed (m/s), flight path angle in the air (rad), height (m), and the air's vertical
    speed (m/s). Measured: airspeed and height.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Lanchester's phugoid, with a glide ratio of 15 at 20 m/s."""
        speed, angle, _, rise = x
        g, lift = 9.81, 9.81 / 20.0**2
        return jnp.stack(
            [
                -lift / 15.0 * speed**2 - g * jnp.sin(angle),
                lift * speed - g * jnp.cos(angle) / speed,
                speed * jnp.sin(angle) + rise,
                -rise / 20.0,
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """The airspeed and the height."""
        return x[::2]


class Convoy(ContinuousModel):
    """Five cars in a row, each of which adapts its speed to its headway.

    State: the speeds (m/s), the leader's first, and the four headways (m), which are measured.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Bando's optimal velocity model, behind a leader that returns to 18 m/s."""
        speed, headway = x[:5], x[5:]
        wanted = 16.8 * (jnp.tanh(0.086 * (headway - 25.0)) + 0.913)
        return jnp.concatenate(
            [(18.0 - speed[:1]) / 20.0, 0.8 * (wanted - speed[1:]), speed[:-1] - speed[1:]]
        )

    def observe(self, x: X, u: Input) -> Z:
        """The headways."""
        return x[5:]
