"""A wide random family of systems and noises: what the universal policy is trained on.

One equation holds them all, with coefficients that come in as the model's input:

    x+ = x + a(x + a(x) / 2)
    a(x) = A x + W sin(V x + phi) + (0, p_1 x_1 x_3 + p_3 x_1^2 x_2, p_2 x_1 x_2, 0, 0)
    z = y + skew sin(y), y = H x, or the distance |H (x - c)|

so Lorenz, Chen, Thomas, Van der Pol, pendulums, linear systems, constant velocity and networks of
sines are one compiled program. A state's unit is its nominal noise, and so is a channel's: Q0 = I,
R0 = I, and the time step is 1. Systems with fewer states or channels are padded with states that
nothing depends on and with channels that never arrive.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from sagewing.models import Model
from sagewing.shapes import XX, ZX, Duration, Input, Scalar, X, Z, real_dtype

N_X, N_Z = 5, 3
KINDS = (
    *("lorenz", "chen", "thomas", "van-der-pol", "pendulum"),
    *("linear", "slow", "velocity", "sines"),
)
PADDING_DECAY = 0.5  # of a padded state in a step: it stays bounded
NOTHING_WRONG = 0.2  # of the episodes
RUNAWAY = 1e5  # times its noise; a truth beyond it has left its attractor


class Coefficients(NamedTuple):
    """The numbers of one system, in units of its nominal noise."""

    A: Float[Array, "n n"]
    W: Float[Array, "n n"]
    V: Float[Array, "n n"]
    phi: Float[Array, "n"]
    p: Float[Array, "3"]
    H: Float[Array, "m n"]
    skew: Float[Array, "m"]
    wave: Float[Array, "m"]
    far: Float[Array, "m"]
    centre: Float[Array, "n"]


def _none() -> Coefficients:
    x, z, xx = jnp.zeros(N_X), jnp.zeros(N_Z), jnp.zeros((N_X, N_X))
    return Coefficients(xx, xx, xx, x, jnp.zeros(3), jnp.zeros((N_Z, N_X)), z, z + 1.0, z, x)


class FamilyModel(Model):
    """Any system of the family; its input are its coefficients."""

    def transition(self, x: X, u: Input, dt: Duration) -> X:
        """A step of the midpoint rule."""
        c = _unpacked(u)
        return x + _drift(x + 0.5 * _drift(x, c), c)

    def transition_jacobian(self, x: X, u: Input, dt: Duration) -> XX:
        """F of that step."""
        c = _unpacked(u)
        first, second = _slope(x, c), _slope(x + 0.5 * _drift(x, c), c)
        return jnp.eye(N_X, dtype=x.dtype) + second + 0.5 * _product(second, first)

    def observe(self, x: X, u: Input) -> Z:
        """A sum of states, with a wave on it; or a distance."""
        c = _unpacked(u)
        y = _applied(c.H, x)
        return jnp.where(c.far > 0.0, _distance(x, c), y + c.skew * c.wave * jnp.sin(y / c.wave))

    def observe_jacobian(self, x: X, u: Input) -> ZX:
        """H of these."""
        c = _unpacked(u)
        slope = 1.0 + c.skew * jnp.cos(_applied(c.H, x) / c.wave)
        of_distance = c.H**2 * (x - c.centre) / _distance(x, c)[:, None]
        return jnp.where(c.far[:, None] > 0.0, of_distance, c.H * slope[:, None])


def _unpacked(u: Input) -> Coefficients:
    flat, unravel = ravel_pytree(_none())
    assert u is not None
    return unravel(u.astype(flat.dtype))


# Sums over the inner index one by one: fast with a batch in the last axis, see filters/kernels.py.
def _applied(A: Array, x: Array) -> Array:
    return sum((A[:, j] * x[j] for j in range(1, len(x))), A[:, 0] * x[0])


def _product(A: Array, B: Array) -> Array:
    return sum((A[:, j, None] * B[j] for j in range(1, len(B))), A[:, 0, None] * B[0])


def _drift(x: X, c: Coefficients) -> X:
    linear = _applied(c.A, x) + _applied(c.W, jnp.sin(_applied(c.V, x) + c.phi))
    x1, x2, x3, *_ = x
    zero = jnp.zeros_like(x1)
    products = [zero, c.p[0] * x1 * x3 + c.p[2] * x1**2 * x2, c.p[1] * x1 * x2, zero, zero]
    return linear + jnp.stack(products)


def _slope(x: X, c: Coefficients) -> XX:
    """The derivative of the drift."""
    linear = c.A + _product(c.W, jnp.cos(_applied(c.V, x) + c.phi)[:, None] * c.V)
    x1, x2, x3, *_ = x
    zero = jnp.zeros_like(x1)
    none = jnp.stack([zero] * N_X)
    second = [c.p[0] * x3 + 2.0 * c.p[2] * x1 * x2, c.p[2] * x1**2, c.p[0] * x1, zero, zero]
    third = [c.p[1] * x2, c.p[1] * x1, zero, zero, zero]
    return linear + jnp.stack([none, jnp.stack(second), jnp.stack(third), none, none])


def _distance(x: X, c: Coefficients) -> Z:
    return jnp.sqrt(jnp.sum((c.H * (x - c.centre)) ** 2, axis=1) + 1e-3)


class Noise(NamedTuple):
    """What is wrong with an episode's noise; factors are those of variances, over Q0 = R0 = I.

    A burst multiplies the noise for `on` steps of every `period`.
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


