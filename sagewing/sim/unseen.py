"""Systems that the training family does not hold, and what may be wrong with their noise.

What the universal policy is measured on, and nothing else: no setting of it was chosen here. The
family has radars, and flows that are as smooth as Rössler's; it draws none of these systems.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from sagewing.models import ContinuousModel, Model, Rossler
from sagewing.models.angles import wrap_angle
from sagewing.shapes import Duration, Input, X, Z, real_dtype


class CoordinatedTurn(Model):
    """An aircraft that turns at an unknown rate, seen by a radar at the origin.

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
        """The bearing's difference is an angle."""
        nu = z - z_hat
        return nu.at[1].set(wrap_angle(nu[1]))


class Masses(Model):
    """Four masses in a row, joined by springs and dampers to each other and to a wall.

    State: four positions, four velocities. Measured: the positions, each with a bit of the next.
    """

    stiffness: float = 4.0
    damping: float = 0.1

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Semi-implicit Euler."""
        at, v = x[:4], x[4:]
        beside = jnp.concatenate([jnp.zeros_like(at[:1]), at, at[-1:]])
        force = beside[:-2] - 2.0 * at + beside[2:]
        v = v + dt * (self.stiffness * force - self.damping * v)
        return jnp.concatenate([at + dt * v, v])

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
    """Johansson's quadruple-tank process (2000): four levels in cm, the lower two seen.

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


class Orbit(ContinuousModel):
    """A satellite around a point mass, its range seen from three stations.

    Units: the Earth's radius and the time in which mu = 1 (806.8 s).
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Newton's law."""
        at, v = x[:3], x[3:]
        return jnp.concatenate([v, -at / jnp.sum(at**2) ** 1.5])

    def observe(self, x: X, u: Input) -> Z:
        """The distances from three places on the Earth, which stands still."""
        stations = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.6], [0.0, -0.6, 0.8]], x.dtype)
        return jnp.sqrt(jnp.sum((x[:3] - stations) ** 2, axis=1))


class Vehicle(Model):
    """A car as a bicycle: position, heading, speed and steering angle (m, rad, m/s).

    Measured: the position, and the speed.
    """

    wheelbase: float = 2.7

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """Speed and steering stay what they are."""
        p1, p2, heading, v, steering = x
        turn = dt * v * jnp.tan(jnp.clip(steering, -1.0, 1.0)) / self.wheelbase
        middle = heading + 0.5 * turn
        moved = [p1 + dt * v * jnp.cos(middle), p2 + dt * v * jnp.sin(middle), heading + turn]
        return jnp.stack([*moved, v, steering])

    def observe(self, x: X, u: Input) -> Z:
        """Position and speed."""
        return x[jnp.array([0, 1, 3])]


class Neuron(ContinuousModel):
    """Hindmarsh and Rose's model of a neuron that fires in bursts (1984); its potential is seen."""

    current: float = 3.2
    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """The potential, the fast currents, the slow one."""
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
        beside = jnp.concatenate([x[:1], x, x[-1:]])
        conducted = 0.5 * (beside[:-2] - 2.0 * x + beside[2:])
        radiated = 2e-4 * (x**4 - 3.0**4)
        return x + dt * (conducted - radiated).at[0].add(1.0)

    def observe(self, x: X, u: Input) -> Z:
        """Four thermometers."""
        return x[1::3]


class Arm(ContinuousModel):
    """An arm with a weight at its elbow and at its hand: a double pendulum, a little damped.

    State: both angles from below, and their rates. Measured: where the hand is, in a plane.
    """

    jacobian: Any = eqx.field(static=True, default="exact")

    def drift(self, x: X, u: Input) -> X:
        """Lagrange's equations for two masses of 1 kg, each at the end of a metre."""
        a, b, va, vb = x
        g, apart = 9.81, a - b
        below = 3.0 - jnp.cos(2.0 * apart)
        pull = jnp.sin(apart) * (vb**2 + va**2 * jnp.cos(apart))
        upper = -3.0 * g * jnp.sin(a) - g * jnp.sin(a - 2.0 * b) - 2.0 * pull
        swing = 2.0 * va**2 + 2.0 * g * jnp.cos(a) + vb**2 * jnp.cos(apart)
        lower = 2.0 * jnp.sin(apart) * swing
        return jnp.stack([va, vb, upper / below - 0.05 * va, lower / below - 0.05 * vb])

    def observe(self, x: X, u: Input) -> Z:
        """The hand."""
        a, b = x[:2]
        return jnp.stack([jnp.sin(a) + jnp.sin(b), -jnp.cos(a) - jnp.cos(b)])


