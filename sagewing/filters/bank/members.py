"""Members of one structure as one filter: their own numbers have a member axis, one call steps all.

Inside their step the members are records of a batch. What an EKF, a Sage-Husa filter and an
NDR-SHKF may differ in are Q0, R0, the gate and the forgetting factor; members that differ in
anything else, such as the model, are different groups, which run one after the other.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from sagewing.filters.attenuation import Fading, Gated, PerPredictionStep
from sagewing.filters.bank.weights import Evidence, evidence, log_likelihood
from sagewing.filters.equations import broadcast_to_batch
from sagewing.filters.lifting import PerRecord
from sagewing.filters.protocols import Filter
from sagewing.filters.recovery import Recovering, Verdict
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.rules import AttenuationRule
from sagewing.filters.student import StudentT
from sagewing.shapes import (
    Arrived,
    Covariances,
    Errors,
    Inputs,
    Measurements,
    States,
    Steps,
    Values,
)


class Flat(NamedTuple):
    """How members [.., members, *batch] become one axis, and back."""

    members: int
    batch: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of members and batch."""
        return (self.members, *self.batch)

    @property
    def size(self) -> int:
        """The length of the one axis."""
        return self.members * (self.batch[0] if self.batch else 1)

    def joined(self, tree: Any) -> Any:
        """Arrays [.., members, *batch] as [.., members * batch]; what all share stays."""
        end = self.axes

        def join(a: jax.Array) -> jax.Array:
            own = a.ndim >= len(end) and a.shape[a.ndim - len(end) :] == end
            return a.reshape(*a.shape[: a.ndim - len(end)], -1) if own else a

        return jax.tree.map(join, tree)

    def apart(self, tree: Any) -> Any:
        """The reverse."""
        end = self.axes

        def split(a: jax.Array) -> jax.Array:
            own = a.ndim > 0 and a.shape[-1] == self.size
            return a.reshape(*a.shape[:-1], *end) if own else a

        return jax.tree.map(split, tree)

    def repeated(self, a: Any) -> Any:
        """What all members get, [.., *batch], for each of them; None and scalars stay."""
        if a is None or jnp.ndim(a) == 0:
            return a
        inner = a.ndim - len(self.batch)
        a = jnp.expand_dims(a, inner)
        shape = (*a.shape[:inner], self.members, *self.batch)
        return jnp.broadcast_to(a, shape).reshape(*a.shape[:inner], -1)


class Group(eqx.Module):
    """`size` members as one filter; the arrays in which they differ end with the member axis."""

    filt: Filter
    own: tuple[jax.Array, ...]
    size: int = eqx.field(static=True)

    def over(self, batch: tuple[int, ...]) -> Filter:
        """The filter for the members of all records."""
        if not self.own:
            return self.filt
        places = _places(self.filt)
        values = []
        for old, a in zip(places, self.own, strict=True):
            a = a.reshape(*a.shape, *(1,) * len(batch))
            a = jnp.broadcast_to(a, (*a.shape[: old.ndim], self.size, *batch))
            a = a.reshape(*a.shape[: old.ndim], -1)
            values.append(a if old.ndim == 0 else PerRecord(a))
        return eqx.tree_at(_places, self.filt, values)

    def one(self, own: Sequence[jax.Array]) -> Filter:
        """A single member, with these of its own numbers."""
        return eqx.tree_at(_places, self.filt, list(own)) if self.own else self.filt

    def due(self, state: Any, verdict: Verdict) -> jax.Array:
        """For which members `recover` must be called."""
        if isinstance(self.filt, Recovering):
            return self.filt.due(state, verdict)
        return jnp.zeros_like(verdict.finite)

    def recovered(self, flat: Flat, state: Any, verdict: Verdict) -> Any:
        """The states after `recover`, where it is due."""
        filt = self.over(flat.batch)
        return filt.recovered(state, verdict) if isinstance(filt, Recovering) else state

    def recover(self, flat: Flat, state: Any, verdict: Verdict) -> Any:
        """The same, computed for all members."""
        filt = self.over(flat.batch)
        if not isinstance(filt, Recovering):
            return state
        due, new = filt.due(state, verdict), filt.recover(state, verdict)
        return jax.tree.map(lambda a, b: b if a is b else jnp.where(due, a, b), new, state)


class MemberStep(NamedTuple):
    """What the weights and the estimate of a bank need of a member's step.

    `robust` is the evidence for the weights; `loglik` is -inf where the step failed, and `doubt` is
    0 where it is ok and -inf where it is not.
    """

    x: States
    P: Covariances
    nis: Values
    restarts: Values
    q: Errors
    r: Measurements
    robust: Evidence
    loglik: Values
    doubt: Values


def stepped_by(
    members: Filter,
    dof: float | None,
    state: Any,
    z: Measurements,
    arrived: Arrived,
    u: Inputs,
    dt: Steps,
) -> tuple[Any, MemberStep, Verdict]:
    """The next state of one member, or of a batch of them, without recovery."""
    if isinstance(members, Recovering):
        state, step, verdict = members.plain_step(state, z, u, dt, arrived)
    else:
        state, step = members.step(state, z, u, dt, arrived)
        verdict = Verdict(arrived, arrived, step.ok)
    q = broadcast_to_batch(members.q0, step.x) if step.q is None else step.q
    r = broadcast_to_batch(members.r0, step.x) if step.r is None else step.r
    robust = log_likelihood(step, arrived, arrived & ~verdict.kept, dof)
    made = MemberStep(
        step.x,
        step.P,
        step.nis,
        step.restarts,
        q,
        r,
        evidence(robust, ~verdict.finite),
        evidence(step.loglik, ~verdict.finite).low,
        jnp.where(verdict.ok, jnp.zeros_like(step.nis), -jnp.inf),
    )
    return state, made, verdict


def grouped(members: Sequence[Filter]) -> tuple[Group, ...]:
    """Neighbours of one structure become one group."""
    groups: list[list[Filter]] = []
    for member in members:
        if groups and _alike(groups[-1][0], member):
            groups[-1].append(member)
        else:
            groups.append([member])
    return tuple(_joined(group) for group in groups)


def _joined(members: list[Filter]) -> Group:
    if len(members) == 1:
        return Group(members[0], (), 1)
    columns = zip(*(_places(member) for member in members), strict=True)
    return Group(members[0], tuple(jnp.stack(c, axis=-1) for c in columns), len(members))


def _places(member: Any) -> list[Any]:
    """The arrays in which members of one group may differ."""
    if not isinstance(member, AdaptiveFilter):
        return []
    arrays = [member.q0, member.r0, member.Q_off, member.R_off]
    if isinstance(member.rule, AttenuationRule):
        policy: Any = member.rule.policy
        while isinstance(policy, (Gated, PerPredictionStep)):
            arrays.append(policy.sigmas if isinstance(policy, Gated) else policy.steps)
            policy = policy.policy
        if isinstance(policy, Fading):
            arrays.append(policy.b)
        if isinstance(policy, StudentT):
            arrays.append(policy.dof)
    return [a for a in arrays if a is not None]


def _alike(a: Filter, b: Filter) -> bool:
    """Whether two filters differ in the numbers of `_places` at most."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    x, y = (eqx.tree_at(_places, f, [jnp.zeros(())] * len(_places(f))) for f in (a, b))
    if any(p.shape != q.shape for p, q in zip(_places(a), _places(b), strict=True)):
        return False
    return all(map(_equal, jax.tree.leaves(x), jax.tree.leaves(y)))


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer):
        return False
    if eqx.is_array_like(a) and eqx.is_array_like(b):
        return np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))
    return bool(a == b)
