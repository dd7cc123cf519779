"""Mechanical, thermal, electrical and chemical processes outside the training family."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from sagewing.models import ContinuousModel, Model
from sagewing.shapes import Duration, Input, X, Z


class Masses(Model):
    """Four masses in a row, joined by springs and dampers to each other and to a wall.

    State: four positions, four velocities. Measured: each position plus 0.3 times the next.
    """

    stiffness: float = 4.0
    damping: float = 0.1

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Semi-implicit Euler."""
        r, v = x[:4], x[4:]
        padded = jnp.concatenate([jnp.zeros_like(r[:1]), r, r[-1:]])
        force = padded[:-2] - 2.0 * r + padded[2:]
        v = v + dt * (self.stiffness * force - self.damping * v)
        return jnp.concatenate([r + dt * v, v])

    def observe(self, x: X, u: Input) -> Z:
        """Positions."""
        return x[:4] + 0.3 * jnp.roll(x[:4], -1)


class Lorenz96(ContinuousModel):
    """Lorenz 1996 with eight sites on a circle, of which every second is measured."""

    forcing: float = 8.0
    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Lorenz' equations."""
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + self.forcing

    def observe(self, x: X, u: Input) -> Z:
        """Every second site."""
        return x[::2]


class Tanks(ContinuousModel):
    """Johansson's quadruple-tank process (2000): four levels in cm, the lower two measured.

    Two pumps run steadily; the upper tanks drain into the lower ones.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Torricelli's law, in cm and seconds; Johansson's minimum-phase parameters."""
        area = jnp.array([28.0, 32.0, 28.0, 32.0], x.dtype)
        hole = jnp.array([0.071, 0.057, 0.071, 0.057], x.dtype)
        out = hole * jnp.sqrt(2.0 * 981.0 * jnp.maximum(x, 0.01))
        pumped = jnp.array([0.7 * 3.33, 0.6 * 3.35, 0.4 * 3.35, 0.3 * 3.33], x.dtype) * 3.0
        down = jnp.concatenate([out[2:], jnp.zeros_like(out[2:])])
        return (pumped + down - out) / area

    def observe(self, x: X, u: Input) -> Z:
        """The lower two levels."""
        return x[:2]


class Neuron(ContinuousModel):
    """Hindmarsh and Rose's model of a neuron that fires in bursts (1984).

    Measured: the potential."""

    current: float = 3.2
    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The potential, the fast currents and the slow current."""
        p, fast, slow = x
        return jnp.stack(
            [
                fast - p**3 + 3.0 * p**2 - slow + self.current,
                1.0 - 5.0 * p**2 - fast,
                0.006 * (4.0 * (p + 1.6) - slow),
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """The potential."""
        return x[:1]


class Rod(Model):
    """A hot rod in twelve pieces, heated at one end; it conducts, and it radiates as T^4.

    State: temperatures in hundreds of kelvins. Measured: those of every third piece.
    """

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Euler's rule."""
        padded = jnp.concatenate([x[:1], x, x[-1:]])
        conducted = 0.5 * (padded[:-2] - 2.0 * x + padded[2:])
        radiated = 2e-4 * (x**4 - 3.0**4)
        return x + dt * (conducted - radiated).at[0].add(1.0)

    def observe(self, x: X, u: Input) -> Z:
        """Four thermometers."""
        return x[1::3]


class Arm(ContinuousModel):
    """An arm with a weight at its elbow and at its hand: a double pendulum, a little damped.

    State: both angles from the downward vertical, and their rates. Measured: the hand's position.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Lagrange's equations for two masses of 1 kg, each at the end of a metre."""
        a, b, va, vb = x
        g, difference = 9.81, a - b
        denominator = 3.0 - jnp.cos(2.0 * difference)
        pull = jnp.sin(difference) * (vb**2 + va**2 * jnp.cos(difference))
        upper = -3.0 * g * jnp.sin(a) - g * jnp.sin(a - 2.0 * b) - 2.0 * pull
        swing = 2.0 * va**2 + 2.0 * g * jnp.cos(a) + vb**2 * jnp.cos(difference)
        lower = 2.0 * jnp.sin(difference) * swing
        return jnp.stack([va, vb, upper / denominator - 0.05 * va, lower / denominator - 0.05 * vb])

    def observe(self, x: X, u: Input) -> Z:
        """The hand's position."""
        a, b = x[:2]
        return jnp.stack([jnp.sin(a) + jnp.sin(b), -jnp.cos(a) - jnp.cos(b)])


class Motor(ContinuousModel):
    """An induction motor on a steady supply, in the frame that turns with the supply.

    State: the two currents of the stator (A), the two fluxes of the rotor (Wb), and the speed
    (rad/s). Measured: the currents. The shaft has no sensor, and the load is constant.
    """

    supply: float = 200.0  # V
    frequency: float = 314.0  # rad/s
    load: float = 150.0  # rad/s^2
    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The equations of stator, rotor and shaft."""
        i_d, i_q, flux_d, flux_q, speed = x
        stator, rotor, mutual, inductance = 0.18, 0.15, 0.068, 0.0699  # ohm, ohm, H, H
        leakage = inductance - mutual**2 / inductance
        decay, coupling = rotor / inductance, mutual / (leakage * inductance)
        resistance = (stator + rotor * (mutual / inductance) ** 2) / leakage
        slip = self.frequency - speed
        torque = 24.0 * (flux_d * i_q - flux_q * i_d)
        return jnp.stack(
            [
                -resistance * i_d
                + self.frequency * i_q
                + coupling * (decay * flux_d + speed * flux_q)
                + self.supply / leakage,
                -resistance * i_q
                - self.frequency * i_d
                + coupling * (decay * flux_q - speed * flux_d),
                decay * (mutual * i_d - flux_d) + slip * flux_q,
                decay * (mutual * i_q - flux_q) - slip * flux_d,
                torque - self.load - 0.1 * speed,
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """The currents."""
        return x[:2]


class Grid(ContinuousModel):
    """Five generators and loads, each connected to all others by a line.

    State: five angles (rad), five rates (rad/s) relative to the grid's. Measured: four angles.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The swing equations."""
        angle, rate = x[:5], x[5:]
        power = jnp.array([0.8, -0.5, 0.6, -0.4, -0.5], x.dtype)
        pull = jnp.sum(jnp.sin(angle[:, None] - angle[None]), axis=1)
        return jnp.concatenate([rate, 10.0 * (power - pull) - rate])

    def observe(self, x: X, u: Input) -> Z:
        """Four of the angles."""
        return x[:4]


class Reactor(ContinuousModel):
    """A stirred tank with an exothermic reaction and a cooling jacket.

    State: the share that has reacted, and the dimensionless temperatures of tank and jacket (Uppal
    1974). Measured: the temperatures.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The balances of mass and of heat."""
        reacted, tank, jacket = x
        rate = 0.072 * (1.0 - reacted) * jnp.exp(tank / (1.0 + tank / 20.0))
        return jnp.stack(
            [
                -reacted + rate,
                -tank + 8.0 * rate + 0.6 * (jacket - tank),
                2.0 * (0.5 - jacket) + 0.4 * (tank - jacket),
            ]
        )

    def observe(self, x: X, u: Input) -> Z:
        """Both temperatures."""
        return x[1:]
