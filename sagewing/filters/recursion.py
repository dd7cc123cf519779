"""The recursion of the EKF, the Sage-Husa filter and the NDR-SHKF: Algorithm 1 of the paper.

The three differ in how d_k is chosen: see `attenuation.py`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.errors import InputError
from sagewing.filters import base_noise
from sagewing.filters.equations import broadcast_to_batch, correct_rooted, likelihood
from sagewing.filters.filter_state import FilterState, Prediction
from sagewing.filters.kernels import Gain, matvec, whiten
from sagewing.filters.linearizations import Linearizer, Taylor, Unscented
from sagewing.filters.linearizations.linearizer import Measured
from sagewing.filters.protocols import Dense, Rule
from sagewing.filters.recovery import Recovering, Verdict, begin
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
    InnovationCov,
    Inputs,
    Measurements,
    States,
    Steps,
    Z,
)


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
        state = state.with_finite_derivative()

        # Predict
        prior = self._predict(state, u, dt)
        before, mode = prior.rooted, prior.mode

        # Innovation, and the gain by the remembered noise; an implausible channel is left out
        r, r0, C = base_noise.measurement_noise(self, state, prior.x, u, mode)
        R = base_noise.R_of(self, r, r0, C, arrived)
        measured = self.linearization.measure(self.model, prior.x, before.P, R, z, u, arrived)
        found, after = self._gain(before, measured, R, measured.nu)
        kept, used = measured.kept(found.kept), arrived & found.kept
        white, HPH = whiten(found.L, kept.nu), measured.with_error(found.HPH)
        linear = (Transition(self.model, state.x, u, dt), state.P, prior.x, prior.F, prior.FPF)
        linear = (*linear, before.P, kept.H, HPH, prior.q0, r0, mode.changed, mode.adapts)
        info = (kept.nu, white, found.S, found.L, found.K, prior.q, r, used)
        info = StepInfo(*info, Linearization(*linear), C)

        # The noise of this step, and the gain by it
        noise, pending = self.rule.before_gain(state.memory, info)
        final, plausible = found, found.kept
        if noise.differs:
            before, (r_gain, C_gain) = before.with_noise(noise), noise.instead_of(r, C)
            R = base_noise.R_of(self, r_gain, r0, C_gain, used)
            final, after = self._gain(before, kept, R, None)
            plausible = plausible & final.kept

        # Correct, and the noise to remember
        dx = matvec(final.K, kept.nu)
        x, (P, U), corrected = correct_rooted(self.model, prior.x, before, dx, after)
        adapted, memory = self.rule.after_correction(pending, info, dx, after.P)
        q, r, C = base_noise.remembered(adapted, info, state.q, mode)
        verdict = Verdict(arrived, plausible, prior.ok & corrected)
        recovery, base = state.recovery.after_step(dt), state.base.after_step(prior.q0, r0)
        after_step = FilterState(x, P, q, r, memory, recovery, mode.now, base, U, C)
        Q, R = (None, None) if C is None else C.covariances(q, r)
        counts, changing = (verdict.ok, recovery.restarts), base.changing(adapted, q, r, mode)
        step = Step(x, P, *likelihood(white, found.L, used), *counts, *changing, adapted.d)
        step = step._replace(x_pred=prior.x, P_pred=before.P, F=prior.F, H=kept.H, nu=kept.nu)
        step = step._replace(innovation=measured.nu, S=final.S, K=final.K, trace=adapted.trace)
        return after_step, step._replace(predicted=prior.ok, corrected=corrected, Q=Q, R=R), verdict

    def predict_only(self, state: FilterState, u: Inputs, dt: Steps) -> tuple[FilterState, Step]:
        """A step between two measurements: predict x and P without calling the rule.

        x and P are those of a `step` in which nothing arrives. The rule's memory does not change,
        so that it counts measurements and not predictions.
        """
        prior = self._predict(state, u, dt)
        no_dx, no_nu, none = (jnp.zeros_like(a) for a in (state.q, state.r, state.x[0]))
        corrected = correct_rooted(self.model, prior.x, prior.rooted, no_dx, prior.rooted)
        x, (P, U), corrected = corrected
        nothing = jnp.zeros_like(no_nu, bool)
        verdict = Verdict(nothing, nothing, prior.ok & corrected)
        state = state._replace(x=x, P=P, U=U, recovery=state.recovery.after_step(dt))
        d = jnp.zeros((len(no_dx) + len(no_nu), *none.shape), none.dtype)
        step = Step(x, P, none, none, verdict.ok, state.recovery.restarts, state.q, state.r, d)
        step = step._replace(x_pred=prior.x, P_pred=prior.rooted.P, F=prior.F, nu=no_nu)
        step = step._replace(innovation=no_nu, predicted=prior.ok, corrected=corrected)
        return self.recovered(state, verdict), step

    def _predict(self, state: FilterState, u: Inputs, dt: Steps) -> Prediction:
        noise = base_noise.process_noise(self, state, u, dt)
        arguments = (self.model, state.recovery, state.x, state.P, u, dt)
        x, F, FPF, ok = self.linearization.predict(*arguments)
        Q = base_noise.covariance(noise.q, noise.off, noise.q0)
        rooted = Rooted(state.P, state.U)
        rooted = rooted.predicted(F, FPF, ok, Q, diagonal_only=noise.off is None)
        return Prediction(x, F, FPF, rooted, ok, noise.q, noise.q0, noise.mode)

    def _gain(
        self, before: Rooted, measured: Measured, R: InnovationCov, nu: Measurements | None
    ) -> tuple[Gain, Rooted]:
        diagonal_R = self.R_off is None and not self.dense and measured.error is None
        return before.gain(measured.H, measured.with_error(R), nu, diagonal_only=diagonal_R)

    def root_after(self, state: FilterState, shrink: Errors, widen: Flags) -> dict[str, Any]:
        """The root of P, as `recover` changes P."""
        return {} if state.U is None else {"U": rescaled(state.U, shrink, widen)}
