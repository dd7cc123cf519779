"""The systems of the training family, each a random draw in its own units."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from sagewing.problems.family.model import N_X, PRODUCTS, Coefficients, zeros
from sagewing.shapes import Scalar, real_dtype


class FamilySystem(NamedTuple):
    """A system in its own units: coefficients, and the range (`size`) and `middle` of its states.

    `order` is the order in which its states are measured, or -1 for a random one; a `weak` system
    has noisier measurements than the others.
    """

    c: Coefficients
    n_x: Array
    size: Float[Array, "n"]
    middle: Float[Array, "n"]
    dt: Scalar
    order: Int[Array, "n"]
    weak: Bool[Array, ""]


def uniform(key: PRNGKeyArray, low: float, high: float, size: int | None = None) -> Array:
    """One uniform draw, or `size` of them."""
    return jax.random.uniform(key, () if size is None else (size,), minval=low, maxval=high)


def _log_uniform(key: PRNGKeyArray, low: float, high: float) -> Array:
    return jnp.exp(uniform(key, math.log(low), math.log(high)))


def _system(
    dt: Array,
    n_x: int | Array,
    size: list[float] | Array,
    middle: list[float] | Array | None = None,
    **coefficients: Array,
) -> FamilySystem:
    """A system with these coefficients; the others are zero."""
    padded = {name: _padded(a, getattr(zeros(), name).shape) for name, a in coefficients.items()}
    return FamilySystem(
        zeros()._replace(**padded),
        jnp.asarray(n_x),
        _padded(jnp.asarray(size, real_dtype()), (N_X,)) + (jnp.arange(N_X) >= n_x),
        _padded(jnp.asarray([0.0] if middle is None else middle, real_dtype()), (N_X,)),
        dt,
        jnp.full(N_X, -1),
        jnp.asarray(False),
    )


def _padded(a: Array, shape: tuple[int, ...]) -> Array:
    return jnp.pad(a, [(0, want - have) for want, have in zip(shape, a.shape, strict=True)])


def _matrix(rows: list[list[Array | float]]) -> Array:
    return jnp.stack([jnp.stack([jnp.asarray(v, real_dtype()) for v in row]) for row in rows])


Terms = dict[str, float]  # one equation: the coefficient of each monomial, such as "x" or "xy"


def _coefficients(equations: Sequence[Terms], names: Sequence[str]) -> Array:
    """The coefficients of these monomials in each equation."""
    rows = [[terms.get(name, 0.0) for name in names] for terms in equations]
    return jnp.array(rows, real_dtype())


def _lorenz(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_s, k_r, k_b = jax.random.split(key, 4)
    sigma, rho, beta = uniform(k_s, 8.0, 12.0), uniform(k_r, 25.0, 32.0), uniform(k_b, 2.0, 3.2)
    A = _matrix([[-sigma, sigma, 0.0], [rho, -1.0, 0.0], [0.0, 0.0, -beta]])
    B = _coefficients([{}, {"xz": -1.0}, {"xy": 1.0}], PRODUCTS)
    return _system(_log_uniform(k_dt, 0.004, 0.03), 3, [8.0, 9.0, 8.0], [0.0, 0.0, 23.0], A=A, B=B)


def _chen(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_a, k_c = jax.random.split(key, 3)
    a, c = uniform(k_a, 34.0, 37.0), uniform(k_c, 27.0, 28.5)
    A = _matrix([[-a, a, 0.0], [c - a, c, 0.0], [0.0, 0.0, -3.0]])
    B = _coefficients([{}, {"xz": -1.0}, {"xy": 1.0}], PRODUCTS)
    return _system(_log_uniform(k_dt, 0.001, 0.006), 3, [8.0, 8.0, 7.0], [0.0, 0.0, 22.0], A=A, B=B)


class _Flow(NamedTuple):
    """A chaotic flow of x, y and z, "1" its constant term, and its attractor's size and middle."""

    equations: tuple[Terms, Terms, Terms]
    size: tuple[float, float, float]
    middle: tuple[float, float, float]


# Some of the simplest chaotic flows (Sprott 1994: cases B, D, F, H, K and S). Strong noise drives
# all but the first off their attractors: a quarter of these truths diverge, and the loss leaves
# them out.
FLOWS = (
    _Flow(
        ({"yz": 1.0}, {"x": 1.0, "y": -1.0}, {"1": 1.0, "xy": -1.0}),
        (1.26, 1.0, 1.17),
        (0.0, 0.0, 0.0),
    ),
    _Flow(
        ({"y": -1.0}, {"x": 1.0, "z": 1.0}, {"xz": 1.0, "yy": 3.0}),
        (0.97, 0.78, 0.83),
        (-1.21, 0.0, 1.22),
    ),
    _Flow(
        ({"y": 1.0, "z": 1.0}, {"x": -1.0, "y": 0.5}, {"xx": 1.0, "z": -1.0}),
        (0.86, 1.12, 1.02),
        (-0.49, -0.97, 0.97),
    ),
    _Flow(
        ({"y": -1.0, "zz": 1.0}, {"x": 1.0, "y": 0.5}, {"x": 1.0, "z": -1.0}),
        (1.18, 1.28, 0.85),
        (-0.46, 0.94, -0.45),
    ),
    _Flow(
        ({"xy": 1.0, "z": -1.0}, {"x": 1.0, "y": -1.0}, {"x": 1.0, "z": 0.3}),
        (0.96, 0.69, 1.03),
        (-0.15, -0.15, 0.5),
    ),
    _Flow(
        ({"x": -1.0, "y": -4.0}, {"x": 1.0, "zz": 1.0}, {"1": 1.0, "x": 1.0}),
        (1.44, 0.81, 0.85),
        (-0.99, 0.25, 0.53),
    ),
)


