"""Ten linear systems of four states and two sensors at which single precision loses digits.

All are one model, whose input selects the system, so that they are one batch of one program. The
numbers of z, u and dt are those of single precision, also where a filter runs in double precision.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sagewing as sw

DT = 1 / 64  # exact in binary
PRECISE = 1e-10


class System(NamedTuple):
    """x' = A x + noise of covariance diag(q), z = H x + noise of covariance diag(r).

    `feedback` is the known input that is added to the states, as a factor of the last measurement.
    """

    A: Any
    H: Any
    q: Any
    r: Any
    P0: Any
    feedback: Any = np.zeros((4, 2))


def oscillators(damping: float = 0.999) -> np.ndarray:
    """Two damped oscillators of unlike frequency."""
    A = np.zeros((4, 4))
    for i, angle in ((0, 0.1), (2, 0.37)):
        c, s = np.cos(angle), np.sin(angle)
        A[i : i + 2, i : i + 2] = damping * np.array([[c, -s], [s, c]])
    return A


def in_units(system: System, units: Any) -> System:
    """The same system with its states in other units."""
    T = np.array(units)
    return system._replace(
        A=system.A * T[:, None] / T,
        H=system.H / T,
        q=system.q * T**2,
        P0=system.P0 * T**2,
        feedback=system.feedback * T[:, None],
    )


def systems() -> dict[str, System]:
    """The systems by name."""
    ones, first = np.ones(4), np.eye(4)[0]
    sum_of_all = np.array([1.0, 0.0, 1.0, 0.0])
    integrators = np.eye(4)
    for row in range(4):
        for column in range(row + 1, 4):
            integrators[row, column] = integrators[row, column - 1] * DT / (column - row)
    slow = np.diag([0.9999, 0.9999, 0.5, 0.9])
    two = np.full(2, PRECISE)
    control = np.zeros((4, 2))
    control[0, 0] = -0.7
    steep = np.diag([0.9, 0.8, 0.7, 0.6])
    steep[0, 1] = steep[2, 3] = 1e4
    steep[1, 0] = -1e-6
    cart = np.eye(4) * 0.999 + np.diag([DT, 0.0, DT], 1)
    return {
        "near-parallel sensors": System(
            oscillators(), [sum_of_all, sum_of_all + 1e-4 * np.eye(4)[1]], 1e-4 * ones, two, ones
        ),
        "repeated sensors": System(oscillators(), [sum_of_all] * 2, 1e-6 * ones, two, ones),
        "an unobservable difference": System(
            slow, [[1, 1, 0, 0], [0, 0, 1, 1]], 1e-6 * ones, two, [0.01, 0.01, 1, 1]
        ),
        "an unstable mode that nobody measures": System(
            np.diag([0.9, 0.8, 0.5, 1 + 1e-6]) + 0.1 * np.eye(4)[3][:, None] * first,
            np.eye(4)[:2],
            np.array([1e-4, 1e-4, 1e-4, 1e-8]),
            [PRECISE, 1e-2],
            [1, 1, 1, 1e-4],
        ),
        "an unstable mode under control": System(
            np.diag([1.2, 0.9, 0.8, 0.7]) + np.diag([1e-3, 0.1, 0.1], -1),
            [first, first],
            np.array([1e-6, 1e-6, 1e-8, 1e-8]),
            [PRECISE, 1e-2],
            1e2 * ones,
            control,
        ),
        "a chain of integrators": System(
            0.9 * integrators, [first, first], np.array([0, 0, 0, 1e-2]), [PRECISE, 1.0], 1e2 * ones
        ),
        "constants, two of four seen": System(
            np.eye(4), [[1, 1, 0, 0], [0, 1e-4, 1, 1]], np.zeros(4), [1e-6, 1.0], 1e-4 * ones
        ),
        "nearly equal modes": System(
            np.diag([0.9999, 0.9998, 0.999, 0.99]),
            [[1, 1, 0, 0], [0, 0, 1, 1]],
            np.array([1e-6, 1e-8, 1e-6, 1e-6]),
            [PRECISE, PRECISE],
            1e2 * ones,
        ),
        "steep dynamics": System(
            steep,
            [first, np.eye(4)[2]],
            np.array([1e-4, 1e-14, 1e-4, 1e-14]),
            two,
            [1, 1e-8, 1, 1e-8],
        ),
        "units apart by 1e8": in_units(
            System(
                cart,
                [first, np.eye(4)[2]],
                np.array([0, 1e-6, 0, 1e-6]),
                [PRECISE, 1e-6],
                1e2 * ones,
            ),
            [1e4, 1e-4, 1.0, 1e4],
        ),
    }


SYSTEMS = systems()


class Selected(sw.Model):
    """The system whose index is u[0]; the other four inputs are added to the states."""

    A: jax.Array
    H: jax.Array
    q: jax.Array
    r: jax.Array

    def _here(self, table, u):
        return table[u[0].astype(int)]

    def transition(self, x, u, dt):
        return self._here(self.A, u) @ x + u[1:]

    def observe(self, x, u):
        return self._here(self.H, u) @ x

    def transition_jacobian(self, x, u, dt):
        return self._here(self.A, u)

    def observe_jacobian(self, x, u):
        return self._here(self.H, u)

    def process_noise(self, x, u, dt):
        return self._here(self.q, u)

    def measurement_noise(self, x, u):
        return self._here(self.r, u)


def table(name: str) -> np.ndarray:
    """A part of all systems, with the numbers of single precision."""
    rows = [np.asarray(getattr(s, name), np.float32) for s in SYSTEMS.values()]
    return np.stack(rows).astype(float)


def model() -> Selected:
    """All systems, in the working precision."""
    return Selected(*(jnp.asarray(table(name)) for name in ("A", "H", "q", "r")))


class Data(NamedTuple):
    """A record of each system, batch first."""

    x0: np.ndarray
    P0: np.ndarray
    z: np.ndarray
    u: np.ndarray
    truth: np.ndarray


def data(steps: int, seed: int = 0) -> Data:
    """Records of so many steps."""
    rng = np.random.default_rng(seed)
    A, H, q, r, P0, G = (np.asarray(table(name)) for name in System._fields)
    count = len(SYSTEMS)
    start = rng.normal(size=(count, 4)) * np.sqrt(P0), np.zeros((count, 2))
    process = rng.normal(size=(steps, count, 4)) * np.sqrt(q)
    noise = rng.normal(size=(steps, count, 2)) * np.sqrt(r)
    with jax.enable_x64(True):
        A, H, G = (jnp.asarray(a) for a in (A, H, G))

        @jax.jit
        def simulated(start, process, noise):
            def step(state, drawn):
                x, z = state
                known = jnp.einsum("bij,bj->bi", G, z).astype(np.float32)
                x = jnp.einsum("bij,bj->bi", A, x) + known + drawn[0]
                z = (jnp.einsum("bij,bj->bi", H, x) + drawn[1]).astype(np.float32)
                return (x, z.astype(float)), (x, known, z)

            return jax.lax.scan(step, start, (process, noise))[1]

        truth, known, z = (np.asarray(a) for a in simulated(start, process, noise))
    index = np.broadcast_to(np.arange(count, dtype=np.float32)[:, None], (steps, count, 1))
    truth, u, z = (np.swapaxes(a, 0, 1) for a in (truth, np.concatenate([index, known], 2), z))
    return Data(np.zeros((count, 4)), np.stack([np.diag(p) for p in P0]), z, u, truth)


def smallest_eigenvalues(P: np.ndarray) -> np.ndarray:
    """Of P scaled to a unit diagonal, in double precision; NaN where a variance is not positive."""
    P = np.asarray(P, float)
    d = np.sqrt(np.einsum("...ii->...i", P))
    return np.linalg.eigvalsh(P / d[..., :, None] / d[..., None, :])[..., 0]


def errors(x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The RMSE of every state."""
    return np.sqrt(np.mean((np.asarray(x, float) - truth) ** 2, axis=-2))
