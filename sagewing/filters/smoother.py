"""Rauch-Tung-Striebel smoothing in the form of Bryson and Frazier: no predicted P is inverted.

Backward over a record goes the gradient and the Hessian of the negative log-likelihood of all later
measurements, by the error of an estimate x with the covariance P:

    x_s = x - P gradient,    P_s = P - P hessian P

Where the gain belongs to the filter's own P and R, these are the numbers of Rauch, Tung and
Striebel. A constant state without noise, or a singular P, needs no special treatment.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters.enn_akf import CorrectedFilter
from sagewing.filters.equations import change_of_errors
from sagewing.filters.guards import keep_where, some, valid
from sagewing.filters.kernels import (
    cholesky,
    diagonal,
    diagonal_matrix,
    inverse_lower,
    matmul,
    matvec,
    project,
    propagate,
    semidefinite_cholesky,
    symmetric,
    transpose,
    whiten,
)
from sagewing.filters.lifting import derivative, per_sample
from sagewing.filters.oracle import OracleEKF
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import DX, Covariances, Errors, States, Transitions, Values, X


class History(NamedTuple):
    """What the smoother needs of a step, besides its x and P.

    `A` is the derivative of the error after the step by that before it: N (I - K H) F, with N as
    in `correct`. The others are those of the step's own measurement, by the error before it.
    """

    A: Transitions
    gradient: Errors
    hessian: Covariances


class Adjoint(NamedTuple):
    """The gradient and Hessian at one time, and the count of restarts in the step after it."""

    gradient: Errors
    hessian: Covariances
    restarts: Values


class Smoothed(NamedTuple):
    """Estimates by all measurements of a record; shapes are those of the filtered x and P."""

    x: States
    P: Covariances


# Selects what is saved of a smoothed estimate, from it and an extra input.
SaveSmoothed = Callable[[Smoothed, Any], Any]


class NotSmoothed(InputError):
    """A filter has no prediction that leads from one estimate to the next."""


def all_of(smoothed: Smoothed, extra: Any) -> Smoothed:
    """x and P: what is saved by default."""
    return smoothed


def no_later(x: States, P: Covariances, restarts: Values) -> Adjoint:
    """The adjoint after the last step: nothing was measured later."""
    return Adjoint(jnp.zeros_like(P[0]), jnp.zeros_like(P), restarts)


def smooth_step(
    model: Model, later: Adjoint, x: States, P: Covariances, restarts: Values, history: History
) -> tuple[Adjoint, Smoothed]:
    """One step backward: the adjoint before a step, and the smoothed estimate after it.

    `later` is the adjoint after the step, `x`, `P` and `restarts` are what the step returned.
    """
    later = stopped_at_restart(later, restarts)
    return before_step(later, history), smoothed(model, x, P, later)


def stopped_at_restart(later: Adjoint, restarts: Values) -> Adjoint:
    """Nothing goes backward past a restart: the state after it does not follow from that before."""
    same = later.restarts == restarts
    gradient, hessian = (jnp.where(same, a, 0.0) for a in (later.gradient, later.hessian))
    return Adjoint(gradient, hessian, restarts)


def before_step(later: Adjoint, history: History) -> Adjoint:
    """The adjoint before a step."""
    At = transpose(history.A)
    gradient = matvec(At, later.gradient) + history.gradient
    # In this order both products read rows, which C does twelve times as fast for 18 errors
    hessian = symmetric(matmul(At, matmul(later.hessian, history.A))) + history.hessian
    return later._replace(gradient=gradient, hessian=hessian)


def smoothed(model: Model, x: States, P: Covariances, later: Adjoint) -> Smoothed:
    """x - P gradient and P - P hessian P, positive by construction: L (I - L^T hessian L) L^T.

    Where it cannot be computed this is the filtered estimate.
    """
    n, eps = len(P), jnp.finfo(P.dtype).eps
    L = semidefinite_cholesky(P, 2.0 * n * eps * diagonal(P))
    unit = jnp.ones_like(P[0])
    remains = diagonal_matrix(unit) - propagate(transpose(L), later.hessian)
    root = matmul(L, semidefinite_cholesky(remains, 4.0 * n * eps * unit))
    P_s = matmul(root, transpose(root))
    dx = -matvec(P, later.gradient)
    x_s = per_sample(model.plus, x, dx)
    first, last, _ = model.curved.indices(n)
    if first < last:
        P_s = project(change_of_errors(model, x, dx, x_s), P_s, first)
    P_s = symmetric(P_s)
    ok = valid(x_s, diagonal(P_s))
    return Smoothed(*keep_where(ok, (x_s, P_s), (x, P)))


def history_of(filt: Filter, step: Step) -> History:
    """What the smoother needs of a step; refuses a filter that has no prediction."""
    if step.x_pred is None or step.P_pred is None or step.F is None:
        raise NotSmoothed(
            f"smoothing needs x_pred, P_pred and F of every step; {type(filt).__name__} has none."
        )
    if isinstance(filt, CorrectedFilter):
        raise NotSmoothed(
            f"{type(filt).__name__} cannot be smoothed: its estimates are corrected by a network "
            "and do not follow from each other; smooth the Sage-Husa filter in it."
        )
    F = step.F
    if step.predicted is not None:  # otherwise the estimate stayed as it was
        F = jnp.where(step.predicted, F, diagonal_matrix(jnp.ones_like(F[0])))
    if isinstance(filt, AdaptiveFilter | OracleEKF):
        return _by_gain(filt.model, step, F)
    return _by_covariances(filt.model, step, F)


def _by_gain(model: Model, step: Step, F: Covariances) -> History:
    """Of a filter whose gain is K = P_pred H^T S^-1."""
    no_change = jnp.zeros_like(F[0])
    if step.H is None or step.K is None or step.S is None or step.nu is None:
        return History(_around(model, step, no_change, F), no_change, jnp.zeros_like(F))
    # Where arithmetic failed there was no correction
    used = some(jnp.any(step.K != 0.0, axis=1))
    if step.corrected is not None:
        used = used & step.corrected
    K, HF = jnp.where(used, step.K, 0.0), jnp.where(used, matmul(step.H, F), 0.0)
    nu = jnp.where(used, step.nu, 0.0)
    L = cholesky(step.S)
    W = matmul(inverse_lower(L), HF)
    gradient = -matvec(transpose(W), whiten(L, nu))
    A = _around(model, step, matvec(K, nu), F - matmul(K, HF))
    return History(A, gradient, matmul(transpose(W), W))


def _around(model: Model, step: Step, dx: Errors, A: Covariances) -> Covariances:
    """A in errors around the corrected x, where errors around the predicted x are others."""
    first, last, _ = model.curved.indices(len(dx))
    if first == last:
        return A
    assert step.x_pred is not None
    own = matmul(change_of_errors(model, step.x_pred, dx, step.x), A[first:last])
    if step.corrected is not None:
        own = jnp.where(step.corrected, own, A[first:last])
    return jnp.concatenate([A[:first], own, A[last:]])


def _by_covariances(model: Model, step: Step, F: Covariances) -> History:
    """Of any other filter: the equations of Rauch, Tung and Striebel, with P_pred factorised.

    x_s = x + P F^T P_pred^-1 (x_s_next - x_pred), and P_s accordingly.
    """
    x_pred, P_pred = step.x_pred, step.P_pred
    assert x_pred is not None
    assert P_pred is not None
    n, eps = len(P_pred), jnp.finfo(P_pred.dtype).eps
    L = semidefinite_cholesky(P_pred, 2.0 * n * eps * diagonal(P_pred))
    L_inv = inverse_lower(L)
    Z = matmul(transpose(L_inv), matmul(L_inv, F))
    dx, P = per_sample(model.minus, step.x, x_pred), step.P
    NP = P  # the covariance of the error around x_pred with that around x
    first, last, _ = model.curved.indices(n)
    if first < last:
        N = derivative(partial(_error_before, model), jnp.zeros_like(dx), step.x, x_pred)
        NP = matmul(N, P)
        P = matmul(NP, transpose(N))
    Zt = transpose(Z)
    hessian = propagate(Zt, symmetric(P_pred - P))
    return History(transpose(matmul(Zt, NP)), -matvec(Zt, dx), hessian)


def _error_before(model: Model, dx: DX, x: X, x_pred: X) -> DX:
    """The error around x_pred of the state that has the error dx around x."""
    return model.minus(model.plus(x, dx), x_pred)


def backward(
    model: Model,
    x: jax.Array,
    P: jax.Array,
    restarts: jax.Array,
    history: History,
    later: Adjoint | None = None,
    save: SaveSmoothed = all_of,
    extra: Any = None,
) -> tuple[Adjoint, Any]:
    """All steps of a record, time first and batch last: the adjoint before it, the saved values."""

    def step(later: Adjoint, given: Any) -> tuple[Adjoint, Any]:
        *of_step, extra = given
        before, made = smooth_step(model, later, *of_step)
        return before, save(made, extra)

    start = no_later(x[-1], P[-1], restarts[-1]) if later is None else later
    return jax.lax.scan(step, start, (x, P, restarts, history, extra), reverse=True)