class Drawn(NamedTuple):
    """Systems to simulate, batch last: coefficients, starts, what is real of them, their noise."""

    u: Float[Array, "n_u *batch"]
    start: Float[Array, "n *batch"]
    spread: Float[Array, "n *batch"]
    states: Bool[Array, "n *batch"]
    channels: Bool[Array, "m *batch"]
    noise: Noise
    right: Bool[Array, "*batch"]
    kind: Float[Array, "*batch"]


def draw(keys: Shaped[PRNGKeyArray, "B"]) -> Drawn:
    """One system and its noise for each key."""
    return jax.vmap(_one, out_axes=-1)(keys)


class Moment(NamedTuple):
    """A step of an episode: the truth, what is measured and arrives, and the noise in it."""

    x: Float[Array, "n *batch"]
    z: Float[Array, "m *batch"]
    arrived: Bool[Array, "m *batch"]
    q: Float[Array, "n *batch"]
    r: Float[Array, "m *batch"]


def step(drawn: Drawn, x: Float[Array, "n B"], k: Array, key: PRNGKeyArray) -> Moment:
    """The truth one step on, and its measurement."""
    noise, model = drawn.noise, FamilyModel()
    k_w, k_v, k_out, k_some, k_all = jax.random.split(jax.random.fold_in(key, k), 5)
    burst = jnp.mod(k + noise.phase, noise.period) < noise.on
    q = noise.q * jnp.where(burst, noise.burst_q, 1.0)
    r = noise.r * jnp.where(burst, noise.burst_r, 1.0)
    outlier = jax.random.uniform(k_out, r.shape) < noise.outlier
    r = jnp.where(outlier, r * noise.outlier_scale, r)
    x = jax.vmap(model.transition, in_axes=(-1, -1, None), out_axes=-1)(x, drawn.u, 1.0)
    w = jnp.sqrt(q) * jax.random.normal(k_w, x.shape, x.dtype)
    x = jnp.where(drawn.states, jnp.clip(jnp.nan_to_num(x + w), -RUNAWAY, RUNAWAY), 0.0)
    z = jax.vmap(model.observe, in_axes=-1, out_axes=-1)(x, drawn.u)
    z = z + jnp.sqrt(r) * jax.random.normal(k_v, z.shape, z.dtype)
    missing = jax.random.uniform(k_some, z.shape) < noise.missing
    missing = missing | (jax.random.uniform(k_all, z.shape[1:]) < noise.missing_all)
    return Moment(x, z, drawn.channels & ~missing, q, r)


def _one(key: PRNGKeyArray) -> Drawn:
    k_kind, k_system, k_seen, k_noise, k_start = jax.random.split(key, 5)
    kind = jax.random.randint(k_kind, (), 0, len(KINDS))
    raw = jax.lax.switch(kind, [SYSTEMS[name] for name in KINDS], k_system)
    return _in_units(raw, kind, k_seen, k_noise, k_start)


class _System(NamedTuple):
    """A system in its own units: coefficients, how far its states range and around what."""

    c: Coefficients
    n_x: Array
    size: Float[Array, "n"]
    middle: Float[Array, "n"]
    dt: Scalar


