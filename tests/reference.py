"""Algorithm 1 of the paper in plain NumPy, one record at a time: what the filters must equal.

Nothing here is fast, batched or clever, and nothing is shared with the package. A missing channel
is a deleted row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

FEATURE_LIMIT = 10.0


@dataclass(frozen=True)
class System:
    """dx/dt and its Jacobian A, h and its Jacobian H, and which measurements are angles."""

    drift: Callable
    A: Callable
    h: Callable
    H: Callable
    angles: tuple[int, ...] = ()

    def f(self, x, dt):
        """One Runge-Kutta step of order four, and its derivative F by the chain rule."""
        eye = np.eye(x.size)
        k1, D1 = self.drift(x), self.A(x)
        x2, X2 = x + dt / 2 * k1, eye + dt / 2 * D1
        k2, D2 = self.drift(x2), self.A(x2) @ X2
        x3, X3 = x + dt / 2 * k2, eye + dt / 2 * D2
        k3, D3 = self.drift(x3), self.A(x3) @ X3
        x4, X4 = x + dt * k3, eye + dt * D3
        k4, D4 = self.drift(x4), self.A(x4) @ X4
        return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), eye + dt / 6 * (D1 + 2 * D2 + 2 * D3 + D4)

    def innovation(self, z, z_hat):
        """z - z_hat, an angle by the shorter way round."""
        nu = z - z_hat
        for i in self.angles:
            nu[i] = np.angle(np.exp(1j * nu[i]))
        return nu


LORENZ = System(
    drift=lambda x: np.array(
        [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
    ),
    A=lambda x: np.array([[-10.0, 10.0, 0.0], [28.0 - x[2], -1.0, -x[0]], [x[1], x[0], -8 / 3]]),
    h=lambda x: np.array([x[0], x[2]]),
    H=lambda x: np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
)

ROSSLER = System(
    drift=lambda x: np.array([-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)]),
    A=lambda x: np.array([[0.0, -1.0, -1.0], [1.0, 0.2, 0.0], [x[2], 0.0, x[0] - 5.7]]),
    h=lambda x: np.array([np.hypot(x[0], x[1]), np.arctan2(x[1], x[0])]),
    H=lambda x: np.array(
        [
            [x[0] / np.hypot(x[0], x[1]), x[1] / np.hypot(x[0], x[1]), 0.0],
            [-x[1] / (x[0] ** 2 + x[1] ** 2), x[0] / (x[0] ** 2 + x[1] ** 2), 0.0],
        ]
    ),
    angles=(1,),
)


def fading(b):
    """Sage-Husa's d_k, the same for every element of q and r; the first step has k = 1."""
    k = 0

    def attenuate(nu, S, K):
        nonlocal k
        k += 1
        return np.full(K.shape[0] + nu.size, (1 - b) / (1 - b ** (k + 1)))

    return attenuate


def learned(policy, features):
    """The policy network of the paper, its memory h^(1)..h^(N) starting at zero."""
    hidden = [np.zeros(gru.U.shape[1]) for gru in policy.grus]

    def attenuate(nu, S, K):
        y = FEATURES[features](nu, S, K)
        e = relu(mlp(policy.encoder, np.clip(y, -FEATURE_LIMIT, FEATURE_LIMIT)))
        for i, weights in enumerate(policy.grus):
            hidden[i] = gru(weights, e if i == 0 else hidden[i - 1], hidden[i])
        c = relu(mlp(policy.context, hidden[0]))
        # With one layer the shallowest is the deepest, and the paper's p_k is c_k alone.
        p = np.concatenate([c, hidden[-1]]) if len(hidden) > 1 else c
        return sigmoid(mlp(policy.head, p))

    return attenuate


# The paper's table of input representations; epsilon is zero because R is bounded below.
FEATURES = {
    "whitened": lambda nu, S, K: np.concatenate(
        [
            np.linalg.inv(np.linalg.cholesky(S)) @ nu,
            np.log(np.diag(np.linalg.cholesky(S))),
            K.flatten(),
        ]
    ),
    "raw": lambda nu, S, K: np.concatenate([nu, np.diag(S), K.flatten()]),
    "whitened-no-log": lambda nu, S, K: np.concatenate(
        [np.linalg.inv(np.linalg.cholesky(S)) @ nu, K.flatten()]
    ),
    "nis": lambda nu, S, K: np.concatenate([[nu @ np.linalg.inv(S) @ nu], K.flatten()]),
}


def relu(a):
    return np.maximum(a, 0.0)


def sigmoid(a):
    return 1.0 / (1.0 + np.exp(-a))


def mlp(weights, y):
    """ReLU between the layers, none after the last."""
    for i, layer in enumerate(weights.layers):
        y = np.asarray(layer.W) @ (relu(y) if i else y) + np.asarray(layer.b)
    return y


