"""ENN-AKF: an adaptive filter with an Elman network that corrects its output."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from sagewing.filters import checks
from sagewing.filters.equations import broadcast_to_batch, correct, innovation
from sagewing.filters.filter_state import FilterState
from sagewing.filters.lifting import per_sample
from sagewing.filters.named import SageHusa
from sagewing.filters.recovery import Recovering, Recovery, Verdict
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import (
    DX,
    Arrived,
    Covariances,
    Inputs,
    Measurements,
    Numbers,
    States,
    Steps,
    Z,
)


class CorrectedState(NamedTuple):
    """The adaptive filter's own state and the network's memory."""

    inner: FilterState
    memory: Any

    @property
    def recovery(self) -> Recovery:
        """The recovery state of the adaptive filter."""
        return self.inner.recovery


class CorrectedFilter(Recovering):
    """x = x_akf + network(x_akf, its last change, the innovation); x is not fed back."""

    inner: AdaptiveFilter
    network: Any

    @property
    def model(self) -> Model:
        """The model of the adaptive filter."""
        return self.inner.model

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        return self.inner.n_x

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.inner.n_z

    @property
    def q0(self) -> DX:
        """The base variances of the process noise."""
        return self.inner.q0

    @property
    def r0(self) -> Z:
        """The base variances of the measurement noise."""
        return self.inner.r0

    def init(self, x0: States, P0: Covariances) -> CorrectedState:
        """The adaptive filter's initial state and an empty memory."""
        return CorrectedState(self.inner.init(x0, P0), self.network.init(x0))

    def plain_step(
        self, state: CorrectedState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[CorrectedState, Step, Verdict]:
        """One step of the adaptive filter, then the network's correction of its estimate."""
        x_pred = per_sample(self.model.transition, state.inner.x, u, dt)
        nu = innovation(self.model, x_pred, z, u, arrived) / jnp.sqrt(
            broadcast_to_batch(self.r0, z)
        )
        nu = jnp.where(jnp.isfinite(nu), nu, 0.0)
        inner, step, verdict = self.inner.plain_step(state.inner, z, u, dt, arrived)
        change = step.x - state.inner.x
        inputs = [self.network.standard(step.x), self.network.standard_step(change), nu]
        correction, memory = self.network(state.memory, jnp.concatenate(inputs))
        x, P, corrected = correct(self.model, step.x, step.P, correction, step.P)
        step = step._replace(x=x, P=P, ok=step.ok & corrected)
        return CorrectedState(inner, memory), step, verdict

    def recover(self, state: CorrectedState, verdict: Verdict) -> CorrectedState:
        """Recover the adaptive filter; the network's memory does not change."""
        return state._replace(inner=self.inner.recover(state.inner, verdict))


def ENNAKF(model: Model, Q0: Numbers, R0: Numbers, network: Any) -> CorrectedFilter:
    """The ENN-AKF: Sage-Husa 0.99, and `network` to correct its remaining error."""
    network.check("enn-akf")
    checks.vector_state(model, "The ENN-AKF")
    filt = CorrectedFilter(SageHusa(model, Q0, R0, b=0.99), network)
    network.check_sizes(filt.n_x, filt.n_z)
    return filt
