"""What a caller may get wrong, said in a sentence, before anything is compiled.

Values are looked at where they are known; under a transformation of JAX only shapes are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sagewing.errors import InputError
from sagewing.models import Model
from sagewing.shapes import Numbers, real_dtype


def as_real(name: str, value: Numbers) -> Float[Array, "..."]:
    """`value` as an array of the working precision."""
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
    """A covariance given as a diagonal or a matrix: its diagonal, and the rest if there is any."""
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
    rest = a - jnp.diag(diagonal)
    return diagonal, None if known is not None and not np.any(np.asarray(rest)) else rest


def _smallest_eigenvalue(name: str, matrix: np.ndarray) -> float:
    scale = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > 1e-6 * scale:
        raise InputError(f"{name} is a covariance and must be symmetric.")
    smallest = float(np.linalg.eigvalsh(matrix).min())
    return 0.0 if abs(smallest) < 1e-9 * scale else smallest


def adaptation(bounds: tuple[float, float], gain_noise: str) -> None:
    """Whether the settings of an adaptive filter make sense."""
    low, high = bounds
    if not 0.0 <= low <= 1.0 <= high:
        raise InputError(
            "bounds are factors of the base noise with low <= 1 <= high, such as (0.5, 100); "
            f"got {bounds}."
        )
    if gain_noise not in ("prior", "posterior"):
        raise InputError(f'gain_noise must be "prior" or "posterior"; got {gain_noise!r}.')


def model_shapes(model: Model, n_x: int, n_z: int, u: Any, dt: Any) -> None:
    """Whether f and h return what the sizes of Q0 and R0 promise."""
    x = jax.ShapeDtypeStruct((n_x,), real_dtype())
    z = jax.ShapeDtypeStruct((n_z,), real_dtype())
    name = type(model).__name__
    _expect(f"{name}.transition", model.transition, (x, u, dt), (n_x,), "n_x", "Q0")
    _expect(f"{name}.observe", model.observe, (x, u), (n_z,), "n_z", "R0")
    _expect(f"{name}.innovation", model.innovation, (z, z), (n_z,), "n_z", "R0")
    _expect(f"{name}.normalize", model.normalize, (x,), (n_x,), "n_x", "Q0")


def _expect(
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    shape: tuple[int, ...],
    size: str,
    by: str,
) -> None:
    out = jax.eval_shape(fn, *args)
    if getattr(out, "shape", None) != shape:
        given = getattr(out, "shape", type(out).__name__)
        raise InputError(
            f"{name} must return an array of shape {shape}, because {by} says {size} = {shape[0]}; "
            f"it returned {given}."
        )


def start(
    n_x: int, x0: Numbers, P0: Numbers, batch: tuple[int, ...]
) -> tuple[Float[Array, "n_x *batch"], Float[Array, "n_x n_x *batch"]]:
    """x0 and P0 of one record or of a batch (leading axis), checked; batch in the last axis."""
    x, P = as_real("x0", x0), as_real("P0", P0)
    if x.shape not in ((n_x,), (*batch, n_x)):
        raise InputError(f"x0 must have shape {_either((n_x,), batch)}; got {x.shape}.")
    if P.shape not in ((n_x, n_x), (*batch, n_x, n_x)):
        raise InputError(f"P0 must have shape {_either((n_x, n_x), batch)}; got {P.shape}.")
    known_x, known_P = _known(x), _known(P)
    if known_x is not None and not np.all(np.isfinite(known_x)):
        raise InputError("x0 must be finite; it has NaN or infinite entries.")
    if known_P is not None:
        _check_definite("P0", known_P)
    x = jnp.broadcast_to(x, (*batch, n_x))
    P = jnp.broadcast_to(P, (*batch, n_x, n_x))
    return (jnp.moveaxis(x, 0, -1), jnp.moveaxis(P, 0, -1)) if batch else (x, P)


def _check_definite(name: str, P: np.ndarray) -> None:
    if not np.all(np.isfinite(P)):
        raise InputError(f"{name} must be finite; it has NaN or infinite entries.")
    if np.abs(P - np.swapaxes(P, -1, -2)).max() > 1e-6 * np.abs(P).max():
        raise InputError(f"{name} is a covariance and must be symmetric.")
    try:
        np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(P).min())
        raise InputError(
            f"{name} must be positive definite; its smallest eigenvalue is {smallest:.3g}."
        ) from None


def _either(shape: tuple[int, ...], batch: tuple[int, ...]) -> str:
    return f"{shape} or {(*batch, *shape)}" if batch else f"{shape}"


class Record(NamedTuple):
    """The inputs of a run as the caller gave them, batch (if any) and time first, checked."""

    z: Float[Array, "*batch T n_z"]
    u: Float[Array, "*batch T n_u"] | Float[Array, "T n_u"] | None
    dt: Float[Array, "*batch T"] | Float[Array, "T"] | Float[Array, ""]
    mask: Bool[Array, "*batch T n_z"] | None

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch's size, or nothing for a single record."""
        return self.z.shape[:-2]


def record(n_z: int, z: Numbers, u: Numbers | None, dt: Numbers, mask: Numbers | None) -> Record:
    """The inputs of a run, checked."""
    z = as_real("z", z)
    if z.ndim not in (2, 3) or z.shape[-1] != n_z:
        raise InputError(
            f"z must have shape (T, {n_z}) or (batch, T, {n_z}), because R0 says n_z = {n_z}; "
            f"got {z.shape}."
        )
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
    return Record(z, u, dt, None if mask is None else _mask(jnp.asarray(mask, bool), z.shape))


def _mask(mask: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    if mask.shape in (shape, shape[-2:]):
        return jnp.broadcast_to(mask, shape)
    if mask.shape in (shape[:-1], shape[-2:-1]):
        return jnp.broadcast_to(mask[..., None], shape)
    raise InputError(
        f"mask must have one entry for each step, shape {shape[:-1]}, or for each channel, "
        f"shape {shape}; got {mask.shape}."
    )
