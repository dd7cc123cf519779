"""A linear system that is given by its matrices."""

import jax
import numpy as np

import sagewing as sw


class Linear(sw.Model):
    """Any F and H; they are arrays, so that new numbers need no new program."""

    F: jax.Array
    H: jax.Array

    def transition(self, x, u, dt):
        return self.F @ x

    def observe(self, x, u):
        return self.H @ x


def system():
    rng = np.random.default_rng(0)
    A = 0.9 * np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return A, rng.normal(size=(2, 4)), np.array([0.1, 0.2, 0.05, 0.3]), np.array([1.0, 0.5])
