"""The recursion of the EKF, the Sage-Husa filter and the NDR-SHKF: Algorithm 1 of the paper.

Who chooses d_k, and nothing else, tells the three apart: see `rules.py`.
"""

import math
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sagewing.filters.guards import all_finite, finite_derivative, hold, keep_where
from sagewing.filters.kernels import (
    diagonal,
    diagonal_matrix,
    gain,
    matvec,
    project,
    propagate,
    whiten,
)
from sagewing.filters.lifting import jacobian, per_sample
from sagewing.filters.recovery import Recovering, Recovery, after_step, begin, clock_ok
from sagewing.filters.rules import Around, Attenuation, Rule, Seen
from sagewing.models import Model
from sagewing.shapes import (
    XX,
    Arrived,
    Attenuations,
    Covariances,
    Flags,
    Innovations,
    Inputs,
    Jacobians,
    Measurements,
    States,
    Steps,
    Values,
    X,
    Z,
)

GainNoise = Literal["prior", "posterior"]
LOG_2PI = math.log(2.0 * math.pi)


class FilterState(NamedTuple):
    """Everything the filter remembers from one step to the next.

    `mode` is the kind of measurement that `r` is of, where a model has several.
    """

    x: States
    P: Covariances
    q: States
    r: Measurements
    memory: Any
    recovery: Recovery
    mode: Values | None = None


class Estimate(NamedTuple):
    """What one step says.

    `q`, `r` and `d` are None where the rule adapts nothing. `ok` is False where the arithmetic
    overflowed, dt was an error of the clock or a measurement was not plausible, and the step did
    what it could without; `restarts` counts how often the filter has gone back to an earlier state.
    `trace` is what the rule wants training to see.
    """

    x: States
    P: Covariances
    q: States | None
    r: Measurements | None
    d: Attenuations | None
    nis: Values
    loglik: Values
    ok: Flags
    restarts: Values
    trace: Any


def predict(
    model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
) -> tuple[States, Covariances, Covariances, Flags]:
    """f(x), F, F P F^T, and where they are finite; elsewhere the estimate stays as it is."""
    F = jacobian(model.transition_jacobian, model.transition, x, u, dt)
    x_pred = per_sample(model.transition, x, u, dt)
    F, x_pred = hold((F, x_pred))
    FPF = propagate(F, P, model.constants)
    variances = diagonal(FPF)
    ok = all_finite(x_pred, variances) & jnp.all(variances >= 0.0, axis=0) & clock_ok(recovery, dt)
    x_pred, FPF = keep_where(ok, (x_pred, FPF), (x, P))
    return x_pred, F, FPF, ok


def innovation(
    model: Model, x: States, z: Measurements, u: Inputs, arrived: Arrived
) -> Measurements:
    """z - h(x), as the model takes differences; zero for a channel that did not arrive."""
    z_hat = per_sample(model.observe, x, u)
    nu = per_sample(model.residual, jnp.where(arrived, z, z_hat), z_hat, u)
    return jnp.where(arrived, nu, 0.0)


def innovate(
    model: Model, x_pred: States, z: Measurements, u: Inputs, arrived: Arrived
) -> tuple[Measurements, Jacobians]:
    """The innovation and H; a channel that did not arrive has zeros in both."""
    H = jacobian(model.observe_jacobian, model.observe, x_pred, u)
    nu = innovation(model, x_pred, z, u, arrived)
    return hold((nu, jnp.where(arrived[:, None], H, 0.0)))


def correct(
    model: Model, x_pred: States, P_pred: Covariances, step: States, P: Covariances
) -> tuple[States, Covariances, Flags]:
    """x_pred + step with its P, and where they are finite; elsewhere the prediction stands.

    `normalize` is a function of the state like any other, and P follows it: what a quaternion's
    length was uncertain by would otherwise stay in P, grow with every Q, and turn into attitude
    with the next correction.
    """
    x = per_sample(model.normalize, x_pred + step)
    first, last, _ = model.normalized.indices(len(x))
    if first < last:
        P = project(_normalizing(model, x_pred + step), P, first)
    variances = diagonal(P)
    ok = all_finite(x, variances) & jnp.all(variances >= 0.0, axis=0)
    x, P = keep_where(ok, (x, P), (x_pred, P_pred))
    return x, P, ok


def _normalizing(model: Model, x: States) -> Float[Array, "k k *batch"]:
    """The derivative of `normalize` by the states that it is about."""
    own = model.normalized

    def of_own(part: Array, x: X) -> Array:
        return model.normalize(x.at[own].set(part))[own]

    return jacobian(lambda part, x: None, of_own, x[own], x)


