"""Several steps as one for the smoother, so that a long record keeps few of its steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from sagewing.filters.kernels import diagonal_matrix, matmul, matvec, propagate, transpose
from sagewing.filters.loop import Save, one_step
from sagewing.filters.protocols import Filter
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.smoother import History, history_of
from sagewing.filters.step import Step
from sagewing.shapes import Covariances, States, Values


class Thinning(NamedTuple):
    """The steps since the last one that was kept, as one step, and the count of restarts."""

    history: History
    restarts: Values


class ThinnedStep(NamedTuple):
    """What smoothing needs of a step that is kept; `history` reaches back to the one before it."""

    x: States
    P: Covariances
    history: History


def packed(kept: ThinnedStep) -> ThinnedStep:
    """Of many steps, time first, with half of each symmetric matrix."""
    i, j = np.tril_indices(kept.P.shape[-1])
    history = kept.history
    history = history._replace(hessian=history.hessian[:, i, j])
    return ThinnedStep(kept.x, kept.P[:, i, j], history)


def unpacked(kept: ThinnedStep) -> ThinnedStep:
    """The whole matrices of `packed`."""
    n = kept.history.A.shape[-1]
    i, j = np.tril_indices(n)

    def whole(half: jax.Array) -> jax.Array:
        matrices = jnp.zeros((len(half), n, n), half.dtype)
        return matrices.at[:, i, j].set(half).at[:, j, i].set(half)

    history = kept.history._replace(hessian=whole(kept.history.hessian))
    return ThinnedStep(kept.x, whole(kept.P), history)


def begin(P: Covariances) -> Thinning:
    """Before the first step."""
    zero = jnp.zeros_like(P[0])
    unit = diagonal_matrix(jnp.ones_like(P[0]))
    return Thinning(History(unit, zero, jnp.zeros_like(P)), zero[0])


def after_step(filt: Filter, thinning: Thinning, step: Step) -> Thinning:
    """With one step more; nothing goes backward past a restart."""
    before, own = thinning.history, history_of(filt, step)
    same = step.restarts == thinning.restarts
    A = jnp.where(same, matmul(own.A, before.A), 0.0)
    if step.H is None and isinstance(filt, AdaptiveFilter):  # it only predicted
        return Thinning(before._replace(A=A), step.restarts)
    At = transpose(before.A)
    gradient = before.gradient + jnp.where(same, matvec(At, own.gradient), 0.0)
    hessian = before.hessian + jnp.where(same, propagate(At, own.hessian), 0.0)
    return Thinning(History(A, gradient, hessian), step.restarts)


def scan_thinned(
    filt: Filter,
    start: tuple[Any, Thinning],
    record: tuple[Array, Array | None, Array, Bool[Array, "T n_z"]],
    keep: Bool[Array, "T"],
    save: Save,
) -> tuple[tuple[Any, Thinning], tuple[Any, ThinnedStep]]:
    """Run z, u, dt and arrived of one record; what is saved and needed of a step counts if kept.

    Steps without a measurement only predict.
    """

    def body(carry: tuple[Any, Thinning], given: Any) -> tuple[Any, Any]:
        state, thinning = carry
        (z, u, dt, arrived), keep = given

        def use(step: Step) -> tuple[Thinning, Any]:
            after = after_step(filt, thinning, step)
            return after, (save(step, None), ThinnedStep(step.x, step.P, after.history))

        state, (after, values) = one_step(filt, state, z, u, dt, arrived, use, predict_between=True)
        anew = begin(values[1].P).history
        history = jax.tree.map(lambda a, b: jnp.where(keep, a, b), anew, after.history)
        return (state, after._replace(history=history)), values

    return jax.lax.scan(body, start, (record, keep))