@dataclass(frozen=True)
class Unseen:
    """A system, its nominal noise, and how its episodes begin: a draw, then so many steps."""

    model: Model
    q0: tuple[float, ...]
    r0: tuple[float, ...]
    P0: tuple[float, ...]
    dt: float
    middle: tuple[float, ...]
    spread: tuple[float, ...]
    settle: int = 0


UNSEEN: dict[str, Unseen] = {
    "turn": Unseen(
        CoordinatedTurn(),
        q0=(0.25, 0.25, 0.25, 0.25, 1e-6),
        r0=(100.0, 1e-4),
        P0=(400.0, 25.0, 400.0, 25.0, 1e-4),
        dt=0.5,
        middle=(2000.0, -30.0, 3000.0, 40.0, 0.0),
        spread=(1000.0, 30.0, 1000.0, 30.0, 0.05),
    ),
    "masses": Unseen(
        Masses(),
        q0=(1e-4,) * 4 + (4e-3,) * 4,
        r0=(0.05, 0.05, 0.2, 0.2),
        P0=(0.1,) * 8,
        dt=0.05,
        middle=(0.0,) * 8,
        spread=(1.0,) * 4 + (2.0,) * 4,
    ),
    "lorenz96": Unseen(
        Lorenz96(),
        q0=(0.01,) * 8,
        r0=(1.0,) * 4,
        P0=(1.0,) * 8,
        dt=0.02,
        middle=(3.0,) * 8,
        spread=(3.0,) * 8,
        settle=300,
    ),
    "rossler": Unseen(
        Rossler(),
        q0=(1e-4,) * 3,
        r0=(1.0, 0.04),
        P0=(0.1,) * 3,
        dt=0.03,
        middle=(0.0, 0.0, 1.0),
        spread=(3.0, 3.0, 0.1),
        settle=300,
    ),
    # Written when the first training was under way.
    "tanks": Unseen(
        Tanks(),
        q0=(4e-3,) * 4,
        r0=(0.25, 0.25),
        P0=(1.0,) * 4,
        dt=2.0,
        middle=(12.4, 12.7, 1.8, 1.4),
        spread=(2.0, 2.0, 0.3, 0.3),
    ),
    "orbit": Unseen(
        Orbit(),
        q0=(1e-9,) * 3 + (1e-8,) * 3,
        r0=(1e-6,) * 3,
        P0=(1e-5,) * 6,
        dt=0.05,
        middle=(1.6, 0.0, 0.0, 0.0, 0.6, 0.5),
        spread=(0.05,) * 3 + (0.03,) * 3,
    ),
    # Written while an earlier training was under way.
    "vehicle": Unseen(
        Vehicle(),
        q0=(1e-3, 1e-3, 1e-5, 1e-2, 1e-4),
        r0=(1.0, 1.0, 0.04),
        P0=(1.0, 1.0, 0.01, 0.25, 1e-3),
        dt=0.1,
        middle=(0.0, 0.0, 0.0, 10.0, 0.0),
        spread=(5.0, 5.0, 1.0, 2.0, 0.03),
    ),
    "neuron": Unseen(
        Neuron(),
        q0=(4e-4, 4e-4, 1e-6),
        r0=(0.04,),
        P0=(0.04, 0.04, 0.01),
        dt=0.05,
        middle=(-1.0, -4.0, 3.0),
        spread=(0.3, 1.0, 0.1),
        settle=400,
    ),
    # Written while the training of what ships was under way, and run once.
    "rod": Unseen(
        Rod(),
        q0=(1e-4,) * 12,
        r0=(0.01,) * 4,
        P0=(0.04,) * 12,
        dt=0.2,
        middle=(4.0,) * 12,
        spread=(0.5,) * 12,
        settle=200,
    ),
    "arm": Unseen(
        Arm(),
        q0=(1e-6, 1e-6, 4e-4, 4e-4),
        r0=(2.5e-3, 2.5e-3),
        P0=(0.01, 0.01, 0.04, 0.04),
        dt=0.02,
        middle=(0.0, 0.0, 0.0, 0.0),
        spread=(0.8, 0.8, 0.5, 0.5),
    ),
}