def consistency(white: Measurements, L: Innovations, arrived: Arrived) -> tuple[Values, Values]:
    """The normalised innovation squared and the log-likelihood of the channels that arrived."""
    none = jnp.zeros_like(white[0])
    nis = sum(white**2, none)
    normalizer = jnp.where(arrived, 2.0 * jnp.log(diagonal(L)) + LOG_2PI, 0.0)
    return nis, -0.5 * sum(white**2 + normalizer, none)


def of_arrived(R: Innovations, arrived: Arrived) -> Innovations:
    """R with the identity in place of the channels that did not arrive."""
    unit = diagonal_matrix(jnp.ones_like(R[0]))
    return jnp.where(arrived[:, None] & arrived[None], R, unit)


def like(a: jax.Array, pattern: jax.Array) -> jax.Array:
    """`a`, the same for every record of the pattern's batch."""
    batch = pattern.shape[1:]
    return jnp.broadcast_to(a.reshape(a.shape + (1,) * len(batch)), a.shape + batch)


class AdaptiveFilter(Recovering):
    """An EKF whose noise covariances are re-estimated as an attenuation rule decides.

    `q0`, `r0` are the base variances, `Q_off`, `R_off` the constant off-diagonals (None: zero).
    Adapted variances stay within `bounds` times their base and above `floor`. With `gain_noise`
    "posterior" a step's gain uses the r that the same step has just estimated (the text of the
    paper's Sage-Husa section), with "prior" the one before it (the paper's Algorithm 1).

    A model with several modes has a row of `r0` for each, and r restarts at it on a switch. With
    `adapts_in` the noise is adapted in these modes only; in others it is the base noise, and q is
    what it was once one of these comes back.
    """

    model: Model
    q0: X
    r0: Z | Float[Array, "modes n_z"]
    Q_off: XX | None
    R_off: jax.Array | None
    rule: Rule
    bounds: tuple[float, float] = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    gain_noise: GainNoise = eqx.field(static=True)
    adapts_in: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def n_x(self) -> int:
        """The number of states."""
        return self.q0.size

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.r0.shape[-1]

    def init(self, x0: States, P0: Covariances) -> FilterState:
        """The filter before its first measurement."""
        q, r = like(self.q0, x0), like(self.r0, x0)
        mode = None
        if self.model.modes > 1:
            r, mode = r[0], jnp.zeros_like(x0[0])
        recovery = begin(x0, P0, r)
        return FilterState(x0, P0, q, r, self.rule.init(q, r), recovery, mode)

    def plain_step(
        self, state: FilterState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[FilterState, Estimate]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        x, P, q, r = finite_derivative(state[:4])
        r0, r, mode = self._nominal(state, r, u)
        adapts = self._adapts(mode)
        q_before, q = q, q if adapts is None else jnp.where(adapts, q, like(self.q0, q))
        x_pred, F, FPF, predicted = predict(self.model, state.recovery, x, P, u, dt)
        P_pred = FPF + self._Q(q)
        nu, H = innovate(self.model, x_pred, z, u, arrived)

        # One Cholesky, gain; what is not plausible is as good as missing
        measured = arrived
        HPH, S, L, K, P_post, kept = gain(P_pred, H, self._R(r, arrived), nu)
        arrived = arrived & kept
        nu, H = jnp.where(kept, nu, 0.0), jnp.where(kept[:, None], H, 0.0)
        white = whiten(L, nu)
        switched = None if mode is None else mode != state.mode
        diagonals = (diagonal(FPF), diagonal(P_pred))

        def elsewhere(off: States) -> States:
            return per_sample(self.model.transition, x + off, u, dt) - x_pred

        base = (like(self.q0, q), r0)
        around = Around(F, H, *diagonals, *base, switched, diagonal(P), elsewhere)
        seen = Seen(nu, white, S, L, K, q, r, arrived, around)
        d, memory, trace = self.rule(state.memory, seen)
        d = finite_derivative(d)
        if adapts is not None:  # what is for this step only holds in every mode
            d = d.where(adapts)._replace(inflate_r=d.inflate_r, bend=d.bend)

        # Empirical r, attenuate, bound
        r_hat = nu**2 - diagonal(HPH)
        r_hat = r_hat if d.bend is None else r_hat - matvec(H, d.bend) ** 2
        r_next = self._attenuate(r, r_hat, d.r, d.scale_r, r0, arrived)

        # Correct, with the noise of now
        posterior = self.gain_noise == "posterior"
        if posterior or d.inflate_r is not None or d.bend is not None:
            r_now = r_next if posterior else r
            r_now = r_now if d.inflate_r is None else r_now * d.inflate_r
            if d.bend is not None:
                P_pred = P_pred + d.bend[:, None] * d.bend[None]
            _, _, _, K, P_post, again = gain(P_pred, H, self._R(r_now, arrived))
            kept = kept & again
        step = matvec(K, nu)
        x_post, P_next, corrected = correct(self.model, x_pred, P_pred, step, P_post)

        # Empirical q, of what was corrected and not yet normalised; attenuate, bound
        q_hat = step**2 + diagonal(P_post) - diagonal(FPF)
        q_hat = q_hat if d.bend is None else q_hat - d.bend**2
        any_arrived = jnp.any(arrived, axis=0)
        q_next = self._attenuate(q, q_hat, d.q, d.scale_q, like(self.q0, q), any_arrived)
        q_kept = q_next if adapts is None else jnp.where(adapts, q_next, q_before)

        nis, loglik = consistency(white, L, arrived)
        recovery, ok = after_step(state.recovery, dt, measured, kept, predicted & corrected)
        state = FilterState(x_post, P_next, q_kept, r_next, memory, recovery, mode)
        adapted = (q_next, r_next, _joined(d, q, r, arrived))
        if q_next is q and r_next is r:
            adapted = (None, None if mode is None else r, None)
        said = Estimate(x_post, P_next, *adapted, nis, loglik, ok, recovery.restarts, trace)
        return state, said

    def coast(self, state: FilterState, u: Inputs, dt: Steps) -> FilterState:
        """A step between two measurements: x and P go on, and the rule is not asked.

        x and P are those of a `step` in which nothing arrives. The rule's memory stays, so that it
        counts measurements, however many predictions lie between them.
        """
        x, _, P, predicted = predict(self.model, state.recovery, state.x, state.P, u, dt)
        P = P + self._Q(state.q)
        x, P, corrected = correct(self.model, x, P, jnp.zeros_like(x), P)
        nothing = jnp.zeros_like(state.r, bool)
        finite = predicted & corrected
        recovery, _ = after_step(state.recovery, dt, nothing, nothing, finite)
        return self.recovered(state._replace(x=x, P=P, recovery=recovery))

    def _nominal(
        self, state: FilterState, r: Measurements, u: Inputs
    ) -> tuple[Measurements, Measurements, Values | None]:
        """The base of r at this step, r itself, which a switch of mode sets back, and the mode."""
        if state.mode is None:
            return like(self.r0, r), r, None
        mode = per_sample(self.model.mode, u)
        r0 = jnp.moveaxis(self.r0[mode], -1, 0)
        return r0, jnp.where(mode == state.mode, r, r0), mode.astype(r.dtype)

    def _adapts(self, mode: Values | None) -> Flags | None:
        """Where the noise is adapted; None for everywhere."""
        if mode is None or self.adapts_in is None:
            return None
        return sum((mode == m for m in self.adapts_in), jnp.zeros_like(mode, bool))

    def _Q(self, q: States) -> Covariances:
        Q = diagonal_matrix(q)
        return Q if self.Q_off is None else Q + like(self.Q_off, q)

    def _R(self, r: Measurements, arrived: Arrived) -> Innovations:
        R = diagonal_matrix(r)
        return of_arrived(R if self.R_off is None else R + like(self.R_off, r), arrived)

    def _attenuate(self, old, empirical, share, scale, base, moved):
        """(1 - d) old + d empirical, scaled, within the bounds, where something was measured."""
        new = old if share is None else (1.0 - share) * old + share * empirical
        new = new if scale is None else new * scale
        if new is old:
            return old
        low, high = self.bounds
        within = jnp.clip(
            new, jnp.maximum(low * base, self.floor), jnp.maximum(high * base, self.floor)
        )
        # What a rule leaves alone stays, even where it is below the floor
        return jnp.where(moved & (new != old) & ~jnp.isnan(new), within, old)


def _joined(d: Attenuation, q: States, r: Measurements, arrived: Arrived) -> Attenuations:
    """d_k as one vector, zero where nothing is adapted."""
    d_q = jnp.zeros_like(q) if d.q is None else jnp.where(jnp.any(arrived, axis=0), d.q, 0.0)
    d_r = jnp.zeros_like(r) if d.r is None else jnp.where(arrived, d.r, 0.0)
    return jnp.concatenate([d_q, d_r])
