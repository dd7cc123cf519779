"""Checks of a caller's inputs before anything is compiled; a mistake raises an `InputError`.

Values are checked where they are known; inside a JAX transformation only shapes are.
"""

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sagewing.errors import InputError
from sagewing.filters.lifting import for_each_record
from sagewing.filters.protocols import Filter
from sagewing.models import Model
from sagewing.processes import check_not_forked
from sagewing.shapes import Numbers, real_dtype

ROUNDING = 1e-5  # an eigenvalue of a correlation matrix may be this far below zero


def is_filter(filt: Filter) -> None:
    """Refuse an object that is not a filter, and name what it lacks."""
    if not isinstance(filt, Filter):
        parts = ("model", "n_x", "n_z", "q0", "r0", "init", "step")
        lacking = [part for part in parts if not hasattr(filt, part)]
        raise InputError(
            f"{type(filt).__name__} is not a filter: it has no {', '.join(lacking)}; see "
            "sagewing/filters/README.md for a filter of your own."
        )


def as_real(name: str, value: Numbers) -> Float[Array, "..."]:
    """`value` as an array of the working precision."""
    check_not_forked()
    try:
        return jnp.asarray(value, real_dtype())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be an array of numbers; got {type(value).__name__}."
        ) from error


def _known(a: jax.Array) -> np.ndarray | None:
    return None if isinstance(a, jax.core.Tracer) else np.asarray(a, np.float64)


def noise(
    name: str, value: Numbers, size: str, *, positive: bool
) -> tuple[Float[Array, "n"], Float[Array, "n n"] | None]:
    """A covariance given as a diagonal or a matrix: its diagonal, and the entries off it."""
    a = as_real(name, value)
    if a.ndim not in (1, 2) or (a.ndim == 2 and a.shape[0] != a.shape[1]) or a.size == 0:
        raise InputError(
            f"{name} must be a diagonal [{size}] or a matrix [{size}, {size}]; got shape {a.shape}."
        )
    known = _known(a)
    if known is not None:
        if not np.all(np.isfinite(known)):
            raise InputError(f"{name} must be finite; it has NaN or infinite entries.")
        smallest = known.min() if a.ndim == 1 else _smallest_eigenvalue(name, known)
        if smallest < 0.0 or (positive and smallest == 0.0):
            what = "positive definite" if positive else "positive semi-definite"
            raise InputError(
                f"{name} is a covariance and must be {what}; its smallest "
                f"{'entry' if a.ndim == 1 else 'eigenvalue'} is {smallest:.3g}."
            )
    if a.ndim == 1:
        return a, None
    diagonal = jnp.diagonal(a)
    off = a - jnp.diag(diagonal)
    is_diagonal = known is not None and not np.any(np.asarray(off))
    return diagonal, None if is_diagonal else off


def measurement_noise(
    R0: Numbers, modes: int
) -> tuple[Float[Array, "... n_z"], Float[Array, "n_z n_z"] | None]:
    """R0 as `noise` returns it; for a model with several modes, one diagonal for each mode."""
    if modes == 1:
        return noise("R0", R0, "n_z", positive=True)
    a = as_real("R0", R0)
    if a.ndim != 2 or a.shape[0] != modes:
        raise InputError(
            f"R0 must have one diagonal for each mode of the model, shape ({modes}, n_z); "
            f"got {a.shape}."
        )
    for row in a:
        noise("R0", row, "n_z", positive=True)
    return a, None


def process_noise(
    Q0: Numbers, model: Model
) -> tuple[Float[Array, "n_dx"], Float[Array, "n_dx n_dx"] | None]:
    """Q0 as `noise` returns it, with zeros for the states whose noise is the model's own."""
    diagonal, rest = noise("Q0", Q0, "n_x", positive=False)
    more = len(model.own_variances)
    if more:
        diagonal = jnp.pad(diagonal, (0, more))
        rest = None if rest is None else jnp.pad(rest, ((0, more), (0, more)))
    return diagonal, rest


def covariances(Q0: Numbers, R0: Numbers) -> tuple[Float[Array, "n n"], Float[Array, "m m"]]:
    """Q0 and R0, each given as a diagonal or a matrix, as matrices."""
    Q = _matrix(*noise("Q0", Q0, "n_x", positive=False))
    return Q, _matrix(*noise("R0", R0, "n_z", positive=True))


def _matrix(diagonal: jax.Array, off: jax.Array | None) -> jax.Array:
    return jnp.diag(diagonal) if off is None else jnp.diag(diagonal) + off


def _smallest_eigenvalue(name: str, matrix: np.ndarray) -> float:
    scale = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > 1e-6 * scale:
        raise InputError(f"{name} is a covariance and must be symmetric.")
    smallest = float(np.linalg.eigvalsh(matrix).min())
    rounding = len(matrix) * float(jnp.finfo(real_dtype()).eps) * scale
    return 0.0 if abs(smallest) < rounding else smallest


