"""A linear system that is given by its matrices."""

import jax
import numpy as np

import sagewing as sw


class Mixed(sw.Model):
    """x+ = A x, z = H x, as any order, scale or sign of states and channels makes it."""

    A: jax.Array
    H: jax.Array

    def transition(self, x, u, dt):
        return self.A @ x

    def observe(self, x, u):
        return self.H @ x


def system():
    rng = np.random.default_rng(0)
    A = 0.9 * np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return A, rng.normal(size=(2, 4)), np.array([0.1, 0.2, 0.05, 0.3]), np.array([1.0, 0.5])
