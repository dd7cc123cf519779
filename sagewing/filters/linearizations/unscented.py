"""The unscented transform: f and h at sigma points around the estimate, the UKF."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters.equations import innovation
from sagewing.filters.guards import keep_where, prevent_fusion, valid
from sagewing.filters.kernels import (
    Matrix,
    cholesky,
    diagonal,
    diagonal_matrix,
    inverse_lower,
    matmul,
    symmetric,
    transpose,
)
from sagewing.filters.lifting import MODEL, per_sample
from sagewing.filters.linearizations.linearizer import Measured
from sagewing.filters.recovery import Recovery, clock_ok
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Errors,
    Flags,
    InnovationCov,
    Inputs,
    Measurements,
    States,
    Steps,
)


class Spread(NamedTuple):
    """A function at the sigma points: the mean of its errors, its slope, and their covariances.

    `linear` is what the slope explains, `rest` the covariance of the linearisation error.
    """

    mean: Matrix
    slope: Matrix
    linear: Matrix
    rest: Matrix


class Unscented(eqx.Module):
    """F and H fit f and h at 2 n + 1 sigma points; what they miss is added to P and R.

    Mean, covariance and gain are the UKF's with the weights of `alpha`, `beta` and `kappa`. A small
    alpha brings the points close to the estimate, where float32 cannot tell them apart.

    Example: `sw.EKF(model, Q0, R0, linearization=sw.Unscented(kappa=1.0))`
    """

    alpha: float = eqx.field(static=True, default=1.0)
    beta: float = eqx.field(static=True, default=2.0)
    kappa: float = eqx.field(static=True, default=0.0)

    def __check_init__(self) -> None:
        """Refuse weights that are no numbers."""
        if not (self.alpha > 0.0 and math.isfinite(self.alpha + self.beta + self.kappa)):
            raise InputError(
                "alpha must be positive, and beta and kappa finite; got "
                f"alpha = {self.alpha}, beta = {self.beta}, kappa = {self.kappa}."
            )

    def predict(
        self, model: Model, recovery: Recovery, x: States, P: Covariances, u: Inputs, dt: Steps
    ) -> tuple[States, Covariances, Covariances, Flags]:
        """The mean and the covariance of f at the sigma points, and their slope."""
        center = per_sample(model.transition, x, u, dt)

        def moved(dx: Errors, x: States, center: States, u: Inputs, dt: Steps) -> Errors:
            return model.minus(model.transition(model.plus(x, dx), u, dt), center)

        spread = self._spread(moved, P, x, center, u, dt)
        x_pred = per_sample(model.plus, center, spread.mean)
        F, x_pred = prevent_fusion((spread.slope, x_pred))
        FPF = symmetric(spread.linear + spread.rest)
        ok = valid(x_pred, diagonal(FPF)) & clock_ok(recovery, dt)
        x_pred, FPF = keep_where(ok, (x_pred, FPF), (x, P))
        return x_pred, F, FPF, ok

    def measure(
        self,
        model: Model,
        x_pred: States,
        P_pred: Covariances,
        R: InnovationCov,
        z: Measurements,
        u: Inputs,
        arrived: Arrived,
    ) -> Measured:
        """z less the mean of h at the sigma points, and their slope."""
        z_hat = per_sample(model.observe, x_pred, u)

        def seen(dx: Errors, x: States, z_hat: Measurements, u: Inputs) -> Measurements:
            return model.residual(model.observe(model.plus(x, dx), u), z_hat, u)

        spread = self._spread(seen, P_pred, x_pred, z_hat, u)
        nu = innovation(model, x_pred, z, u, arrived) - spread.mean
        nu, H = jnp.where(arrived, nu, 0.0), jnp.where(arrived[:, None], spread.slope, 0.0)
        both = arrived[:, None] & arrived[None]
        nu, H = prevent_fusion((nu, H))
        return Measured(nu, H, jnp.where(both, symmetric(spread.rest), 0.0))

    def _spread(self, fn, P: Covariances, *args) -> Spread:
        """`fn` of an error with the covariance P, and of other arguments."""
        n = len(P)
        scale = self.alpha**2 * (n + self.kappa)
        if scale <= 0.0:
            raise InputError(f"kappa must be above -n = -{n} for a model with {n} states.")
        center_weight = 1.0 - n / scale
        center_in_P = center_weight + 1.0 - self.alpha**2 + self.beta
        gamma = math.sqrt(scale)
        # A P that is singular, such as a quaternion's, gets a variance within its rounding; errors
        # whose variance is zero are not spread
        variances = diagonal(P)
        known = variances == 0.0
        rounding = 4.0 * n * float(jnp.finfo(P.dtype).eps) * variances
        L_P = cholesky(P + diagonal_matrix(jnp.where(known, 1.0, rounding)))
        L = prevent_fusion(jnp.where(known[:, None], 0.0, L_P))

        def at(point: Errors) -> Matrix:
            return per_sample(fn, point, *args)

        with jax.named_scope(MODEL):
            plus, minus = (
                jax.vmap(at, in_axes=1, out_axes=1)(sign * gamma * L) for sign in (1.0, -1.0)
            )
            at_center = at(jnp.zeros_like(P[0]))
        both = plus + minus
        total = both[:, 0]
        for i in range(1, n):
            total = total + both[:, i]
        mean = center_weight * at_center + total / (2.0 * scale)
        D = (plus - minus) / (2.0 * gamma)
        M = (both - 2.0 * mean[:, None]) / (2.0 * gamma)
        off = at_center - mean
        rest = matmul(M, transpose(M)) + center_in_P * off[:, None] * off[None]
        slope = matmul(D, inverse_lower(L + diagonal_matrix(known.astype(L.dtype))))
        return Spread(mean, slope, matmul(D, transpose(D)), rest)