def adaptation(bounds: tuple[float, float], gain_noise: str, dense: bool | str = False) -> None:
    """Refuse invalid settings of an adaptive filter."""
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"bounds must be two numbers, such as (0.5, 100); got {bounds!r}."
        ) from None
    if not 0.0 <= low <= 1.0 <= high < np.inf:
        raise InputError(
            "bounds are factors of the base noise with low <= 1 <= high, such as (0.5, 100); "
            f"got {bounds}."
        )
    if gain_noise not in ("prior", "posterior"):
        raise InputError(f'gain_noise must be "prior" or "posterior"; got {gain_noise!r}.')
    if type(dense) is not bool and dense != "R":
        raise InputError(f'dense must be False, "R" or True, for Q and R; got {dense!r}.')


def forgetting_factor(b: Numbers) -> Float[Array, ""]:
    """b as an array; it must not be 0 or 1 in the working precision either."""
    a = as_real("b", b)
    known = _known(a)
    if a.ndim != 0 or (known is not None and not 0.0 < known < 1.0):
        raise InputError(f"b is a forgetting factor and must lie between 0 and 1; got {b}.")
    return a


def gate(sigmas: Numbers) -> Float[Array, ""]:
    """The width of a gate as an array."""
    a = as_real("gate", sigmas)
    known = _known(a)
    if a.ndim != 0 or (known is not None and not 0.0 < known < np.inf):
        raise InputError(f"gate is a number of standard deviations, such as 3; got {sigmas}.")
    return a


def steps_per_measurement(steps: Numbers) -> Float[Array, ""]:
    """The number of predictions to a measurement as an array; a mean need not be whole."""
    a = as_real("steps_per_measurement", steps)
    known = _known(a)
    if a.ndim != 0 or (known is not None and not 0.0 < known < np.inf):
        raise InputError(f"steps_per_measurement must be a positive number; got {steps}.")
    return a


def vector_state(model: Model, filter_name: str) -> None:
    """Refuse a state on a manifold, for a filter whose network takes and gives states."""
    if model.on_manifold:
        raise InputError(
            f"{filter_name} takes states that are vectors, and {type(model).__name__} has a "
            "`plus` of its own; use an EKF, a Sage-Husa filter or an NDR-SHKF."
        )


def model_shapes(filt: Filter, u: Any, dt: Any) -> None:
    """Refuse a model whose methods do not fit each other and the sizes of Q0 and R0."""
    model, name_of = filt.model, type(filt.model).__name__
    n_x, n_dx, n_z = filt.n_x, filt.q0.size, filt.n_z
    x, dx, z = (jax.ShapeDtypeStruct((n,), real_dtype()) for n in (n_x, n_dx, n_z))
    errors = "n_dx" if model.on_manifold else "n_x"
    by_Q, by_R = f"Q0 says {errors} = {n_dx}", f"R0 says n_z = {n_z}"
    by_x = f"{name_of}.n_x is {n_x}" if model.n_x else by_Q
    given_u = "no u" if u is None else f"u of shape {u.shape}"
    own = type(model)
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
    for name, args, shape, because in (
        ("plus", (x, dx), (n_x,), f"{by_x} and {by_Q}"),
        ("minus", (x, x), (n_dx,), by_Q),
        ("transition", (x, u, dt), (n_x,), by_x),
        ("observe", (x, u), (n_z,), by_R),
        ("innovation", (z, z), (n_z,), by_R),
        ("residual", (z, z, u), (n_z,), by_R),
        ("transition_jacobian", (x, u, dt), (n_dx, n_dx), by_Q),
        ("observe_jacobian", (x, u), (n_z, n_dx), f"{by_Q} and {by_R}"),
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
        if out is None and name.endswith("jacobian"):
            continue  # JAX differentiates it
        if getattr(out, "shape", None) != shape:
            raise InputError(
                f"{method} must return an array of shape {shape}, because {because}; "
                f"it returned {getattr(out, 'shape', type(out).__name__)}."
            )


def start(
    filt: Filter, x0: Numbers, P0: Numbers, batch: tuple[int, ...]
) -> tuple[Float[Array, "n_x *batch"], Float[Array, "n_dx n_dx *batch"]]:
    """x0 and P0 of one record or of a batch (leading axis), checked; batch in the last axis."""
    x, P = as_real("x0", x0), as_real("P0", P0)
    n_x, n_dx, own = filt.n_x, filt.q0.size, filt.model.own_variances
    if own and x.shape[-1:] == (n_x - len(own),) and P.shape[-2:] == (n_dx - len(own),) * 2:
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, len(own))])
        P = jnp.pad(P, [(0, 0)] * (P.ndim - 2) + [(0, len(own))] * 2)
        added = jnp.arange(n_dx - len(own), n_dx)
        P = P.at[..., added, added].set(jnp.asarray(own, P.dtype))
    if x.shape not in ((n_x,), (*batch, n_x)):
        raise InputError(f"x0 must have shape {_either((n_x,), batch)}; got {x.shape}.")
    if P.shape not in ((n_dx, n_dx), (*batch, n_dx, n_dx)):
        raise InputError(f"P0 must have shape {_either((n_dx, n_dx), batch)}; got {P.shape}.")
    known_x, known_P = _known(x), _known(P)
    if known_x is not None and not np.all(np.isfinite(known_x)):
        raise InputError("x0 must be finite; it has NaN or infinite entries.")
    if known_P is not None:
        _check_definite("P0", known_P)
    return for_each_record(x, (n_x,), batch), for_each_record(P, (n_dx, n_dx), batch)


