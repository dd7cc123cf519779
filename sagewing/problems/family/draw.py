"""A wide random family of systems and noises, on which the universal policy is trained.

States and channels are in units of their nominal standard deviations: Q0 = I, R0 = I. Systems with
fewer states or channels are padded with states that nothing depends on and with channels that never
arrive. In some episodes the filters' model is wrong: the truth has other coefficients, an
unmodelled force, or both.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from sagewing.problems.family.model import N_X, N_Z, PRODUCTS, Coefficients, FamilyModel
from sagewing.problems.family.sensors import add_sensors
from sagewing.problems.family.systems import SYSTEMS, FamilySystem, uniform
from sagewing.shapes import real_dtype

KINDS = tuple(SYSTEMS)
PADDING_DECAY = 0.5  # of a padded state in a step, which keeps it bounded
NOMINAL_SHARE = 0.1  # share of the episodes whose noise is the nominal one
RUNAWAY = 1e5  # nominal standard deviations; a truth beyond it has left its attractor


class FamilyNoise(NamedTuple):
    """The true noise of an episode: variances in units of Q0 = R0 = I, probabilities, bursts.

    `outlier`, `missing` and `missing_all` are probabilities: of an outlier, of a missing channel,
    and of a step without any. Other factors are of variances. A burst multiplies the noise for `on`
    steps of every `period`.
    """

    q: Float[Array, "n *batch"]
    r: Float[Array, "m *batch"]
    outlier: Float[Array, "*batch"]
    outlier_scale: Float[Array, "*batch"]
    missing: Float[Array, "*batch"]
    missing_all: Float[Array, "*batch"]
    burst_r: Float[Array, "m *batch"]
    burst_q: Float[Array, "*batch"]
    period: Float[Array, "*batch"]
    on: Float[Array, "*batch"]
    phase: Float[Array, "*batch"]


class Truth(NamedTuple):
    """The true coefficients, and an unmodelled periodic force with its period in steps.

    Where the model is not `wrong`, `u` holds the filters' coefficients and the force is zero.
    """

    u: Float[Array, "n_u *batch"]
    force: Float[Array, "n *batch"]
    force_period: Float[Array, "*batch"]
    wrong: Bool[Array, "*batch"]


class Drawn(NamedTuple):
    """Systems to simulate, batch last.

    `u` is the filters' input and `truth` the true system. `start` is the true first state, `spread`
    the standard deviation of the filters' start. `states` and `channels` are False for padding.
    `nominal_noise` is True where the noise is the nominal one; `kind` is an index of `KINDS`.
    """

    u: Float[Array, "n_u *batch"]
    truth: Truth
    start: Float[Array, "n *batch"]
    spread: Float[Array, "n *batch"]
    states: Bool[Array, "n *batch"]
    channels: Bool[Array, "m *batch"]
    noise: FamilyNoise
    nominal_noise: Bool[Array, "*batch"]
    kind: Float[Array, "*batch"]


def draw(keys: Shaped[PRNGKeyArray, "B"], wrong_models: float = 0.0) -> Drawn:
    """One system with its noise for each key; the filters' model is wrong in a share of them."""
    return jax.vmap(lambda key: _draw_one(key, wrong_models), out_axes=-1)(keys)


class SimulatedStep(NamedTuple):
    """One step: the true state, the measurement, which channels arrive, the true variances."""

    x: Float[Array, "n *batch"]
    z: Float[Array, "m *batch"]
    arrived: Bool[Array, "m *batch"]
    q: Float[Array, "n *batch"]
    r: Float[Array, "m *batch"]


