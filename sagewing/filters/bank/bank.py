"""`Bank`: several filters of one state side by side, weighed by how well they predict."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sagewing.filters.bank import settings
from sagewing.filters.bank.members import Flat, Group, MemberStep, grouped, stepped_by
from sagewing.filters.bank.mixture import chosen, interaction, mixed, over_axes
from sagewing.filters.bank.weights import (
    heaviest,
    log_sum,
    normalized,
    penalized,
    probabilities,
)
from sagewing.filters.equations import broadcast_to_batch
from sagewing.filters.named import EKF
from sagewing.filters.protocols import Filter
from sagewing.filters.recovery import Recovering, Verdict
from sagewing.filters.step import Step
from sagewing.models import Model
from sagewing.shapes import (
    DX,
    Arrived,
    Covariances,
    Flags,
    Inputs,
    Measurements,
    Numbers,
    States,
    Steps,
)

Output = Literal["mixture", "best"]
# The factors of Q0 and R0, as variances, in `Bank.grid`.
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
# Of the robust likelihood, and how fast old evidence fades: chosen on the training family.
DOF, FORGETTING = 8.0, 0.995


class BankState(NamedTuple):
    """The members' states, group by group with a member axis before the batch, and log weights."""

    groups: tuple[Any, ...]
    log_weights: Float[Array, "members *batch"]

    @property
    def weights(self) -> Float[Array, "members *batch"]:
        """The probabilities of the members."""
        return jnp.exp(self.log_weights)


class BankTrace(NamedTuple):
    """What a bank knows of its members after a step: their weights and their estimates."""

    weights: Float[Array, "members *batch"]
    x: Float[Array, "n_x members *batch"]
    P: Float[Array, "n_dx n_dx members *batch"]


