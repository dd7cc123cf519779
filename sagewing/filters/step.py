"""The records of a step: before the gain, the decision on its noise, and its full result."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from sagewing.filters.correlations import Correlations
from sagewing.filters.lifting import per_sample
from sagewing.models import Model
from sagewing.models.model import error_after
from sagewing.shapes import (
    Arrived,
    Attenuations,
    Covariances,
    Errors,
    Flags,
    Gains,
    InnovationCov,
    Inputs,
    Jacobians,
    Measurements,
    States,
    Steps,
    Values,
)


class Transition(NamedTuple):
    """f at this step, for rules that evaluate it again: x is the estimate before the prediction."""

    model: Model
    x: States
    u: Inputs
    dt: Steps


class Linearization(NamedTuple):
    """The linearisation of a step: the prediction, its derivatives, and the base noise.

    `P` and `P_pred` are covariances before and after the prediction, `FPF` is F P F^T, `HPH` is
    H P_pred H^T. `mode_changed` flags a mode other than that of the step before (None for a
    model with one mode), `adapts` flags modes that adapt the noise (None: all do).
    """

    transition: Transition
    P: Covariances
    x_pred: States
    F: Covariances
    FPF: Covariances
    P_pred: Covariances
    H: Jacobians
    HPH: InnovationCov
    q0: Errors
    r0: Measurements
    mode_changed: Flags | None = None
    adapts: Flags | None = None

    def nonlinear_offset(self, offset: Errors) -> Errors:
        """f(x + offset) - f(x): the error of the prediction where that of x is `offset`."""
        model, x, u, dt = self.transition
        if not model.on_manifold:
            return per_sample(model.transition, x + offset, u, dt) - self.x_pred
        return per_sample(partial(error_after, model), offset, x, self.x_pred, u, dt)


class StepInfo(NamedTuple):
    """The input of a rule: a step with the gain under the remembered noise.

    A channel that did not arrive, or was refused, has zero in the innovation `nu`, in the whitened
    innovation `white`, in its row of H and its column of `K`, and a unit variance in `S`. `linear`
    may be None if a policy is called without a filter; `correlations` are those of the remembered
    noise, None where they are not adapted.
    """

    nu: Measurements
    white: Measurements
    S: InnovationCov
    L: InnovationCov
    K: Gains
    q: Errors
    r: Measurements
    arrived: Arrived
    linear: Linearization | None = None
    correlations: Correlations | None = None


class Attenuation(NamedTuple):
    """A policy's decision for one step; None means no change.

    `q` and `r` are the shares of the empirical estimates that are blended into the remembered ones:
    the d_k of the paper. `scale_q` and `scale_r` multiply the remembered q and r. The other two are
    for this step only: `inflate_r` multiplies the r of its gain, and curvature curvature^T is added
    to its predicted P, where `curvature` is the error of f's linearisation.
    """

    q: Errors | None = None
    r: Measurements | None = None
    scale_q: Errors | None = None
    scale_r: Measurements | None = None
    inflate_r: Measurements | None = None
    curvature: Errors | None = None

    def where(self, flags: Flags) -> "Attenuation":
        """This decision for the flagged records, no change for the others."""
        neutral = (0.0, 0.0, 1.0, 1.0, 1.0, 0.0)
        return Attenuation(
            *(
                None if value is None else jnp.where(flags, value, none)
                for value, none in zip(self, neutral, strict=True)
            )
        )


class StepNoise(NamedTuple):
    """The noise of one step's correction; None means the remembered noise.

    `r` are the variances of the measurement noise, `correlations` theirs where they are adapted;
    `added` added^T is added to the predicted P.
    """

    r: Measurements | None = None
    added: Errors | None = None
    correlations: InnovationCov | None = None

    @property
    def differs(self) -> bool:
        """Whether this step needs another gain than that of the remembered noise."""
        return self.r is not None or self.added is not None

    def instead_of(
        self, r: Measurements, C: Correlations | None
    ) -> tuple[Measurements, Correlations | None]:
        """The noise of this step's gain instead of `r` and `C`, where it differs."""
        if C is not None and self.correlations is not None:
            C = C._replace(r=self.correlations)
        return r if self.r is None else self.r, C

    def added_to(self, P_pred: Covariances) -> Covariances:
        """The predicted P of this step."""
        return P_pred if self.added is None else P_pred + self.added[:, None] * self.added[None]


class RememberedNoise(NamedTuple):
    """The noise to remember; None means no change.

    `d` are the shares [d_q, d_r] by which it was adapted, `trace` is for training.
    """

    q: Errors | None = None
    r: Measurements | None = None
    d: Attenuations | None = None
    trace: Any = None
    correlations: Correlations | None = None

    def instead_of(self, q: Errors, r: Measurements) -> tuple[Errors, Measurements]:
        """The noise to remember after `q` and `r`: these where nothing has changed."""
        return q if self.q is None else self.q, r if self.r is None else self.r


class Estimate(NamedTuple):
    """The public result of one step.

    `q`, `r` and `d` are None where the filter adapts nothing. `ok` is False where the arithmetic
    overflowed, dt was an error of the clock or a measurement was implausible: the step ignored
    what failed. `restarts` counts how often the filter has returned to an earlier state.
    """

    x: States
    P: Covariances
    q: Errors | None
    r: Measurements | None
    d: Attenuations | None
    nis: Values
    loglik: Values
    ok: Flags
    restarts: Values


class Step(NamedTuple):
    """All results of a step; a result that the filter does not have is None.

    The first fields are those of `Estimate`. Then the prediction, the innovation before and after
    implausible channels were set to zero, S and K of the correction, `trace`: the rule's values
    for training, and whether the prediction and the correction could be computed. `Q` and `R` are
    the covariances whose variances are q and r, of a filter that adapts their correlations.
    """

    x: States
    P: Covariances
    nis: Values
    loglik: Values
    ok: Flags
    restarts: Values
    q: Errors | None = None
    r: Measurements | None = None
    d: Attenuations | None = None
    x_pred: States | None = None
    P_pred: Covariances | None = None
    F: Covariances | None = None
    H: Jacobians | None = None
    innovation: Measurements | None = None
    nu: Measurements | None = None
    S: InnovationCov | None = None
    K: Gains | None = None
    trace: Any = None
    predicted: Flags | None = None
    corrected: Flags | None = None
    Q: Covariances | None = None
    R: InnovationCov | None = None

    @property
    def estimate(self) -> Estimate:
        """The public part."""
        return Estimate(*(getattr(self, name) for name in Estimate._fields))