def step(drawn: Drawn, x: Float[Array, "n B"], k: Array, key: PRNGKeyArray) -> SimulatedStep:
    """The true state after step k, and its measurement."""
    noise, model = drawn.noise, FamilyModel()
    k_w, k_v, k_out, k_missing, k_missing_all = jax.random.split(jax.random.fold_in(key, k), 5)
    burst = jnp.mod(k + noise.phase, noise.period) < noise.on
    q = noise.q * jnp.where(burst, noise.burst_q, 1.0)
    r = noise.r * jnp.where(burst, noise.burst_r, 1.0)
    outlier = jax.random.uniform(k_out, r.shape) < noise.outlier
    r = jnp.where(outlier, r * noise.outlier_scale, r)
    truth = drawn.truth
    x = jax.vmap(model.transition, in_axes=(-1, -1, None), out_axes=-1)(x, truth.u, 1.0)
    x = x + truth.force * jnp.sin(2.0 * math.pi * (k + noise.phase) / truth.force_period)
    w = jnp.sqrt(q) * jax.random.normal(k_w, x.shape, x.dtype)
    x = jnp.where(drawn.states, jnp.clip(jnp.nan_to_num(x + w), -RUNAWAY, RUNAWAY), 0.0)
    z = jax.vmap(model.observe, in_axes=-1, out_axes=-1)(x, truth.u)
    z = z + jnp.sqrt(r) * jax.random.normal(k_v, z.shape, z.dtype)
    missing = jax.random.uniform(k_missing, z.shape) < noise.missing
    missing = missing | (jax.random.uniform(k_missing_all, z.shape[1:]) < noise.missing_all)
    return SimulatedStep(x, z, drawn.channels & ~missing, q, r)


def _draw_one(key: PRNGKeyArray, wrong_models: float) -> Drawn:
    k_kind, k_system, k_sensors, k_noise, k_start = jax.random.split(key, 5)
    kind = jax.random.randint(k_kind, (), 0, len(KINDS))
    raw = jax.lax.switch(kind, [SYSTEMS[name] for name in KINDS], k_system)
    return _in_noise_units(raw, kind, wrong_models, k_sensors, k_noise, k_start)


def _in_noise_units(
    raw: FamilySystem,
    kind: Array,
    wrong_models: float,
    k_sensors: PRNGKeyArray,
    k_noise: PRNGKeyArray,
    k_start: PRNGKeyArray,
) -> Drawn:
    """The system in units of its nominal noise, with sensors and with its true noise."""
    k_q, k_each, k_H, k_r, k_rest = jax.random.split(k_sensors, 5)
    k_offset, k_distance, k_wrong, k_more = jax.random.split(k_rest, 4)
    states = jnp.arange(N_X) < raw.n_x
    # The nominal process noise relative to a state's range: in some systems it is so large that f
    # is curved within it
    more = jnp.maximum(uniform(k_more, -2.0, 0.9), 0.0)
    decades = uniform(k_q, -3.0, -1.6) + more + uniform(k_each, -0.4, 0.4, N_X)
    unit = jnp.where(states, raw.size * 10.0**decades, 1.0)
    offset = 3.0 * raw.size * jax.random.normal(k_offset, (N_X,)) * jax.random.uniform(k_distance)
    motion = _motion(raw, states, unit)
    nominal, channels = add_sensors(motion, raw, unit, offset, k_H, k_r)
    noise, nominal_noise = _noise(k_noise, states)
    k_wrong, k_truth = jax.random.split(k_wrong)
    wrong = (jax.random.uniform(k_wrong) < wrong_models) & ~nominal_noise
    k_x, k_spread = jax.random.split(k_start)
    start = (raw.middle + raw.size * jax.random.normal(k_x, (N_X,))) / unit
    spread = 10.0 ** uniform(k_spread, 0.0, 1.2, N_X)
    return Drawn(
        ravel_pytree(nominal)[0].astype(real_dtype()),
        _truth(k_truth, wrong, nominal, states),
        jnp.where(states, start, 0.0),
        jnp.where(states, spread, 1.0),
        states,
        channels,
        noise,
        nominal_noise,
        kind.astype(real_dtype()),
    )


def _motion(raw: FamilySystem, states: Bool[Array, "n"], unit: Float[Array, "n"]) -> Coefficients:
    """The coefficients of the transition, in these units and for a time step of 1."""
    c, dt = raw.c, raw.dt
    A = dt * c.A * unit[None] / unit[:, None]
    by_name = dict(zip("xyz", unit, strict=False))
    products = jnp.stack([math.prod(by_name[state] for state in name) for name in PRODUCTS])
    return c._replace(
        A=jnp.where(states[:, None] & states[None], A, -PADDING_DECAY * jnp.eye(N_X)),
        W=jnp.where(states[:, None], dt * c.W / unit[:, None], 0.0),
        V=jnp.where(states[None], c.V * unit[None], 0.0),
        B=jnp.where(states[:, None], dt * c.B * products / unit[:, None], 0.0),
    )