def _check_definite(name: str, P: np.ndarray) -> None:
    if not np.all(np.isfinite(P)):
        raise InputError(f"{name} must be finite; it has NaN or infinite entries.")
    if np.abs(P - np.swapaxes(P, -1, -2)).max() > 1e-6 * np.abs(P).max():
        raise InputError(f"{name} is a covariance and must be symmetric.")
    try:
        np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        # A filter's own P may be singular: that of a quaternion, whose length is known
        variances = np.diagonal(P, axis1=-2, axis2=-1)
        scale = np.sqrt(np.where(variances > 0.0, variances, 1.0))
        correlations = P / scale[..., :, None] / scale[..., None, :]
        smallest_correlation = float(np.linalg.eigvalsh(correlations).min())
        no_variances = variances.min() < 0.0 or variances.max(axis=-1).min() <= 0.0
        if smallest_correlation < -ROUNDING or no_variances:
            smallest = float(np.linalg.eigvalsh(P).min())
            raise InputError(
                f"{name} must be positive definite; its smallest eigenvalue is {smallest:.3g}."
            ) from None


def _either(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    return f"{shape} or {(*batch, *shape)}" if batch else f"{shape}"


class Record(NamedTuple):
    """The checked inputs of a run, batch (if any) and time first."""

    z: Float[Array, "*batch T n_z"]
    u: Float[Array, "*batch T n_u"] | Float[Array, "T n_u"] | None
    dt: Float[Array, "*batch T"] | Float[Array, "T"] | Float[Array, ""]
    mask: Bool[Array, "*batch T n_z"] | None

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch's size, or nothing for a single record."""
        return self.z.shape[:-2]


def record(n_z: int, z: Numbers, u: Numbers | None, dt: Numbers, mask: Numbers | None) -> Record:
    """Check the inputs of a run."""
    z = as_real("z", z)
    if z.ndim not in (2, 3) or z.shape[-1] != n_z:
        raise InputError(
            f"z must have shape (T, {n_z}) or (batch, T, {n_z}), because R0 says n_z = {n_z}; "
            f"got {z.shape}."
        )
    if 0 in z.shape[:-2]:
        raise InputError(f"z must hold at least one record; got shape {z.shape}.")
    *batch, T, _ = z.shape
    dt = as_real("dt", dt)
    if dt.shape not in ((), (T,), (*batch, T)):
        expected = _either((T,), tuple(batch))
        raise InputError(f"dt must be a number or have shape {expected}; got {dt.shape}.")
    known = _known(dt)
    if known is not None and not np.all(np.isfinite(known) & (known >= 0.0)):
        raise InputError("dt must be finite and not negative at every step.")
    if u is not None:
        u = as_real("u", u)
        if u.ndim < 2 or u.shape[:-1] not in ((T,), (*batch, T)):
            expected = f"({T}, n_u)" + (f" or ({batch[0]}, {T}, n_u)" if batch else "")
            raise InputError(f"u must have shape {expected}; got {u.shape}.")
    return Record(z, u, dt, None if mask is None else _mask(_as_flags(mask), z.shape))


def _as_flags(mask: Numbers) -> jax.Array:
    try:
        return jnp.asarray(mask, bool)
    except (TypeError, ValueError) as error:
        raise InputError(f"mask must be an array of flags; got {type(mask).__name__}.") from error


def state_fits(filt: Filter, state: Any, batch: tuple[int, ...]) -> None:
    """Refuse a state to continue from that is not of this filter and batch."""
    x = jax.ShapeDtypeStruct((filt.n_x, *batch), real_dtype())
    P = jax.ShapeDtypeStruct((filt.q0.size, filt.q0.size, *batch), real_dtype())
    expected = jax.eval_shape(filt.init, x, P)
    if jax.tree.structure(expected) != jax.tree.structure(state):
        raise InputError("state must be the `state` of a result of the same kind of filter.")
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(state), strict=True):
        if a.shape != b.shape:
            raise InputError(
                f"state does not fit z: an array of it has shape {b.shape}, expected {a.shape}."
            )


def _mask(mask: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    if mask.shape in (shape, shape[-2:]):
        return jnp.broadcast_to(mask, shape)
    if mask.shape in (shape[:-1], shape[-2:-1]):
        return jnp.broadcast_to(mask[..., None], shape)
    raise InputError(
        f"mask must have one entry for each step, shape {shape[:-1]}, or for each channel, "
        f"shape {shape}; got {mask.shape}."
    )