def _sprott(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_which = jax.random.split(key)
    which = jax.random.randint(k_which, (), 0, len(FLOWS))

    def chosen(attribute: Callable[[_Flow], Array]) -> Array:
        return jnp.stack([attribute(flow) for flow in FLOWS])[which]

    constant = chosen(lambda flow: _coefficients(flow.equations, "1")[:, 0])
    return _system(
        _log_uniform(k_dt, 0.01, 0.1),
        3,
        chosen(lambda flow: jnp.array(flow.size)),
        chosen(lambda flow: jnp.array(flow.middle)),
        A=chosen(lambda flow: _coefficients(flow.equations, "xyz")),
        B=chosen(lambda flow: _coefficients(flow.equations, PRODUCTS)),
        W=jnp.diag(constant),  # times sin(phi) = 1
        phi=jnp.full(3, 0.5 * math.pi),
    )


def _thomas(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_b = jax.random.split(key)
    A = -uniform(k_b, 0.1, 0.22) * jnp.eye(3)
    next_state = jnp.roll(jnp.eye(3), 1, axis=1)
    return _system(
        _log_uniform(k_dt, 0.01, 0.2), 3, [2.5, 2.5, 2.5], A=A, W=jnp.eye(3), V=next_state
    )


def _van_der_pol(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_mu = jax.random.split(key)
    mu = uniform(k_mu, 0.2, 2.0)
    A = _matrix([[0.0, 1.0], [-1.0, mu]])
    B = mu * _coefficients([{}, {"xxy": -1.0}], PRODUCTS)
    return _system(_log_uniform(k_dt, 0.01, 0.1), 2, [1.4, 1.4], A=A, B=B)


def _pendulum(key: PRNGKeyArray) -> FamilySystem:
    """One pendulum, or two with a spring between them."""
    k_dt, k_g, k_c, k_s, k_n = jax.random.split(key, 5)
    g, c, s = uniform(k_g, 1.0, 10.0), uniform(k_c, 0.05, 0.3), uniform(k_s, 0.2, 2.0)
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


def _linear(
    key: PRNGKeyArray, decay: tuple[float, float], turn: tuple[float, float]
) -> FamilySystem:
    """A = skew-symmetric - diagonal: rotations between the states with decay, always stable."""
    k_dt, k_n, k_d, k_t, k_s = jax.random.split(key, 5)
    decays = 10.0 ** uniform(k_d, *decay, N_X)
    turns = 10.0 ** uniform(k_s, *turn) * jax.random.normal(k_t, (N_X, N_X))
    A = jnp.triu(turns, 1) - jnp.triu(turns, 1).T - jnp.diag(decays)
    n_x = jax.random.randint(k_n, (), 2, N_X + 1)
    return _system(_log_uniform(k_dt, 0.05, 0.3), n_x, jnp.ones(N_X), A=A)


def _velocity(key: PRNGKeyArray) -> FamilySystem:
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
    # Positions are measured before velocities
    order = jnp.where(n_x > 3, jnp.array([0, 2, 1, 3, 4]), jnp.arange(N_X))
    return _system(_log_uniform(k_dt, 0.03, 0.5), n_x, size, A=A)._replace(order=order)


def _sines(key: PRNGKeyArray) -> FamilySystem:
    k_dt, k_n, k_d, k_W, k_V, k_phi = jax.random.split(key, 6)
    A = -jnp.diag(10.0 ** uniform(k_d, -1.3, 0.0, N_X))
    W = 0.7 * jax.random.normal(k_W, (N_X, N_X))
    V, phi = jax.random.normal(k_V, (N_X, N_X)), uniform(k_phi, 0.0, 2.0 * math.pi, N_X)
    n_x = jax.random.randint(k_n, (), 2, N_X + 1)
    return _system(_log_uniform(k_dt, 0.02, 0.2), n_x, 1.5 * jnp.ones(N_X), A=A, W=W, V=V, phi=phi)


SYSTEMS = {
    "lorenz": _lorenz,
    "chen": _chen,
    "sprott": _sprott,
    "thomas": _thomas,
    "van-der-pol": _van_der_pol,
    "pendulum": _pendulum,
    "linear": lambda key: _linear(key, (-2.0, 0.3), (-1.0, 0.3)),
    "slow": lambda key: _linear(key, (-4.0, -1.5), (-2.5, -0.5))._replace(weak=jnp.asarray(True)),
    "velocity": _velocity,
    "sines": _sines,
}