def _truth(
    key: PRNGKeyArray, wrong: Bool[Array, ""], nominal: Coefficients, states: Bool[Array, "n"]
) -> Truth:
    """The true system: where the model is wrong, other coefficients, a force, or both."""
    k_which, k_error, k_force, k_states, k_period, *k_each = jax.random.split(key, 9)
    which = jax.random.uniform(k_which)
    error = jnp.where(wrong & (which < 0.6), 10.0 ** uniform(k_error, -2.0, -0.5), 0.0)
    forced = wrong & (which > 0.4) & (jax.random.uniform(k_states, (N_X,)) < 0.5)
    force = jnp.where(forced & states, 10.0 ** uniform(k_force, -1.5, 0.7, N_X), 0.0)

    def perturbed(key: PRNGKeyArray, a: Array, share: float = 1.0) -> Array:
        return a * (1.0 + share * error * jax.random.normal(key, a.shape))

    true = nominal._replace(
        A=jnp.where(states[:, None], perturbed(k_each[0], nominal.A), nominal.A),
        W=perturbed(k_each[1], nominal.W),
        B=perturbed(k_each[2], nominal.B),
        H=perturbed(k_each[3], nominal.H, 0.3),
    )
    u = ravel_pytree(true)[0].astype(real_dtype())
    return Truth(u, force.astype(u.dtype), 10.0 ** uniform(k_period, 1.5, 3.7), wrong)


def _noise(key: PRNGKeyArray, states: Bool[Array, "n"]) -> tuple[FamilyNoise, Bool[Array, ""]]:
    """Nominal noise, or a wrong Q, a wrong R, outliers, bursts, gaps, alone or together."""
    keys = iter(jax.random.split(key, 24))

    def chance(p: float) -> Array:
        return jax.random.uniform(next(keys)) < p

    nominal = chance(NOMINAL_SHARE)
    # In some episodes only Q or only R is wrong; in the others both may be, and more
    only_one, only_q = chance(0.6), chance(0.45)
    wrong_q = jnp.where(only_one, only_q, chance(0.7))
    wrong_r = jnp.where(only_one, ~only_q, chance(0.7))
    log_q = jnp.where(chance(0.35), uniform(next(keys), -4.5, -2.0), uniform(next(keys), -2.0, 1.5))
    log_q = jnp.where(wrong_q, log_q, 0.0) + uniform(next(keys), -0.4, 0.4, N_X) * wrong_q
    log_r = jnp.where(wrong_r, uniform(next(keys), -0.7, 2.0), 0.0)
    log_r = log_r + uniform(next(keys), -0.4, 0.4, N_Z) * wrong_r
    outlier = jnp.where(chance(0.35) & ~only_one, uniform(next(keys), 0.01, 0.12), 0.0)
    which = jnp.where(only_one, 1.0, jax.random.uniform(next(keys)))
    bursts_r = (which < 0.3) * uniform(next(keys), 0.5, 1.7, N_Z)
    bursts_q = ((which > 0.25) & (which < 0.42)) * uniform(next(keys), 0.5, 2.0)
    period = 10.0 ** uniform(next(keys), 1.7, 3.0)
    return FamilyNoise(
        q=jnp.where(states, 10.0 ** jnp.where(nominal, 0.0, log_q), 0.0),
        r=10.0 ** jnp.where(nominal, 0.0, log_r),
        outlier=jnp.where(nominal, 0.0, outlier),
        outlier_scale=10.0 ** uniform(next(keys), 1.0, 2.6),
        missing=jnp.where(chance(0.25), uniform(next(keys), 0.0, 0.5), 0.0),
        missing_all=jnp.where(chance(0.15), uniform(next(keys), 0.0, 0.8), 0.0),
        burst_r=10.0 ** jnp.where(nominal, 0.0, bursts_r),
        burst_q=10.0 ** jnp.where(nominal, 0.0, bursts_q),
        period=period,
        on=period * uniform(next(keys), 0.1, 0.6),
        phase=period * jax.random.uniform(next(keys)),
    ), nominal
