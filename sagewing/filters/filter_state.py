"""What the filters of the recursion remember between steps, and a step's prediction."""

from typing import Any, NamedTuple

from sagewing.filters.base_noise import Base, Mode
from sagewing.filters.correlations import Correlations
from sagewing.filters.guards import finite_derivative
from sagewing.filters.recovery import Recovery
from sagewing.filters.square_root import Rooted
from sagewing.shapes import Covariances, Errors, Flags, Measurements, States, Values


class FilterState(NamedTuple):
    """Everything the filter remembers from one step to the next.

    `mode` is the mode of the measurement that `r` belongs to, if the model has several; `base` the
    base noise of the last step, if the model has noise of its own; `U` the root of P, if the filter
    works with it; `correlations` those of Q and R, if the filter adapts them.
    """

    x: States
    P: Covariances
    q: Errors
    r: Measurements
    memory: Any
    recovery: Recovery
    mode: Values | None = None
    base: Base = Base()
    U: Covariances | None = None
    correlations: Correlations | None = None

    def with_finite_derivative(self) -> "FilterState":
        """The same state; its cotangents that are not finite become zero."""
        names = ("x", "P", "U", "q", "r", "correlations")
        values = finite_derivative(tuple(getattr(self, name) for name in names))
        return self._replace(**dict(zip(names, values, strict=True)))


class Prediction(NamedTuple):
    """The prediction of a step: x, F, F P F^T, P with its root, where they are valid, its noise."""

    x: States
    F: Covariances
    FPF: Covariances
    rooted: Rooted
    ok: Flags
    q: Errors
    q0: Errors
    mode: Mode
