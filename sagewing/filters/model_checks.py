"""Checks of a model: whether its methods fit each other, the filter, and the sizes of Q0 and R0."""

from typing import Any

import jax

from sagewing.errors import InputError
from sagewing.filters.protocols import Filter
from sagewing.models import Model
from sagewing.models.wrapper import Wrapper
from sagewing.shapes import real_dtype


def vector_state(model: Model, filter_name: str) -> None:
    """Refuse a state on a manifold, for a filter whose network takes and gives states."""
    if model.on_manifold:
        raise InputError(
            f"{filter_name} takes states that are vectors, and {type(model).__name__} has a "
            "`plus` of its own; use an EKF, a Sage-Husa filter or an NDR-SHKF."
        )


def constant_noise(model: Model, filter_name: str) -> None:
    """Refuse a model with noise of its own, for a filter that has a constant Q and R."""
    if any(model.own_noise):
        raise InputError(
            f"{filter_name} has a constant Q and R, and {type(model).__name__} has a "
            "`process_noise` or `measurement_noise` of its own; use an EKF, a Sage-Husa filter or "
            "an NDR-SHKF."
        )


def model_shapes(filt: Filter, u: Any, dt: Any) -> None:
    """Refuse a model whose methods do not fit each other and the sizes of Q0 and R0."""
    for group in getattr(filt, "groups", ()):  # a bank's members may have other models
        model_shapes(group.filt, u, dt)
    model, name_of = filt.model, type(filt.model).__name__
    n_x, n_dx, n_z = filt.n_x, filt.q0.size, filt.n_z
    x, dx, z = (jax.ShapeDtypeStruct((n,), real_dtype()) for n in (n_x, n_dx, n_z))
    errors = "n_dx" if model.on_manifold else "n_x"
    by_Q, by_R = f"Q0 says {errors} = {n_dx}", f"R0 says n_z = {n_z}"
    by_x = f"{name_of}.n_x is {n_x}" if model.n_x else by_Q
    given_u = "no u" if u is None else f"u of shape {u.shape}"
    _check_manifold(model)
    curved = len(range(n_dx)[model.curved])
    square_Q, square_R = (n_dx, n_dx), (n_z, n_z)
    for name, args, shapes, because in (
        ("plus", (x, dx), [(n_x,)], f"{by_x} and {by_Q}"),
        ("minus", (x, x), [(n_dx,)], by_Q),
        ("plus_jacobian", (x, dx), [(curved, curved), None], by_Q),
        ("transition", (x, u, dt), [(n_x,)], by_x),
        ("observe", (x, u), [(n_z,)], by_R),
        ("innovation", (z, z), [(n_z,)], by_R),
        ("residual", (z, z, u), [(n_z,)], by_R),
        ("transition_jacobian", (x, u, dt), [square_Q, None], by_Q),
        ("observe_jacobian", (x, u), [(n_z, n_dx), None], f"{by_Q} and {by_R}"),
        ("process_noise", (x, u, dt), [(n_dx,), square_Q, None], by_Q),
        ("measurement_noise", (x, u), [(n_z,), square_R, None], by_R),
    ):
        if name == "plus" and not model.on_manifold:
            name, args, because = "normalize", (x,), by_x
        method = f"{name_of}.{name}"
        try:
            out = jax.eval_shape(getattr(model, name), *args)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"{method} fails where {because}, with {given_u}: {reason.rstrip('.')}."
            ) from error
        shape = None if out is None else getattr(out, "shape", type(out).__name__)
        if shape not in shapes:
            allowed = " or ".join(str(each) for each in shapes if each is not None)
            raise InputError(
                f"{method} must return an array of shape {allowed}, because {because}; "
                f"it returned {shape}."
            )


def _check_manifold(model: Model) -> None:
    """Refuse a manifold that is not complete, also within a model around others."""
    for inner in (model.model,) if isinstance(model, Wrapper) else getattr(model, "models", ()):
        _check_manifold(inner)
    own, name_of = type(model), type(model).__name__
    if (own.plus is Model.plus) != (own.minus is Model.minus) or (
        model.n_x is not None and own.plus is Model.plus
    ):
        raise InputError(
            f"{name_of} has only some of plus, minus and n_x: a state on a manifold needs "
            "plus(x, dx) and minus(a, b), and n_x if x has more entries than dx."
        )
    if not isinstance(model.curved, slice) or model.curved.step not in (None, 1):
        raise InputError(
            f"{name_of}.curved must be a slice of neighbouring errors, such as "
            f"slice(6, 9); got {model.curved!r}."
        )