def gru(weights, y, h):
    """One gated recurrent unit; the gates are stacked as reset, update, new."""
    W_r, W_z, W_n = np.split(np.asarray(weights.W), 3)
    U_r, U_z, U_n = np.split(np.asarray(weights.U), 3)
    b_r, b_z, b_c = np.split(np.asarray(weights.b), 3)
    r = sigmoid(W_r @ y + U_r @ h + b_r)
    z = sigmoid(W_z @ y + U_z @ h + b_z)
    n = np.tanh(W_n @ y + b_c + r * (U_n @ h + np.asarray(weights.b_n)))
    return (1 - z) * n + z * h


def run(
    system,
    x0,
    P0,
    z,
    *,
    Q0,
    R0,
    dt,
    attenuate=None,
    bounds=(0.0, np.inf),
    gain_noise="prior",
    arrived=None,
):
    """Filter one record: x, P, q, r, d, nis and loglik of every step, time first.

    Without `attenuate` this is the EKF, and Q0 and R0 may be full matrices.
    """
    x, P, Q, R = (np.array(a, float) for a in (x0, P0, Q0, R0))
    n_x, n_z = len(Q), len(R)
    arrived = np.ones(z.shape, bool) if arrived is None else arrived
    steps = []
    for z_k, dt_k, here in zip(z, np.broadcast_to(dt, len(z)), arrived, strict=True):
        # Prediction
        x, F = system.f(x, dt_k)
        FPF = F @ P @ F.T
        P = FPF + Q
        d, nis, loglik = np.zeros(n_x + n_z), 0.0, 0.0

        if here.any():
            # Innovation and Kalman gain, of the channels that arrived
            H = system.H(x)[here]
            nu = system.innovation(z_k, system.h(x))[here]
            HPH = H @ P @ H.T
            S = HPH + R[np.ix_(here, here)]
            K = P @ H.T @ np.linalg.inv(S)
            nis = nu @ np.linalg.inv(S) @ nu
            loglik = -0.5 * (nis + np.log(np.linalg.det(2 * np.pi * S)))

            # Attenuation, and the measurement noise, which needs no gain
            if attenuate is not None:
                d[np.r_[np.full(n_x, True), here]] = attenuate(nu, S, K)
                d_q, d_r = d[:n_x], d[n_x:]
                r_hat = np.zeros(n_z)
                r_hat[here] = np.diag(np.outer(nu, nu) - HPH)
                r = bounded((1 - d_r) * np.diag(R) + d_r * r_hat, R0, bounds)
                if gain_noise == "posterior":
                    K = P @ H.T @ np.linalg.inv(HPH + np.diag(r[here]))

            # Correction
            x = x + K @ nu
            P = (np.eye(n_x) - K @ H) @ P
            P = (P + P.T) / 2

            # The process noise, from the gain that was used
            if attenuate is not None:
                q_hat = np.diag(np.outer(K @ nu, K @ nu) + P - FPF)
                q = bounded((1 - d_q) * np.diag(Q) + d_q * q_hat, Q0, bounds)
                Q, R = np.diag(q), np.diag(r)

        step = {"x": x, "P": P, "q": np.diag(Q), "r": np.diag(R), "d": d}
        steps.append(step | {"nis": nis, "loglik": loglik})
    return SimpleNamespace(**{name: np.array([s[name] for s in steps]) for name in steps[0]})


def bounded(values, base, bounds):
    """The diagonal kept within a factor of its nominal values."""
    low, high = bounds
    return np.clip(values, low * np.diag(base), high * np.diag(base))


def smooth(x, P, x_pred, P_pred, F, plus=np.add, minus=np.subtract, change=None):
    """Rauch, Tung and Striebel on a filtered record: x and P by all measurements, time first.

    `change(x_pred, dx, x)` is the derivative of the error around x = plus(x_pred, dx) by that
    around x_pred; None for a vector, where it is the identity.
    """
    x_s, P_s = np.array(x, float), np.array(P, float)
    delta = np.zeros(len(P_s[0]))  # of the smoothed state from x[k + 1], in errors around it
    around, smoothed = P_s[-1], P_s[-1]
    for k in reversed(range(len(x) - 1)):
        G = P[k] @ F[k + 1].T @ np.linalg.inv(P_pred[k + 1])
        dx = minus(x[k + 1], x_pred[k + 1])
        back = np.eye(len(dx))
        if change is not None:
            back = np.linalg.inv(change(x_pred[k + 1], dx, x[k + 1]))
        delta = G @ (dx + back @ delta)
        around = P[k] + G @ (back @ around @ back.T - P_pred[k + 1]) @ G.T
        x_s[k], smoothed = plus(x[k], delta), around
        if change is not None:
            N = change(x[k], delta, x_s[k])
            smoothed = N @ around @ N.T
        P_s[k] = smoothed
    return x_s, P_s
