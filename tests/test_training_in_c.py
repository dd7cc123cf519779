"""The C of a training computes what XLA computes, and its derivative."""

from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import sagewing as sw
from sagewing.train import Schedule, state_loss, train
from sagewing.train.loop import Stage

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

RECORDS, STEPS, DT = 5, 40, 0.1  # records that do not fill the lanes, more steps than one block
NETWORK = sw.Architecture(
    2, 2, depth=2, hidden=4, encoder=(4,), context=(4,), head=(4,), decoder=(4,)
)


class Pendulum(sw.Model):
    """An angle and its rate, pushed by an input; both are seen."""

    pull: float = eqx.field(static=True, default=1.0)

    def transition(self, x, u: Any, dt):
        return jnp.array([x[0] + dt * x[1], x[1] - dt * self.pull * jnp.sin(x[0]) + dt * u[0]])

    def observe(self, x, u):
        return x


class Sorted(Pendulum):
    """A pendulum whose measurements come in an order that C does not know."""

    def observe(self, x, u):
        return jnp.sort(x)


class Learned(eqx.Module):
    """What is trained: a network and the nominal noise, with a row of R for each mode."""

    policy: sw.Policy
    log_q: jax.Array
    log_r: jax.Array

    def __init__(self, key):
        self.policy = sw.Policy(NETWORK, gain_noise="posterior", key=key)
        self.log_q, self.log_r = jnp.full(2, -4.0), jnp.array([[-2.0, -2.0], [0.0, 0.0]])


def drawn(modes: bool = True) -> tuple[np.ndarray, ...]:
    """Starts, measurements with gaps, states and inputs of some records."""
    rng = np.random.default_rng(0)
    x = np.empty((RECORDS, STEPS, 2))
    x0 = last = rng.normal(size=(RECORDS, 2))
    pushed = rng.normal(size=(RECORDS, STEPS))
    for k in range(STEPS):
        rate = last[:, 1] - DT * np.sin(last[:, 0]) + DT * pushed[:, k]
        last = x[:, k] = np.stack([last[:, 0] + DT * last[:, 1], rate], axis=-1)
    z = x + 0.3 * rng.normal(size=x.shape)
    z[rng.random(z.shape) < 0.2] = np.nan
    mode = (np.arange(STEPS) // 10 % 2) * np.ones((RECORDS, 1))
    u = [mode, pushed, pushed] if modes else [pushed]
    return x0, z, x, np.stack(u, axis=-1)


def loss(
    learned: Learned, key: Any = None, more: Any = 0.0, *, model: Any = None, backend: Any
) -> jax.Array:
    """The loss of measurements to which `more` is added."""
    model = model or sw.models.Switched((Pendulum(), Pendulum(0.5)), inputs=((0, 1), (1, 2)))
    x0, z, x, u = map(jnp.asarray, drawn(isinstance(model, sw.models.Switched)))
    log_r = learned.log_r if isinstance(model, sw.models.Switched) else learned.log_r[0]
    filt = sw.NDRSageHusa(model, jnp.exp(learned.log_q), jnp.exp(log_r), learned.policy, gate=5.0)
    return state_loss(filt, x0, 0.1 * jnp.eye(2), z + more, x, DT, u=u, backend=backend)


@cache
def compiled(backend: str, wide: bool) -> Any:
    """The loss and its derivative, as functions of a vector of all that is learned."""
    with jax.enable_x64(wide):
        learned = Learned(jax.random.key(0))
        weights, static = eqx.partition(learned, eqx.is_inexact_array)
        flat, unravel = ravel_pytree(weights)

        def of(flat: jax.Array, more: jax.Array) -> jax.Array:
            return loss(eqx.combine(unravel(flat), static), more=more, backend=backend)

        return jax.jit(jax.value_and_grad(of)), flat


@pytest.mark.parametrize(("wide", "tolerance"), [(False, 1e-5), (True, 1e-10)])
def test_the_derivative_is_that_of_xla(wide, tolerance):
    """Of a model that switches, with inputs, gaps, a gate, trained noise and refused channels."""
    with jax.enable_x64(wide):
        more = np.zeros((RECORDS, STEPS, 2))
        more[1, 20, 0] = 1e4
        (value, slope), (expected, by_xla) = (
            function(flat, jnp.asarray(more))
            for function, flat in (compiled("c", wide), compiled("jax", wide))
        )
        np.testing.assert_allclose(value, expected, rtol=tolerance)
        np.testing.assert_allclose(slope, by_xla, rtol=0, atol=tolerance * np.abs(by_xla).max())
        assert np.count_nonzero(slope) > 0.5 * slope.size


def test_the_derivative_agrees_with_finite_differences():
    with jax.enable_x64(True):
        function, flat = compiled("c", True)
        direction = np.random.default_rng(1).normal(size=flat.size)
        h = 1e-6
        none = jnp.zeros((RECORDS, STEPS, 2))
        ahead, behind = (function(flat + s * h * direction, none)[0] for s in (1.0, -1.0))
        slope = function(flat, none)[1] @ direction
        np.testing.assert_allclose(slope, (ahead - behind) / (2.0 * h), rtol=1e-5)


def test_a_resumed_training_gives_the_same_bits(tmp_path):
    """Interrupted in the second stage and resumed from the end of the first."""
    stages = [Stage(until, partial(loss, backend="c")) for until in (1, 2)]

    def go(folder: str, **options: Any) -> Any:
        schedule = Schedule(epochs=2, learning_rate=1e-2)
        return train(Learned, stages, schedule, [0], folder=tmp_path / folder, **options)

    def interrupt(progress: Any) -> None:
        if progress.epoch > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go("interrupted", report=interrupt)
    resumed = go("interrupted", resume=True).models[0]
    for a, b in zip(*map(jax.tree.leaves, (resumed, go("quiet").models[0])), strict=True):
        assert np.array_equal(a, b)


def test_what_has_no_c_trains_in_jax():
    learned = Learned(jax.random.key(0))

    def slope(backend: str) -> list[jax.Array]:
        of = eqx.filter_jit(eqx.filter_grad(partial(loss, model=Sorted(), backend=backend)))
        return jax.tree.leaves(of(learned))

    for a, b in zip(slope("auto"), slope("jax"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    with pytest.raises(sw.InputError, match="sort"):
        slope("c")