class Bank(Recovering):
    """Several filters of one state; the estimate is their mixture's, or the best one's.

    The weights follow Bayes' rule with a likelihood of Student's t with `dof` degrees of freedom
    (None: normal). Before each measurement they are raised to the power `forgetting`, so that old
    evidence fades (by default 0.995; 1 with `transitions`). With `transitions` it is an IMM:
    `transitions[i, j]` is the probability that model i is followed by model j in a step, and the
    estimates are mixed before each step. `offsets` [members, n_dx] are added to x0 as errors: other
    starts.

    The members have one n_x, n_dx and n_z. Neighbours that differ in Q0, R0, a gate or a forgetting
    factor only are computed together. `online.state.weights` are the weights, and so is
    `step.trace.weights` in `save=` of `sw.run`.

    Example: `sw.Bank([sw.EKF(model, Q0, R0), sw.EKF(model, Q0, R0, gate=3.0)])`
    """

    groups: tuple[Group, ...]
    prior: Float[Array, "members"]
    offsets: Float[Array, "members n_dx"] | None
    transitions: Float[Array, "members members"] | None
    dof: float | None = eqx.field(static=True)
    forgetting: float = eqx.field(static=True)
    output: Output = eqx.field(static=True)

    def __init__(
        self,
        members: Sequence[Filter],
        weights: Numbers | None = None,
        *,
        dof: float | None = DOF,
        forgetting: float | None = None,
        transitions: Numbers | None = None,
        offsets: Numbers | None = None,
        output: Output = "mixture",
    ):
        members = settings.members(members)
        size, n_dx = len(members), members[0].q0.size
        if forgetting is None:
            forgetting = FORGETTING if transitions is None else 1.0
        settings.weighing(dof, forgetting, output)
        self.groups = grouped(members)
        self.prior = settings.prior(weights, size)
        self.offsets = settings.offsets(offsets, size, n_dx)
        self.transitions = settings.transitions(transitions, size, members)
        self.dof = None if dof is None else float(dof)
        self.forgetting, self.output = float(forgetting), output

    @classmethod
    def grid(
        cls,
        model: Model,
        Q0: Numbers,
        R0: Numbers,
        *,
        q_factors: Sequence[float] = FACTORS,
        r_factors: Sequence[float] = FACTORS,
        gate: float | None = None,
        **settings: Any,
    ) -> "Bank":
        """EKFs with every factor of Q0 and every factor of R0: 25 by default.

        Example: `sw.Bank.grid(model, Q0, R0)`
        """
        Q, R = np.asarray(Q0, float), np.asarray(R0, float)
        members = [EKF(model, a * Q, b * R, gate) for a in q_factors for b in r_factors]
        return cls(members, **settings)

    @classmethod
    def starts(cls, filt: Filter, offsets: Numbers, **settings: Any) -> "Bank":
        """One filter from several starts: x0 and each of `offsets` [members, n_dx], as errors.

        Evidence does not fade, because only one start is right. Example, eight headings of a
        vehicle without a compass: offsets with `2 * pi * k / 8` in the error of the heading.
        """
        count = len(np.atleast_2d(np.asarray(offsets)))
        settings.setdefault("forgetting", 1.0)
        return cls([filt] * count, offsets=offsets, **settings)

    @property
    def size(self) -> int:
        """The number of members."""
        return sum(group.size for group in self.groups)

    @property
    def _middle(self) -> tuple[Group, int]:
        place = self.size // 2
        for group in self.groups:
            if place < group.size:
                return group, place
            place -= group.size
        raise AssertionError

    @property
    def model(self) -> Model:
        """The model of the first member."""
        return self.groups[0].filt.model

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        return self.groups[0].filt.n_x

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        return self.groups[0].filt.n_z

    @property
    def q0(self) -> DX:
        """The process noise variances of the middle member: of a grid, those given."""
        group, place = self._middle
        return group.filt.q0 if not group.own else group.own[0][..., place]

    @property
    def r0(self) -> Any:
        """The measurement noise variances of the middle member."""
        group, place = self._middle
        return group.filt.r0 if not group.own else group.own[1][..., place]

    def init(self, x0: States, P0: Covariances) -> BankState:
        """All members at x0 and P0, or at their own starts."""
        batch = x0.shape[1:]
        flat = Flat(self.size, batch)
        x, P = (flat.repeated(a).reshape(*a.shape[:n], *flat.axes) for n, a in ((1, x0), (2, P0)))
        if self.offsets is not None:
            dx = self.offsets.T.reshape(-1, self.size, *(1,) * len(batch))
            x = over_axes(self.model.plus, x, jnp.broadcast_to(dx, (len(dx), *flat.axes)))
        states, first = [], 0
        for group in self.groups:
            own, part = slice(first, first + group.size), Flat(group.size, batch)
            start = part.joined((x[:, own], P[:, :, own]))
            states.append(part.apart(group.over(batch).init(*start)))
            first += group.size
        weights = broadcast_to_batch(normalized(jnp.log(self.prior)), x0)
        return BankState(tuple(states), weights)

    def plain_step(
        self, state: BankState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[BankState, Step, Verdict]:
        """A step of every member, the weights after it, and the estimate of all."""
        state = self.interacted(state)
        groups, stepped, verdicts = self._members(state, z, u, dt, arrived)
        state, made = self.weighed(state.log_weights, groups, stepped, arrived)
        return state, made, _of_all(verdicts, arrived.ndim - 1)

    def weighed(
        self,
        before: Float[Array, "members *batch"],
        groups: tuple[Any, ...],
        stepped: Sequence[MemberStep],
        arrived: Arrived,
    ) -> tuple[BankState, Step]:
        """The weights after the steps of all groups, and the estimate.

        `before` are the log weights before the measurement.
        """
        given = _of_all(stepped, arrived.ndim - 1)
        some, prior = jnp.any(arrived, axis=0), jnp.exp(before)  # log weights are normalised
        logs = self.forgetting * before + penalized(given.robust)
        after, weights = probabilities(logs)
        after = jnp.where(some, after, before)
        weights = jnp.where(some, weights, prior)
        likelihood = log_sum(before + given.loglik)
        known = some & jnp.isfinite(likelihood)
        share, best = weights, heaviest(after)
        if self.output == "best":
            share = best.astype(weights.dtype)
            x, P = chosen(given.x, best), chosen(given.P, best)
        else:
            # Where x + y is not the sum of vectors, the mean of several estimates is none
            around = chosen(given.x, best) if self.model.on_manifold else None
            x, P = mixed(self.model, given.x, given.P, weights, around)
        q, r = (jnp.sum(share * a, axis=1) for a in (given.q, given.r))
        made = Step(
            x,
            P,
            jnp.sum(prior * given.nis, axis=0),
            jnp.where(known, likelihood, 0.0),
            jnp.max(logs + given.doubt, axis=0) >= jnp.max(logs, axis=0),
            jnp.min(given.restarts, axis=0),
            q,
            r,
            trace=BankTrace(weights, given.x, given.P),
        )
        return BankState(groups, after), made

    def interacted(self, state: BankState) -> BankState:
        """The members' starts of this step, mixed by an IMM's transitions."""
        if self.transitions is None:
            return state
        x = jnp.concatenate([s.x for s in state.groups], axis=1)
        P = jnp.concatenate([s.P for s in state.groups], axis=2)
        x, P, weights = interaction(self.model, x, P, state.weights, self.transitions)
        groups, first = [], 0
        for group, own in zip(self.groups, state.groups, strict=True):
            last = first + group.size
            groups.append(own._replace(x=x[:, first:last], P=P[:, :, first:last]))
            first = last
        return BankState(tuple(groups), normalized(jnp.log(weights)))

    def _members(
        self, state: BankState, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[tuple[Any, ...], list[MemberStep], list[Verdict]]:
        """Step the members of each group; the results have a member axis before the batch."""
        batch = z.shape[1:]
        states, results, verdicts = [], [], []
        for group, own in zip(self.groups, state.groups, strict=True):
            flat = Flat(group.size, batch)
            given = (flat.repeated(a) for a in (z, arrived, u, dt))
            made = stepped_by(group.over(batch), self.dof, flat.joined(own), *given)
            new, stepped, verdict = flat.apart(made)
            states.append(new)
            results.append(stepped)
            verdicts.append(verdict)
        return tuple(states), results, verdicts

    def due(self, state: BankState, verdict: Verdict) -> Flags:
        """Whether any member must recover."""
        parts = self._parts(state, verdict)
        flags = [flat.apart(group.due(own, said)) for group, flat, own, said in parts]
        return jnp.any(jnp.concatenate(flags), axis=0)

    def recovered(self, state: BankState, verdict: Verdict) -> BankState:
        """The state after the recovery of the members in need."""
        parts = self._parts(state, verdict)
        new = [flat.apart(group.recovered(flat, own, said)) for group, flat, own, said in parts]
        return state._replace(groups=tuple(new))

    def recover(self, state: BankState, verdict: Verdict) -> BankState:
        """The same without a test whether any member is in need."""
        parts = self._parts(state, verdict)
        new = [flat.apart(group.recover(flat, own, said)) for group, flat, own, said in parts]
        return state._replace(groups=tuple(new))

    def _parts(
        self, state: BankState, verdict: Verdict
    ) -> Iterator[tuple[Group, Flat, Any, Verdict]]:
        """Each group with its members' states and verdicts in one axis."""
        batch, first = verdict.finite.shape[1:], 0
        for group, own in zip(self.groups, state.groups, strict=True):
            last, flat = first + group.size, Flat(group.size, batch)
            part = (verdict.arrived[:, first:last], verdict.kept[:, first:last])
            yield group, flat, *flat.joined((own, Verdict(*part, verdict.finite[first:last])))
            first = last


def _of_all(of_groups: Sequence[Any], batch_axes: int) -> Any:
    """What is known of each group's members, with one axis for the members of all."""

    def joined(*parts: Any) -> Any:
        return jnp.concatenate(parts, axis=parts[0].ndim - batch_axes - 1)

    return jax.tree.map(joined, *of_groups)
