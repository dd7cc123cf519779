"""The learned filter written the obvious way: one record, dense LAPACK, `vmap` over the batch.

The yardstick for the batch-last kernels. It runs the same network on the same numbers.
"""

import jax
import jax.numpy as jnp

from sagewing.filters import StepInfo


def step(filt, state, z, u, dt):
    """Algorithm 1 for one record."""
    x, P, q, r, memory = state
    model = filt.model
    F = jax.jacfwd(model.transition)(x, u, dt)
    x_pred = model.transition(x, u, dt)
    FPF = F @ P @ F.T
    P_pred = FPF + jnp.diag(q)
    H = jax.jacfwd(model.observe)(x_pred, u)
    nu = model.innovation(z, model.observe(x_pred, u))
    HPH = H @ P_pred @ H.T
    S = HPH + jnp.diag(r)
    L = jnp.linalg.cholesky(S)
    K = jax.scipy.linalg.cho_solve((L, True), H @ P_pred).T
    white = jax.scipy.linalg.solve_triangular(L, nu, lower=True)
    info = StepInfo(nu, white, S, L, K, q, r, jnp.ones_like(nu, bool))
    d, memory, trace = filt.rule.policy(memory, info)
    E = jax.jacfwd(model.normalize)(x_pred + K @ nu)
    x = model.normalize(x_pred + K @ nu)
    P = P_pred - K @ H @ P_pred
    P = 0.5 * (P + P.T)
    r_hat = jnp.diag(jnp.outer(nu, nu) - HPH)
    q_hat = jnp.diag(K @ jnp.outer(nu, nu) @ K.T + P - FPF)
    low, high = filt.rule.bounds
    r = jnp.clip((1 - d.r) * r + d.r * r_hat, low * filt.r0, high * filt.r0)
    q = jnp.clip((1 - d.q) * q + d.q * q_hat, low * filt.q0, high * filt.q0)
    return (x, E @ P @ E.T, q, r, memory), (x, trace)


def loss(filt, x0, P0, z, truth, dt, u=None, weight=0.1):
    """The training loss over a batch [B, T, ...], record by record."""

    def one(x0, z, truth, u):
        state = (x0, P0, filt.q0, filt.r0, filt.rule.init(filt.q0, filt.r0))
        _, (x, trace) = jax.lax.scan(lambda s, zu: step(filt, s, *zu, dt), state, (z, u))
        y_hat = filt.rule.policy.reconstruct(trace.c)
        errors = jnp.sum((x - truth) ** 2, -1) + weight * jnp.sum((trace.y - y_hat) ** 2, -1)
        return jnp.mean(errors)

    return jnp.mean(jax.vmap(one)(x0, z, truth, u))
