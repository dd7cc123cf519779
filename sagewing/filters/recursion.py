"""The recursion of the EKF, the Sage-Husa filter and the NDR-SHKF: Algorithm 1 of the paper.

The three differ in how d_k is chosen: see `attenuation.py`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.filters import base_noise
from sagewing.filters.base_noise import Base, covariance, measurement_noise, process_noise
from sagewing.filters.correlations import Correlations
from sagewing.filters.equations import broadcast_to_batch, correct_rooted, likelihood
from sagewing.filters.guards import finite_derivative
from sagewing.filters.kernels import matvec, whiten
from sagewing.filters.linearizations import Linearizer, Taylor, Unscented
from sagewing.filters.protocols import Dense, Rule
from sagewing.filters.recovery import Recovering, Recovery, Verdict, begin
from sagewing.filters.square_root import Rooted, rescaled, root_of
from sagewing.filters.step import Linearization, Step, StepInfo, Transition
from sagewing.models import Model
from sagewing.shapes import (
    DX,
    XX,
    Arrived,
    Covariances,
    Errors,
    Flags,
    Inputs,
    Measurements,
    States,
    Steps,
    Values,
    Z,
)


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


class AdaptiveFilter(Recovering):
    """An EKF whose noise covariances are re-estimated by a rule.

    `q0`, `r0` are the base variances, `Q_off`, `R_off` the off-diagonals (None: zero), whose
    correlations are constant, or with `dense` (True, or "R": of R only) the first ones.

    A model with several modes has a row of `r0` for each, and r is reset to it when the mode
    changes. With `adapts_in` the noise is adapted in these modes only; the others use the base
    noise, and keep the adapted q until one of these modes returns. With `square_root` the step
    works with a root of P.
    """

    model: Model
    q0: DX
    r0: Z | Float[Array, "modes n_z"]
    Q_off: XX | None
    R_off: jax.Array | None
    rule: Rule
    adapts_in: tuple[int, ...] | None = eqx.field(static=True, default=None)
    linearization: Linearizer = Taylor()
    square_root: bool = eqx.field(static=True, default=False)
    dense: Dense = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        """Refuse sigma points of a root, which are not implemented."""
        if self.square_root and isinstance(self.linearization, Unscented):
            raise InputError(
                'square_root=True needs linearization "taylor" or "iterated": "unscented" adds the '
                "covariance of its linearisation error to P."
            )

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        return self.model.n_x or self.q0.size

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.r0.shape[-1]

    def init(self, x0: States, P0: Covariances) -> FilterState:
        """The filter before its first measurement."""
        q, r = broadcast_to_batch(self.q0, x0), broadcast_to_batch(self.r0, x0)
        mode = None
        if self.model.modes > 1:
            r, mode = r[0], jnp.zeros_like(x0[0])
        recovery = begin(x0, P0, r)
        memory, base = self.rule.init(q, r), base_noise.begin(self, q, r)
        U = root_of(P0) if self.square_root else None
        C = base_noise.begin_correlations(self, q, r)
        return FilterState(x0, P0, q, r, memory, recovery, mode, base, U, C)

    def plain_step(
        self, state: FilterState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[FilterState, Step, Verdict]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        given = (state.x, state.P, state.U, state.q, state.r, state.correlations)
        x, P, U, q_old, r, C = finite_derivative(given)
        state = state._replace(correlations=C)

        # Predict
        q, q0, Q_off, mode = process_noise(self, state, x, q_old, u, dt)
        arguments = (self.model, state.recovery, x, P, u, dt)
        x_pred, F, FPF, predicted = self.linearization.predict(*arguments)
        Q, diagonal_Q = covariance(q, Q_off, q0), Q_off is None
        before = Rooted(P, U).predicted(F, FPF, predicted, Q, diagonal_only=diagonal_Q)
        P_pred = before.P

        # Innovation, and the gain by the remembered noise; an implausible channel is left out
        r, r0, R_off = measurement_noise(self, state, x_pred, r, u, mode)
        C = base_noise.step_correlations(state, mode)
        R = base_noise.R_of(r, r0, R_off, C, arrived)
        measured = self.linearization.measure(self.model, x_pred, P_pred, R, z, u, arrived)
        innovation, H, _ = measured
        diagonal_R = R_off is None and not self.dense and measured.error is None
        R = measured.with_error(R)
        found, after = before.gain(H, R, innovation, diagonal_only=diagonal_R)
        HPH, S, L, K, _, kept = found
        used, HPH = arrived & kept, measured.with_error(HPH)
        nu, H = jnp.where(kept, innovation, 0.0), jnp.where(kept[:, None], H, 0.0)
        white = whiten(L, nu)
        linear = (Transition(self.model, x, u, dt), P, x_pred, F, FPF, P_pred, H, HPH, q0, r0)
        linear = Linearization(*linear, mode.changed, mode.adapts)
        info = StepInfo(nu, white, S, L, K, q, r, used, linear, C)

        # The noise of this step, and the gain by it
        noise, pending = self.rule.before_gain(state.memory, info)
        if noise.differs:
            before = before.with_noise(noise)
            r_gain, C_gain = noise.instead_of(r, C)
            R = measured.with_error(base_noise.R_of(r_gain, r0, R_off, C_gain, used), used)
            again, after = before.gain(H, R, None, diagonal_only=diagonal_R)
            S, K, kept = again.S, again.K, kept & again.kept

        # Correct, and the noise to remember
        dx, P_post = matvec(K, nu), after.P
        x, (P, U), corrected = correct_rooted(self.model, x_pred, before, dx, after)
        adapted, memory = self.rule.after_correction(pending, info, dx, P_post)
        q, r = adapted.instead_of(q, r)
        q = q if mode.adapts is None else jnp.where(mode.adapts, q, q_old)
        C = C if adapted.correlations is None else adapted.correlations

        verdict = Verdict(arrived, kept, predicted & corrected)
        recovery, base = state.recovery.after_step(dt), state.base.after_step(q0, r0)
        state = FilterState(x, P, q, r, memory, recovery, mode.now, base, U, C)
        values = (*base.changing(adapted, q, r, mode), adapted.d)
        values = (*likelihood(white, L, used), verdict.ok, recovery.restarts, *values)
        internals = (x_pred, before.P, F, H, innovation, nu, S, K, adapted.trace)
        internals = (*internals, predicted, corrected)
        internals = internals if C is None else (*internals, *C.covariances(q, r))
        return state, Step(x, P, *values, *internals), verdict

    def predict_only(self, state: FilterState, u: Inputs, dt: Steps) -> tuple[FilterState, Step]:
        """A step between two measurements: predict x and P without calling the rule.

        x and P are those of a `step` in which nothing arrives. The rule's memory does not change,
        so that it counts measurements and not predictions.
        """
        arguments = (self.model, state.recovery, state.x, state.P, u, dt)
        x_pred, F, FPF, predicted = self.linearization.predict(*arguments)
        q, q0, Q_off, _ = process_noise(self, state, state.x, state.q, u, dt)
        Q, rooted = covariance(q, Q_off, q0), Rooted(state.P, state.U)
        rooted = rooted.predicted(F, FPF, predicted, Q, diagonal_only=Q_off is None)
        P_pred, no_dx = rooted.P, jnp.zeros_like(state.q)
        x, (P, U), corrected = correct_rooted(self.model, x_pred, rooted, no_dx, rooted)
        nothing = jnp.zeros_like(state.r, bool)
        verdict = Verdict(nothing, nothing, predicted & corrected)
        state = state._replace(x=x, P=P, U=U, recovery=state.recovery.after_step(dt))
        none, no_nu = jnp.zeros_like(x[0]), jnp.zeros_like(state.r)
        d = jnp.zeros((len(state.q) + len(no_nu), *none.shape), x.dtype)
        counts = (verdict.ok, state.recovery.restarts)
        step = Step(x, P, none, none, *counts, state.q, state.r, d, x_pred, P_pred, F)
        step = step._replace(innovation=no_nu, nu=no_nu, predicted=predicted, corrected=corrected)
        return self.recovered(state, verdict), step

    def root_after(self, state: FilterState, shrink: Errors, widen: Flags) -> dict[str, Any]:
        """The root of P, as `recover` changes P."""
        return {} if state.U is None else {"U": rescaled(state.U, shrink, widen)}
