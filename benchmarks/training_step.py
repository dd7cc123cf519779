"""Training steps of the learned filter, in C and on XLA, against the naive per-record version.

At 3 states (Lorenz, B = 64, T = 60) and at 19 states with 6 sensors (B = 128, T = 100): the
quadrotor that flights train, a network of tanh units, and Lorenz-96, whose Jacobian costs both
sides most of their time. Last the quadrotor with an error state of 18 against that of 19 states.
Each contender makes five steps of gradient descent in one program, as training does.
Usage: python benchmarks/training_step.py
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import naive
from timing import race, show

import sagewing as sw
from sagewing.problems.flight.attitude import SIZES, measured_as, with_attitude
from sagewing.train import state_loss

DT = 0.01
STEPS = 5


class TanhNetwork(sw.Model):
    """Leaky units that drive one another; the first six are seen."""

    W: jax.Array

    def transition(self, x, u, dt):
        return x + dt * (jnp.tanh(self.W @ x) - x)

    def observe(self, x, u):
        return x[:6]


class Lorenz96(sw.ContinuousModel):
    """Lorenz 1996; every third of the first 18 sites is seen."""

    jacobian: str = eqx.field(static=True, default="exact")

    def drift(self, x, u):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0

    def observe(self, x, u):
        return x[:18:3]


def drawn(model, x, n_z, runs, steps, u):
    """Starts, the states and the measurements of so many records, and the inputs."""
    k_start, k_noise = jax.random.split(jax.random.key(0))
    x0 = jax.vmap(model.normalize)(x + 0.1 * jax.random.normal(k_start, (runs, x.size)))

    def record(x, key):
        def step(x, key):
            x = model.normalize(model.transition(x, u, DT))
            return x, (x, model.observe(x, u) + 0.3 * jax.random.normal(key, (n_z,)))

        return jax.lax.scan(step, x, jax.random.split(key, steps))[1]

    truth, z = jax.vmap(record)(x0, jax.random.split(k_noise, runs))
    inputs = None if u is None else jnp.broadcast_to(u, (runs, steps, u.size))
    return x0, truth, z, inputs


def descent(loss, model, arch, x0, truth, z, inputs):
    """Steps of gradient descent on the weights of a policy."""
    n, n_z = arch.n_x, z.shape[-1]
    policy = sw.Policy(arch, key=jax.random.key(1))
    weights, static = eqx.partition(policy, eqx.is_array)

    def of(weights, z, truth):
        policy = eqx.combine(weights, static)
        filt = sw.NDRSageHusa(model, jnp.full(n, 0.01), jnp.ones(n_z), policy)
        return loss(filt, x0, 0.1 * jnp.eye(n), z, truth, DT, u=inputs)

    @jax.jit
    def descend(weights, z, truth):
        def step(_, weights):
            slope = jax.grad(of)(weights, z, truth)
            return jax.tree.map(lambda w, g: w - 1e-6 * g, weights, slope)

        return jax.lax.fori_loop(0, STEPS, step, weights)

    return lambda: descend(weights, z, truth)


def race_naive(title, model, x, n_z, runs, steps, arch, u=None):
    """Against the same mathematics, written per record."""
    given = arch, *drawn(model, x, n_z, runs, steps, u)
    contenders = {
        "naive": descent(naive.loss, model, *given),
        "sagewing on XLA": descent(partial(state_loss, backend="jax"), model, *given),
        "sagewing in C": descent(partial(state_loss, backend="c"), model, *given),
    }
    _race(title, contenders, runs, steps)


def race_error_state(model, x, runs, steps, u):
    """18 errors against 19 states: the same flights, of which each measures the same rotations."""
    x0, truth, z, inputs = drawn(model, x, 6, runs, steps, u)
    turned = measured_as("error-state", z, jnp.ones(z.shape[:2], bool))
    contenders = {}
    for attitude, seen in (("euler", z), ("error-state", turned)):
        arch = sw.Architecture.flight(sum(SIZES[attitude]))
        filtered = with_attitude(model, attitude)
        contenders[attitude] = descent(state_loss, filtered, arch, x0, truth, seen, inputs)
    _race("quadrotor, 18 errors against 19 states", contenders, runs, steps)


def _race(title, contenders, runs, steps):
    seconds = race(contenders, rounds=7)
    title = f"{title}, B = {runs}, T = {steps}, for each step and record"
    show(title, seconds, next(iter(contenders)), STEPS * runs * steps)


def main() -> None:
    key = jax.random.key(3)
    x = jnp.sin(jnp.arange(19.0))
    chaos, flight = sw.Architecture(3, 2), sw.Architecture.flight()
    tanh = TanhNetwork(jax.random.normal(key, (19, 19)) / 2.0)
    race_naive(
        "Lorenz, 3 states", sw.models.Lorenz(), jnp.array([1.0, 1.0, 20.0]), 2, 64, 60, chaos
    )
    hover = jnp.zeros(19).at[6].set(1.0)
    imu = jnp.array([0.1, 0.2, 9.8, 0.1, -0.1, 0.2])
    quadrotor = sw.models.QuadrotorKinematic(jacobian="euler")
    race_naive("quadrotor, 19 states", quadrotor, hover, 6, 128, 100, flight, imu)
    race_naive("tanh network, 19 states", tanh, x, 6, 128, 100, flight)
    race_naive("Lorenz-96, 19 states", Lorenz96(), 8.0 + x, 6, 128, 100, flight)
    race_error_state(quadrotor, hover, 128, 100, imu)


if __name__ == "__main__":
    main()
