"""The robust EKF: measurement noise with the heavy tails of Student's t, channel by channel."""

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.kernels import (
    cholesky,
    diagonal,
    inverse_lower,
    matmul,
    matvec,
    transpose,
)
from sagewing.filters.linearizations import linearizer
from sagewing.filters.named import FLOOR, Linearization
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.rules import AttenuationRule
from sagewing.filters.step import Attenuation, StepInfo
from sagewing.models import Model
from sagewing.shapes import Errors, Measurements, Numbers


class StudentT(eqx.Module):
    """A channel's noise is normal with the variance r / w, and w is gamma-distributed with mean 1.

    Its variational posterior has E[w] = (dof + 1) / (dof + E[v^2] / r), where v is the noise under
    the posterior of x, which depends on w: a fixed point, approached in `iterations`.
    """

    dof: jax.Array
    iterations: int = eqx.field(static=True)

    def init(self, q: Errors, r: Measurements) -> None:
        """No memory: every measurement is judged by itself."""
        return None

    def __call__(self, memory: None, info: StepInfo) -> tuple[Attenuation, None, None]:
        """r of this step's gain is r / E[w]."""
        linear = info.linear
        assert linear is not None
        HPH, nu = linear.HPH, info.nu
        R = info.S - HPH

        def refine(w: Measurements, _: None) -> tuple[Measurements, None]:
            scale = 1.0 / jnp.sqrt(w)
            L_inv = inverse_lower(cholesky(HPH + scale[:, None] * R * scale[None]))
            W = matmul(L_inv, HPH)
            v = nu - matvec(transpose(W), matvec(L_inv, nu))
            variance = diagonal(HPH) - jnp.sum(W**2, axis=0)
            v2 = v**2 + jnp.maximum(variance, 0.0)
            new = (self.dof + 1.0) / (self.dof + v2 / diagonal(R))
            return jnp.where(jnp.isfinite(new) & info.arrived, new, 1.0), None

        w, _ = jax.lax.scan(refine, jnp.ones_like(nu), length=self.iterations)
        return Attenuation(inflate_r=1.0 / w), None, None


def RobustEKF(
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    dof: float = 4.0,
    iterations: int = 4,
    linearization: Linearization = "taylor",
) -> AdaptiveFilter:
    """An EKF for outliers: measurement noise of Student's t with `dof` degrees of freedom.

    Each channel's r is raised in a step by how unlikely its innovation is, and never remembered.

    Example: `sw.RobustEKF(sw.models.Lorenz(), Q0=[0.01] * 3, R0=[1.0, 2.0])`
    """
    if type(iterations) is not int or not 1 <= iterations <= 100:
        raise InputError(f"iterations must be within 1..100; got {iterations!r}.")
    a = checks.as_real("dof", dof)
    if a.ndim != 0 or not (isinstance(a, jax.core.Tracer) or 0.0 < float(a) < jnp.inf):
        raise InputError(f"dof are degrees of freedom, a positive number such as 4; got {dof}.")
    q0, Q_off = checks.process_noise(Q0, model)
    r0, R_off = checks.measurement_noise(R0, model.modes)
    policy = StudentT(a, iterations)
    rule = AttenuationRule(policy, (1.0, 1.0), FLOOR, "prior")
    return AdaptiveFilter(
        model, q0, r0, Q_off, R_off, rule, linearization=linearizer(linearization)
    )
