"""The recursion of the EKF, the Sage-Husa filter and the NDR-SHKF: Algorithm 1 of the paper.

The three differ in how d_k is chosen: see `attenuation.py`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.equations import (
    broadcast_to_batch,
    correct,
    likelihood,
    mask_missing_channels,
)
from sagewing.filters.guards import finite_derivative
from sagewing.filters.kernels import diagonal_matrix, gain, matvec, whiten
from sagewing.filters.lifting import per_sample
from sagewing.filters.linearizations import Linearizer, Taylor
from sagewing.filters.protocols import Rule
from sagewing.filters.recovery import Recovering, Recovery, Verdict, begin
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
    Values,
    Z,
)


class FilterState(NamedTuple):
    """Everything the filter remembers from one step to the next.

    `mode` is the mode of the measurement that `r` belongs to, if the model has several.
    """

    x: States
    P: Covariances
    q: Errors
    r: Measurements
    memory: Any
    recovery: Recovery
    mode: Values | None = None


class Mode(NamedTuple):
    """The present mode, whether it differs from the one before, and whether it adapts the noise.

    The first two are None for a model with one mode, the last if every mode adapts the noise.
    """

    now: Values | None = None
    changed: Flags | None = None
    adapts: Flags | None = None


class AdaptiveFilter(Recovering):
    """An EKF whose noise covariances are re-estimated by a rule.

    `q0`, `r0` are the base variances, `Q_off`, `R_off` the constant off-diagonals (None: zero).

    A model with several modes has a row of `r0` for each, and r is reset to it when the mode
    changes. With `adapts_in` the noise is adapted in these modes only; the others use the base
    noise, and keep the adapted q until one of these modes returns.
    """

    model: Model
    q0: DX
    r0: Z | Float[Array, "modes n_z"]
    Q_off: XX | None
    R_off: jax.Array | None
    rule: Rule
    adapts_in: tuple[int, ...] | None = eqx.field(static=True, default=None)
    linearization: Linearizer = Taylor()

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
        return FilterState(x0, P0, q, r, self.rule.init(q, r), recovery, mode)

    def plain_step(
        self, state: FilterState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[FilterState, Step, Verdict]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        x, P, q_old, r = finite_derivative((state.x, state.P, state.q, state.r))
        q, r, q0, r0, mode = self._noise_of_mode(state, q_old, r, u)

        # Predict
        at = (self.model, state.recovery, x, P, u, dt)
        x_pred, F, FPF, predicted = self.linearization.predict(*at)
        P_pred = FPF + self._Q(q)

        # Innovation, and the gain by the remembered noise; an implausible channel is left out
        R = self._R(r, arrived)
        measured = self.linearization.measure(self.model, x_pred, P_pred, R, z, u, arrived)
        innovation, H, _ = measured
        HPH, S, L, K, P_post, kept = gain(P_pred, H, measured.with_error(R), innovation)
        used, HPH = arrived & kept, measured.with_error(HPH)
        nu, H = jnp.where(kept, innovation, 0.0), jnp.where(kept[:, None], H, 0.0)
        white = whiten(L, nu)
        linear = (Transition(self.model, x, u, dt), P, x_pred, F, FPF, P_pred, H, HPH, q0, r0)
        linear = Linearization(*linear, mode.changed, mode.adapts)
        info = StepInfo(nu, white, S, L, K, q, r, used, linear)

        # The noise of this step, and the gain by it
        noise, pending = self.rule.before_gain(state.memory, info)
        if noise.differs:
            P_pred = noise.added_to(P_pred)
            R = self._R(r if noise.r is None else noise.r, used)
            _, S, _, K, P_post, again = gain(P_pred, H, measured.with_error(R))
            kept = kept & again

        # Correct
        dx = matvec(K, nu)
        x, P, corrected = correct(self.model, x_pred, P_pred, dx, P_post)

        # The noise to remember, from the correction before it was normalised
        adapted, memory = self.rule.after_correction(pending, info, dx, P_post)
        q, r = adapted.instead_of(q, r)
        q = q if mode.adapts is None else jnp.where(mode.adapts, q, q_old)
        said_r = adapted.r if mode.now is None else r

        verdict = Verdict(arrived, kept, predicted & corrected)
        state = FilterState(x, P, q, r, memory, state.recovery.after_step(dt), mode.now)
        nis, loglik = likelihood(white, L, used)
        estimate = (x, P, nis, loglik, verdict.ok, state.recovery.restarts, adapted.q, said_r)
        inside = (x_pred, P_pred, F, H, innovation, nu, S, K, adapted.trace)
        return state, Step(*estimate, adapted.d, *inside), verdict

    def predict_only(self, state: FilterState, u: Inputs, dt: Steps) -> tuple[FilterState, Step]:
        """A step between two measurements: predict x and P without calling the rule.

        x and P are those of a `step` in which nothing arrives. The rule's memory does not change,
        so that it counts measurements and not predictions.
        """
        at = (self.model, state.recovery, state.x, state.P, u, dt)
        x_pred, F, P, predicted = self.linearization.predict(*at)
        P_pred = P + self._Q(state.q)
        x, P, corrected = correct(self.model, x_pred, P_pred, jnp.zeros_like(state.q), P_pred)
        nothing = jnp.zeros_like(state.r, bool)
        verdict = Verdict(nothing, nothing, predicted & corrected)
        state = state._replace(x=x, P=P, recovery=state.recovery.after_step(dt))
        none, no_nu = jnp.zeros_like(x[0]), jnp.zeros_like(state.r)
        d = jnp.zeros((len(state.q) + len(no_nu), *none.shape), x.dtype)
        counts = (verdict.ok, state.recovery.restarts)
        step = Step(x, P, none, none, *counts, state.q, state.r, d, x_pred, P_pred, F)
        return self.recovered(state, verdict), step._replace(innovation=no_nu, nu=no_nu)

    def _noise_of_mode(
        self, state: FilterState, q: Errors, r: Measurements, u: Inputs
    ) -> tuple[Errors, Measurements, Errors, Measurements, Mode]:
        """q and r in the present mode, and their bases; a change of mode resets r to its base."""
        q0 = broadcast_to_batch(self.q0, q)
        if state.mode is None:
            return q, r, q0, broadcast_to_batch(self.r0, r), Mode()
        now = per_sample(self.model.mode, u)
        r0 = jnp.moveaxis(self.r0[now], -1, 0)
        r = jnp.where(now == state.mode, r, r0)
        now = now.astype(r.dtype)
        if self.adapts_in is None:
            return q, r, q0, r0, Mode(now, now != state.mode)
        adapts = sum((now == m for m in self.adapts_in), jnp.zeros_like(now, bool))
        return jnp.where(adapts, q, q0), r, q0, r0, Mode(now, now != state.mode, adapts)

    def _Q(self, q: Errors) -> Covariances:
        Q = diagonal_matrix(q)
        return Q if self.Q_off is None else Q + broadcast_to_batch(self.Q_off, q)

    def _R(self, r: Measurements, arrived: Arrived) -> InnovationCov:
        R = diagonal_matrix(r)
        R = R if self.R_off is None else R + broadcast_to_batch(self.R_off, r)
        return mask_missing_channels(R, arrived)