def _in_units(
    raw: _System, kind: Array, k_seen: PRNGKeyArray, k_noise: PRNGKeyArray, k_start: PRNGKeyArray
) -> Drawn:
    """The system in units of a nominal noise, seen by some sensors, with its true noise."""
    k_q, k_each, k_H, k_r, k_rest = jax.random.split(k_seen, 5)
    c, dt = raw.c, raw.dt
    states = jnp.arange(N_X) < raw.n_x
    # The nominal process noise, against how far a state ranges
    decades = _uniform(k_q, -3.0, -1.6) + _uniform(k_each, -0.4, 0.4, N_X)
    unit = jnp.where(states, raw.size * 10.0**decades, 1.0)
    A = dt * c.A * unit[None] / unit[:, None]
    A = jnp.where(states[:, None] & states[None], A, -PADDING_DECAY * jnp.eye(N_X))
    p = (
        dt
        * c.p
        * jnp.stack([unit[0] * unit[2] / unit[1], unit[0] * unit[1] / unit[2], unit[0] ** 2])
    )
    W = jnp.where(states[:, None], dt * c.W / unit[:, None], 0.0)
    V = jnp.where(states[None], c.V * unit[None], 0.0)
    # Sensors: of one state mostly, or of a mixture; linear mostly
    k_n, k_which, k_mix, k_mixed, k_form, k_skew, k_wave = jax.random.split(k_H, 7)
    n_z = jax.random.randint(k_n, (), 1, jnp.minimum(raw.n_x, N_Z) + 1)
    n_z = jnp.where(raw.n_x > 3, jnp.maximum(n_z, 2), n_z)
    channels = jnp.arange(N_Z) < n_z
    order = jnp.argsort(jnp.where(states, jax.random.uniform(k_which, (N_X,)), 2.0))
    # Positions are measured before velocities
    places = jnp.where(raw.n_x > 3, jnp.array([0, 2, 1, 3, 4]), jnp.arange(N_X))
    order = jnp.where(kind == KINDS.index("velocity"), places, order)
    one = jnp.eye(N_X)[order[:N_Z]]
    mixture = jax.random.normal(k_mix, (N_Z, N_X)) * unit / raw.size
    mixed = jax.random.uniform(k_mixed, (N_Z, 1)) < 0.25
    form = jax.random.uniform(k_form, (N_Z,))
    far = form < 0.15
    H = jnp.where(states, jnp.where(mixed | far[:, None], mixture, one), 0.0)
    # The nominal measurement noise, against what the process noise adds in a step
    weak = kind == KINDS.index("slow")
    decades = _uniform(k_r, 0.0, 1.6, N_Z) + jnp.where(weak, 0.5, 0.0)
    seen = jnp.sqrt(jnp.sum(H**2, axis=1))
    H = jnp.where(channels[:, None], H / (seen * 10.0**decades + 1e-9)[:, None], 0.0)
    k_centre, k_rest = jax.random.split(k_rest)
    centre = (raw.middle + 3.0 * raw.size * jax.random.normal(k_centre, (N_X,))) / unit
    reach = jnp.sqrt(jnp.sum((H * raw.size / unit) ** 2, axis=1)) + 1.0
    skew = jnp.where((form > 0.7) & ~far, _uniform(k_skew, -0.7, 0.7, N_Z), 0.0)
    wave = reach * 10.0 ** _uniform(k_wave, -0.3, 0.5, N_Z)
    made = Coefficients(A, W, V, c.phi, p, H, skew, wave, far.astype(A.dtype), centre * states)
    noise, right = _noise(k_noise, states)
    k_at, k_spread = jax.random.split(k_start)
    at = (raw.middle + raw.size * jax.random.normal(k_at, (N_X,))) / unit
    spread = 10.0 ** _uniform(k_spread, 0.0, 1.2, N_X)
    return Drawn(
        ravel_pytree(made)[0].astype(real_dtype()),
        jnp.where(states, at, 0.0),
        jnp.where(states, spread, 1.0),
        states,
        channels,
        noise,
        right,
        kind.astype(real_dtype()),
    )