class Case(NamedTuple):
    """What is wrong: factors of the variances, outliers, a burst of noise, gaps."""

    q: float | Array = 1.0
    r: float | Array = 1.0
    burst: float | Array = 1.0  # factor of R in the middle third
    outlier: float | Array = 0.0  # probability, channel by channel
    outlier_scale: float | Array = 100.0  # factor of R in one
    missing: float | Array = 0.0  # probability, channel by channel


CASES = {
    "right": Case(),
    "r-20": Case(r=20.0),
    "bursts": Case(burst=30.0, outlier=0.05),
    "q-10": Case(q=10.0),
    "mixture": Case(q=0.1, r=4.0, outlier=0.05, outlier_scale=50.0, missing=0.25),
}


class Episodes(NamedTuple):
    """Records to filter, time first and batch last; `q` and `r` are the true variances."""

    x0: Float[Array, "n_x B"]
    truth: Float[Array, "T n_x B"]
    z: Float[Array, "T n_z B"]
    arrived: Bool[Array, "T n_z B"]
    q: Float[Array, "T n_x B"]
    r: Float[Array, "T n_z B"]


def episodes(system: Unseen, case: Any, key: PRNGKeyArray, runs: int, steps: int) -> Episodes:
    """So many records of a system; record i depends on the key and on i alone."""
    made = jax.vmap(_episode(system, case, steps), out_axes=-1)(jax.random.split(key, runs))
    return Episodes(*made)


def _episode(system: Unseen, case: Any, steps: int) -> Callable[[PRNGKeyArray], Any]:
    model = system.model
    q0, r0, P0, middle, spread = (
        jnp.asarray(np.asarray(a), real_dtype())
        for a in (system.q0, system.r0, system.P0, system.middle, system.spread)
    )

    def episode(key: PRNGKeyArray) -> Any:
        k_start, k_first, k_noise = jax.random.split(key, 3)
        s0 = middle + spread * jax.random.normal(k_start, middle.shape)
        s0 = jax.lax.fori_loop(
            0, system.settle, lambda _, s: model.transition(s, None, system.dt), s0
        )
        x0 = s0 + jnp.sqrt(P0) * jax.random.normal(k_first, s0.shape)

        def step(s: Array, k: Array) -> tuple[Array, Any]:
            k_w, k_v, k_out, k_miss = jax.random.split(jax.random.fold_in(k_noise, k), 4)
            q = q0 * case.q
            s = model.transition(s, None, system.dt)
            s = s + jnp.sqrt(q) * jax.random.normal(k_w, q.shape)
            burst = (k >= steps // 3) & (k < 2 * steps // 3)
            outlier = jax.random.uniform(k_out, r0.shape) < case.outlier
            r = r0 * case.r * jnp.where(burst, case.burst, 1.0)
            r = jnp.where(outlier, r * case.outlier_scale, r)
            z = model.observe(s, None) + jnp.sqrt(r) * jax.random.normal(k_v, r.shape)
            arrived = jax.random.uniform(k_miss, r0.shape) >= case.missing
            return s, (s, z, arrived, q, r)

        return x0, *jax.lax.scan(step, s0, jnp.arange(steps))[1]

    return episode
