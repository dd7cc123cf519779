"""States that are no vectors: angles, directions and rotations, and states made of several.

A space has `plus(x, dx)`, the point reached from x by the error dx, and `minus(a, b)`, the error
by which a differs from b. They obey plus(x, 0) = x, plus(a, minus(b, a)) = b and, for errors that
are not too large, minus(plus(x, dx), x) = dx. `n_x` is the number of entries of a point, `n_dx`
that of an error, and `curved` says whether plus is anything else than an addition.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.models.angles import wrap_angle
from sagewing.models.model import Model
from sagewing.models.rotations import (
    SMALL_SQUARE,
    Quaternion,
    conjugate,
    from_rotation_vector,
    product,
    right_jacobian,
    rotation_vector,
    unit,
)
from sagewing.shapes import DX, X

Point = Float[Array, "3"]


@runtime_checkable
class Manifold(Protocol):
    """What a space has."""

    @property
    def n_x(self) -> int:
        """The number of entries of a point."""
        ...

    @property
    def n_dx(self) -> int:
        """The number of entries of an error."""
        ...

    @property
    def curved(self) -> slice:
        """The errors for which plus is no addition."""
        ...

    @property
    def origin(self) -> X:
        """A point to start from."""
        ...

    def plus(self, x: X, dx: DX) -> X:
        """The point that differs from x by the error dx."""
        ...

    def minus(self, a: X, b: X) -> DX:
        """The error by which a differs from b."""
        ...


class Vector(eqx.Module):
    """n numbers, which are added and subtracted."""

    n: int = eqx.field(static=True)

    @property
    def n_x(self) -> int:
        """n."""
        return self.n

    @property
    def n_dx(self) -> int:
        """n."""
        return self.n

    @property
    def curved(self) -> slice:
        """None of the errors."""
        return slice(0, 0)

    @property
    def origin(self) -> X:
        """Zeros."""
        return jnp.zeros(self.n)

    def plus(self, x: X, dx: DX) -> X:
        """The sum."""
        return x + dx

    def minus(self, a: X, b: X) -> DX:
        """The difference."""
        return a - b


class Angle(eqx.Module):
    """An angle in rad, kept within [-pi, pi)."""

    n_x: int = eqx.field(static=True, default=1, init=False)
    n_dx: int = eqx.field(static=True, default=1, init=False)

    @property
    def curved(self) -> slice:
        """None of the errors: the derivative of wrapping is 1."""
        return slice(0, 0)

    @property
    def origin(self) -> X:
        """Zero."""
        return jnp.zeros(1)

    def plus(self, x: X, dx: DX) -> X:
        """The sum, wrapped."""
        return wrap_angle(x + dx)

    def minus(self, a: X, b: X) -> DX:
        """The difference the short way."""
        return wrap_angle(a - b)


class Rotation(eqx.Module):
    """A unit quaternion (w, x, y, z), body to world; its error is a rotation vector in the body.

    The quaternions q and -q are the same rotation, and give the same errors.
    """

    n_x: int = eqx.field(static=True, default=4, init=False)
    n_dx: int = eqx.field(static=True, default=3, init=False)

    @property
    def curved(self) -> slice:
        """All errors."""
        return slice(0, 3)

    @property
    def origin(self) -> X:
        """No rotation."""
        return jnp.array([1.0, 0.0, 0.0, 0.0])

    def plus(self, x: Quaternion, dx: Point) -> Quaternion:
        """The rotation by dx first, then by x."""
        return unit(product(x, from_rotation_vector(dx)))

    def minus(self, a: Quaternion, b: Quaternion) -> Point:
        """The rotation vector, at most pi long, that takes b to a."""
        return rotation_vector(product(conjugate(b), a))

    def plus_jacobian(self, x: Quaternion, dx: Point) -> Float[Array, "3 3"]:
        """In closed form."""
        return right_jacobian(dx)


class Direction(eqx.Module):
    """A unit vector; its error has two entries, along two axes at a right angle to it."""

    n_x: int = eqx.field(static=True, default=3, init=False)
    n_dx: int = eqx.field(static=True, default=2, init=False)

    @property
    def curved(self) -> slice:
        """All errors."""
        return slice(0, 2)

    @property
    def origin(self) -> X:
        """Along the third axis."""
        return jnp.array([0.0, 0.0, 1.0])

    def plus(self, x: Point, dx: Float[Array, "2"]) -> Point:
        """Along the great circle in the direction of dx, by its length in rad."""
        square = jnp.sum(dx * dx)
        small = square < SMALL_SQUARE
        angle = jnp.sqrt(jnp.where(small, 1.0, square))
        sinc = jnp.where(small, 1.0 - square / 6.0 + square**2 / 120.0, jnp.sin(angle) / angle)
        cosine = jnp.where(small, 1.0 - square / 2.0 + square**2 / 24.0, jnp.cos(angle))
        moved = cosine * x + sinc * (_tangents(x) @ dx)
        return moved / jnp.sqrt(jnp.sum(moved * moved))

    def minus(self, a: Point, b: Point) -> Float[Array, "2"]:
        """The great circle from b to a; not defined for opposite directions."""
        across = _tangents(b).T @ a
        square, cosine = jnp.sum(across * across), jnp.sum(a * b)
        small = (square < SMALL_SQUARE) & (cosine > 0.0)
        sine = jnp.sqrt(jnp.where(square > 0.0, jnp.where(small, 1.0, square), 1.0))
        series = 1.0 + square / 6.0 + 3.0 / 40.0 * square**2  # asin(s) / s
        return jnp.where(small, series, jnp.arctan2(sine, cosine) / sine) * across


def _tangents(x: Point) -> Float[Array, "3 2"]:
    """Two unit vectors at right angles to the unit vector x, and to each other."""
    sign = jnp.where(x[2] >= 0.0, 1.0, -1.0).astype(x.dtype)
    a = -1.0 / (sign + x[2])
    b = x[0] * x[1] * a
    first = jnp.stack([1.0 + sign * x[0] ** 2 * a, sign * b, -sign * x[0]])
    second = jnp.stack([b, sign + x[1] ** 2 * a, -x[1]])
    return jnp.stack([first, second], axis=1)


class Product(eqx.Module):
    """A state made of several, one after the other.

    Example: `Product(Vector(3), Rotation(), Vector(6))`, a pose and six biases: 13 entries with 12
    errors
    """

    parts: tuple[Manifold, ...]

    def __init__(self, *parts: Manifold):
        if not parts:
            raise InputError("Product needs at least one space, such as Vector(3).")
        self.parts = parts

    @property
    def n_x(self) -> int:
        """The sum over the parts."""
        return sum(part.n_x for part in self.parts)

    @property
    def n_dx(self) -> int:
        """The sum over the parts."""
        return sum(part.n_dx for part in self.parts)

    @property
    def curved(self) -> slice:
        """From the first curved error to the last."""
        ranges = [range(at.start, at.stop)[part.curved] for part, _, at in self._places()]
        ranges = [each for each in ranges if len(each)]
        return slice(ranges[0].start, ranges[-1].stop) if ranges else slice(0, 0)

    @property
    def origin(self) -> X:
        """The origins of the parts."""
        return jnp.concatenate([part.origin for part in self.parts])

    def plus(self, x: X, dx: DX) -> X:
        """Part by part."""
        return jnp.concatenate([part.plus(x[i], dx[j]) for part, i, j in self._places()])

    def minus(self, a: X, b: X) -> DX:
        """Part by part."""
        return jnp.concatenate([part.minus(a[i], b[i]) for part, i, _ in self._places()])

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """Part by part; None if a curved part has none in closed form."""
        first, last, blocks = self.curved.start, self.curved.stop, []
        for part, i, j in self._places():
            if j.start >= last or j.stop <= first:
                continue
            curved = len(range(part.n_dx)[part.curved])
            own = _plus_jacobian(part, x[i], dx[j]) if curved else jnp.eye(part.n_dx, dtype=x.dtype)
            if own is None or curved not in (0, part.n_dx):
                return None
            blocks.append(own)
        return block_diag(*blocks) if blocks else None

    def _places(self) -> Iterator[tuple[Manifold, slice, slice]]:
        """Each part with its entries of a point and of an error."""
        i = j = 0
        for part in self.parts:
            yield part, slice(i, i + part.n_x), slice(j, j + part.n_dx)
            i, j = i + part.n_x, j + part.n_dx


def _plus_jacobian(space: Manifold, x: X, dx: DX) -> Float[Array, "k k"] | None:
    """That of a space which has one."""
    own = getattr(space, "plus_jacobian", None)
    return None if own is None else own(x, dx)


class ManifoldModel(Model):
    """A model whose state lies in `space`.

    Example: `class Vehicle(sw.ManifoldModel): space = Product(Vector(3), Rotation())`, and then
    `transition` and `observe` as in any model
    """

    space: eqx.AbstractVar[Manifold]

    @property
    def n_x(self) -> int:
        """That of the space."""
        return self.space.n_x

    @property
    def origin(self) -> X:
        """That of the space."""
        return self.space.origin

    @property
    def curved(self) -> slice:
        """That of the space."""
        return self.space.curved

    def plus(self, x: X, dx: DX) -> X:
        """That of the space."""
        return self.space.plus(x, dx)

    def minus(self, a: X, b: X) -> DX:
        """That of the space."""
        return self.space.minus(a, b)

    def plus_jacobian(self, x: X, dx: DX) -> Float[Array, "k k"] | None:
        """That of the space, if it has one."""
        return _plus_jacobian(self.space, x, dx)