def _noise(key: PRNGKeyArray, states: Bool[Array, "n"]) -> tuple[Noise, Bool[Array, ""]]:
    """Nothing wrong, or a wrong Q, a wrong R, outliers, bursts, gaps, alone or together."""
    keys = iter(jax.random.split(key, 24))

    def chance(p: float) -> Array:
        return jax.random.uniform(next(keys)) < p

    right = chance(NOTHING_WRONG)
    # In some episodes Q alone is wrong, or R alone; in the others each may be, and more besides
    alone, of_q = chance(0.25), chance(0.5)
    wrong_q = jnp.where(alone, of_q, chance(0.7))
    wrong_r = jnp.where(alone, ~of_q, chance(0.7))
    log_q = jnp.where(
        chance(0.25), _uniform(next(keys), -4.5, -2.0), _uniform(next(keys), -2.0, 1.5)
    )
    log_q = jnp.where(wrong_q, log_q, 0.0) + _uniform(next(keys), -0.4, 0.4, N_X) * wrong_q
    log_r = jnp.where(wrong_r, _uniform(next(keys), -0.7, 2.0), 0.0)
    log_r = log_r + _uniform(next(keys), -0.4, 0.4, N_Z) * wrong_r
    outlier = jnp.where(chance(0.35) & ~alone, _uniform(next(keys), 0.01, 0.12), 0.0)
    which = jnp.where(alone, 1.0, jax.random.uniform(next(keys)))
    bursts_r = (which < 0.3) * _uniform(next(keys), 0.5, 1.7, N_Z)
    bursts_q = ((which > 0.25) & (which < 0.42)) * _uniform(next(keys), 0.5, 2.0)
    period = 10.0 ** _uniform(next(keys), 1.7, 3.0)
    return Noise(
        q=jnp.where(states, 10.0 ** jnp.where(right, 0.0, log_q), 0.0),
        r=10.0 ** jnp.where(right, 0.0, log_r),
        outlier=jnp.where(right, 0.0, outlier),
        outlier_scale=10.0 ** _uniform(next(keys), 1.0, 2.6),
        missing=jnp.where(chance(0.25), _uniform(next(keys), 0.0, 0.5), 0.0),
        missing_all=jnp.where(chance(0.15), _uniform(next(keys), 0.0, 0.8), 0.0),
        burst_r=10.0 ** jnp.where(right, 0.0, bursts_r),
        burst_q=10.0 ** jnp.where(right, 0.0, bursts_q),
        period=period,
        on=period * _uniform(next(keys), 0.1, 0.6),
        phase=period * jax.random.uniform(next(keys)),
    ), right


def _uniform(key: PRNGKeyArray, low: float, high: float, size: int | None = None) -> Array:
    return jax.random.uniform(key, () if size is None else (size,), minval=low, maxval=high)


def _log_uniform(key: PRNGKeyArray, low: float, high: float) -> Array:
    return jnp.exp(_uniform(key, math.log(low), math.log(high)))


def _system(
    dt: Array,
    n_x: int | Array,
    size: list[float] | Array,
    middle: list[float] | None = None,
    **given: Array,
) -> _System:
    """A system of which some coefficients are not zero."""
    wide = {name: _widened(a, getattr(_none(), name).shape) for name, a in given.items()}
    return _System(
        _none()._replace(**wide),
        jnp.asarray(n_x),
        _widened(jnp.asarray(size, real_dtype()), (N_X,)) + (jnp.arange(N_X) >= n_x),
        _widened(jnp.asarray(middle or [0.0], real_dtype()), (N_X,)),
        dt,
    )


def _widened(a: Array, shape: tuple[int, ...]) -> Array:
    return jnp.pad(a, [(0, want - have) for want, have in zip(shape, a.shape, strict=True)])


def _matrix(rows: list[list[Array | float]]) -> Array:
    return jnp.stack([jnp.stack([jnp.asarray(v, real_dtype()) for v in row]) for row in rows])


def _lorenz(key: PRNGKeyArray) -> _System:
    k_dt, k_s, k_r, k_b = jax.random.split(key, 4)
    sigma, rho, beta = _uniform(k_s, 8.0, 12.0), _uniform(k_r, 25.0, 32.0), _uniform(k_b, 2.0, 3.2)
    A = _matrix([[-sigma, sigma, 0.0], [rho, -1.0, 0.0], [0.0, 0.0, -beta]])
    products = jnp.array([-1.0, 1.0, 0.0])
    return _system(
        _log_uniform(k_dt, 0.004, 0.03), 3, [8.0, 9.0, 8.0], [0.0, 0.0, 23.0], A=A, p=products
    )


def _chen(key: PRNGKeyArray) -> _System:
    k_dt, k_a, k_c = jax.random.split(key, 3)
    a, c = _uniform(k_a, 34.0, 37.0), _uniform(k_c, 27.0, 28.5)
    A = _matrix([[-a, a, 0.0], [c - a, c, 0.0], [0.0, 0.0, -3.0]])
    products = jnp.array([-1.0, 1.0, 0.0])
    return _system(
        _log_uniform(k_dt, 0.001, 0.006), 3, [8.0, 8.0, 7.0], [0.0, 0.0, 22.0], A=A, p=products
    )


def _thomas(key: PRNGKeyArray) -> _System:
    k_dt, k_b = jax.random.split(key)
    A = -_uniform(k_b, 0.1, 0.22) * jnp.eye(3)
    follows = jnp.roll(jnp.eye(3), 1, axis=1)
    return _system(_log_uniform(k_dt, 0.01, 0.2), 3, [2.5, 2.5, 2.5], A=A, W=jnp.eye(3), V=follows)


def _van_der_pol(key: PRNGKeyArray) -> _System:
    k_dt, k_mu = jax.random.split(key)
    mu = _uniform(k_mu, 0.2, 2.0)
    A = _matrix([[0.0, 1.0], [-1.0, mu]])
    return _system(
        _log_uniform(k_dt, 0.01, 0.1), 2, [1.4, 1.4], A=A, p=jnp.array([0.0, 0.0, -1.0]) * mu
    )


def _pendulum(key: PRNGKeyArray) -> _System:
    """One pendulum, or two with a spring between them."""
    k_dt, k_g, k_c, k_s, k_n = jax.random.split(key, 5)
    g, c, s = _uniform(k_g, 1.0, 10.0), _uniform(k_c, 0.05, 0.3), _uniform(k_s, 0.2, 2.0)
    two = jax.random.uniform(k_n) < 0.5
    s = jnp.where(two, s, 0.0)
    A = _matrix([[0.0, 1.0, 0.0, 0.0], [-s, -c, s, 0.0], [0.0, 0.0, 0.0, 1.0], [s, 0.0, -s, -c]])
    W = _matrix([[0.0] * 4, [-g, 0.0, 0.0, 0.0], [0.0] * 4, [0.0, 0.0, -g, 0.0]])
    return _system(
        _log_uniform(k_dt, 0.005, 0.05),
        jnp.where(two, 4, 2),
        [1.0, 2.0, 1.0, 2.0],
        A=A,
        W=W,
        V=jnp.eye(4),
    )


def _linear(key: PRNGKeyArray, decay: tuple[float, float], turn: tuple[float, float]) -> _System:
    """Decays, and turns between the states: stable for any draw."""
    k_dt, k_n, k_d, k_t, k_s = jax.random.split(key, 5)
    decays = 10.0 ** _uniform(k_d, *decay, N_X)
    turns = 10.0 ** _uniform(k_s, *turn) * jax.random.normal(k_t, (N_X, N_X))
    A = jnp.triu(turns, 1) - jnp.triu(turns, 1).T - jnp.diag(decays)
    n_x = jax.random.randint(k_n, (), 2, N_X + 1)
    return _system(_log_uniform(k_dt, 0.05, 0.3), n_x, jnp.ones(N_X), A=A)


def _velocity(key: PRNGKeyArray) -> _System:
    """Position and velocity on one axis or two, perhaps with a slow acceleration."""
    k_dt, k_n, k_v, k_a = jax.random.split(key, 4)
    n_x = jax.random.randint(k_n, (), 2, N_X + 1)
    slow = jnp.where(n_x == 3, 1.0, 0.0)
    A = _matrix(
        [
            [0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, -0.02, slow, 0.0, 1.0],
            [0.0, 0.0, -0.02 * slow, 1.0 - slow, 0.0],
            [0.0, 0.0, 0.0, -0.02, 0.0],
            [0.0, 0.0, 0.0, 0.0, -0.02],
        ]
    )
    v, a = _log_uniform(k_v, 0.1, 1.0), _log_uniform(k_a, 0.03, 0.3)
    size = jnp.stack([jnp.ones(()), v, jnp.where(n_x == 3, a, 1.0), v, a])
    return _system(_log_uniform(k_dt, 0.03, 0.5), n_x, size, A=A)


def _sines(key: PRNGKeyArray) -> _System:
    k_dt, k_n, k_d, k_W, k_V, k_phi = jax.random.split(key, 6)
    A = -jnp.diag(10.0 ** _uniform(k_d, -1.3, 0.0, N_X))
    W = 0.7 * jax.random.normal(k_W, (N_X, N_X))
    V, phi = jax.random.normal(k_V, (N_X, N_X)), _uniform(k_phi, 0.0, 2.0 * math.pi, N_X)
    n_x = jax.random.randint(k_n, (), 2, N_X + 1)
    return _system(_log_uniform(k_dt, 0.02, 0.2), n_x, 1.5 * jnp.ones(N_X), A=A, W=W, V=V, phi=phi)


SYSTEMS = {
    "lorenz": _lorenz,
    "chen": _chen,
    "thomas": _thomas,
    "van-der-pol": _van_der_pol,
    "pendulum": _pendulum,
    "linear": lambda key: _linear(key, (-2.0, 0.3), (-1.0, 0.3)),
    "slow": lambda key: _linear(key, (-4.0, -1.5), (-2.5, -0.5)),
    "velocity": _velocity,
    "sines": _sines,
}
