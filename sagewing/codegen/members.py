"""A bank as functions of plain arrays: those of one member of each group, and what joins them.

The C of a bank runs a member's functions in vectors, a member in each lane (`bank.py`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sagewing.codegen.fields import Argument, Field, fields, of_state
from sagewing.codegen.program import (
    MEASURED,
    START,
    Examples,
    Function,
    Outputs,
    StructLayout,
    examples,
    in_precision,
    inputs_of_step,
    sizes,
    traced_function,
)
from sagewing.codegen.refusal import NotInC
from sagewing.filters.bank import Bank, BankState
from sagewing.filters.bank.members import MemberStep, stepped_by
from sagewing.filters.lifting import per_sample
from sagewing.filters.loop import fill_nominal_noise
from sagewing.filters.recovery import Recovering, Verdict

WEIGHTS = "log_weights"
# More members than this are stored in whole vectors, of so many lanes at most
SMALL, WHOLE = 8, 16


class Results(NamedTuple):
    """What is known of a member after its step, besides its state; `due`: it has to recover."""

    stepped: MemberStep
    verdict: Verdict
    due: Any


class Members(NamedTuple):
    """One group of a bank: what each of its members computes.

    In C there are `stored` members: after the last one, copies of it that have no weight. `own` are
    the arrays in which the members differ, whose last axis is that of the members. `state` are the
    members of the bank's struct with the shape for one member, `results` those of the struct that
    holds what a step gives besides; `known` are results that are also numbers of the new state, or
    were given, with their names there.
    """

    size: int
    stored: int
    own: dict[str, np.ndarray]
    state: list[Field]
    results: list[Field]
    known: dict[str, str]
    init: Function
    step: Function
    recover: Function | None


class BankProgram(NamedTuple):
    """A bank in one precision."""

    layout: StructLayout
    groups: list[Members]
    init: Function  # the weights
    interact: Function | None  # the mixing before the steps, of an IMM
    weigh: Function  # the weights and the estimate after them


def bank_program(filt: Bank, n_u: int, dtype: Any) -> BankProgram:
    """Trace a bank's functions, for inputs of this size (0: none), in a precision."""
    dtype = np.dtype(dtype)
    with jax.enable_x64(dtype == np.float64):
        bank: Any = in_precision(filt, dtype)
        given = examples(bank, n_u, dtype)
        made = [_members(bank, i, given, n_u, dtype) for i in range(len(bank.groups))]
        groups, results = (list(part) for part in zip(*made, strict=True))
        stored = _stored(given.state, groups)
        state = _state_fields(given.state, stored, groups, dtype)
        leaves, structure = jax.tree.flatten(stored)
        size, stored_size = bank.size, stored.log_weights.size

        def init(x: Any, P: Any) -> Outputs:
            return {WEIGHTS: _extended(bank.init(x, P).log_weights, stored_size)}, None, None

        def interact(leaves: Any) -> Outputs:
            old = jax.tree.unflatten(structure, leaves)
            if stored_size == size:
                return bank.interacted(old), None, None
            mixed = bank.interacted(jax.tree.map(lambda a: a[..., :size], old))
            return jax.tree.map(lambda a: _extended(a, stored_size), mixed), None, None

        def weigh(before: Any, leaves: Any, results: Any, arrived: Any) -> Outputs:
            new = jax.tree.unflatten(structure, leaves)
            if stored_size > size:
                highest = np.where(np.arange(stored_size) < size, np.inf, -np.inf)
                before = jnp.minimum(before, highest.astype(dtype))
            stepped = [result.stepped for result in results]
            state, step = bank.weighed(before, new.groups, stepped, arrived)
            return {WEIGHTS: state.log_weights}, fill_nominal_noise(bank, step.estimate, ()), None

        traced = partial(traced_function, True, reduces=True)
        old = {field.name: of_state(field) for field in state}
        new = {name: a._replace(name=f"state->{name}") for name, a in old.items()}
        said = [_argument(field, g, new) for g in groups for field in g.results]
        arguments = (stored.log_weights, leaves, results, given.arrived)
        estimate = jax.eval_shape(weigh, *arguments)[1]
        return BankProgram(
            StructLayout(*sizes(bank), n_u, state, fields(estimate, dtype)),
            groups,
            traced(init, START, given.x0, given.P0),
            traced(interact, list(old.values()), leaves) if bank.transitions is not None else None,
            traced(weigh, [old[WEIGHTS], *new.values(), *said, MEASURED[1]], *arguments),
        )


def _argument(field: Field, group: Members, state: dict[str, Argument]) -> Argument:
    """A result of all members of a group, as the weighing takes it."""
    name = group.known.get(field.name, f"made->{field.name}")
    own = state.get(name.removeprefix("state->"))
    return own or Argument(name, symmetric=field.symmetric, field=field)


def stored_members(bank: Bank, place: int) -> int:
    """How many members a group has in C: whole vectors, of many members that are all alike."""
    size = bank.groups[place].size
    return -(-size // WHOLE) * WHOLE if size == bank.size and size > SMALL else size


def _members(
    bank: Bank, place: int, given: Examples, n_u: int, dtype: np.dtype
) -> tuple[Members, Any]:
    """The functions of a group's members, and the shapes of their results with all members."""
    group, size = bank.groups[place], stored_members(bank, place)
    before = sum(g.size for g in bank.groups[:place])
    each = np.minimum(np.arange(size), group.size - 1)
    own = {f"sw_own{place}_{i}": np.asarray(a)[..., each] for i, a in enumerate(group.own)}
    starts = {}
    if bank.offsets is not None:
        starts = {f"sw_start{place}": np.asarray(bank.offsets).T[:, before + each]}

    def start(x: Any, P: Any, own: Any, offsets: Any) -> Any:
        for dx in offsets:
            x = per_sample(bank.model.plus, x, dx)
        return group.one(own).init(x, P)

    def shapes(arrays: dict[str, np.ndarray]) -> list[Any]:
        return [jax.ShapeDtypeStruct(a.shape[:-1], dtype) for a in arrays.values()]

    one = jax.eval_shape(start, given.x0, given.P0, shapes(own), shapes(starts))
    leaves, structure = jax.tree.flatten(one)
    mine = fields(_named(place, one), dtype)
    for field, leaf in zip(mine, jax.tree.leaves(given.state.groups[place]), strict=True):
        if leaf.shape != (*field.shape, group.size):
            raise NotInC(
                f"The members of a bank share {field.name} of shape {leaf.shape}, and in C each "
                "member has its own state."
            )

    def init(x: Any, P: Any, own: Any, offsets: Any) -> Outputs:
        return _named(place, start(x, P, own, offsets)), None, None

    def step(leaves: Any, own: Any, z: Any, arrived: Any, u: Any, dt: Any) -> Outputs:
        filt = group.one(own)
        state = jax.tree.unflatten(structure, leaves)
        new, stepped, verdict = stepped_by(filt, bank.dof, state, z, arrived, u, dt)
        due = filt.due(new, verdict) if isinstance(filt, Recovering) else np.zeros((), bool)
        return _named(place, new), {f"r{place}": Results(stepped, verdict, due)}, None

    def recover(leaves: Any, own: Any, verdict: Any) -> Outputs:
        filt = group.one(own)
        assert isinstance(filt, Recovering)
        return (
            _named(place, filt.recover(jax.tree.unflatten(structure, leaves), verdict)),
            None,
            None,
        )

    def arguments(arrays: dict[str, np.ndarray]) -> list[Argument]:
        return [
            Argument(name, a.ndim == 1, finite=True, field=_field(name, a), members=size)
            for name, a in arrays.items()
        ]

    old = [of_state(field)._replace(members=size) for field in mine]
    inputs, seconds = inputs_of_step(n_u)
    numbers = (leaves, shapes(own), *given[2:6])
    _, said, _ = jax.eval_shape(step, *numbers)
    verdict = said[f"r{place}"].verdict
    stepped = traced_function(
        False, step, [*old, *arguments(own), *MEASURED, *inputs, seconds], *numbers
    )
    results = fields(_with_members(said, size), dtype)
    states = {tuple(value.ravel()): f"state->{name}" for name, value in stepped.state.items()}
    same = {}
    for name, value in stepped.estimate.items():
        known = states.get(tuple(value.ravel())) or _given(value)
        if known is not None:
            same[name] = known
    of_verdict = []
    for field in fields({f"r{place}": {"verdict": verdict}}, dtype):
        name = same.get(field.name, f"made->{field.name}")
        of_verdict.append(Argument(name, field=field, members=0 if name == "arrived" else size))
    own_and_start = [*START, *arguments(own), *arguments(starts)]
    begun = (given.x0, given.P0, shapes(own), shapes(starts))
    made = Members(
        group.size,
        size,
        own | starts,
        mine,
        results,
        same,
        traced_function(False, init, own_and_start, *begun),
        stepped,
        traced_function(
            False, recover, [*old, *arguments(own), *of_verdict], leaves, shapes(own), verdict
        )
        if isinstance(group.filt, Recovering)
        else None,
    )
    return made, _with_members(said[f"r{place}"], size)


def _stored(state: BankState, groups: list[Members]) -> BankState:
    """The shapes of a bank's state in C."""

    def more(leaf: Any, size: int) -> Any:
        return jax.ShapeDtypeStruct((*leaf.shape[:-1], size), leaf.dtype)

    if len(groups) > 1:
        return state
    return jax.tree.map(lambda a: more(a, groups[0].stored), state)


def _state_fields(
    state: BankState, stored: BankState, groups: list[Members], dtype: np.dtype
) -> list[Field]:
    each = zip(fields(stored, dtype), jax.tree.leaves(state), strict=True)
    return [
        field if field.shape == leaf.shape else field._replace(used=leaf.shape[-1])
        for field, leaf in each
    ]


def _extended(a: Any, stored: int) -> Any:
    """Numbers of all members, and those of the copies of the last one."""
    return a[..., np.minimum(np.arange(stored), a.shape[-1] - 1)]


def _given(value: Any) -> str | None:
    """The name of the numbers of the members, or of `arrived`, of which these are all."""
    array = value.flat[0].args[0] if value.flat[0].op == "elem" else None
    if array is None or array.op != "input" or array.attr.name.startswith("s->"):
        return None
    if not (array.attr.name == "arrived" or array.attr.members):
        return None
    in_order = all(n.args == (array,) and n.attr == i for i, n in enumerate(value.flat))
    return array.attr.name if in_order else None


def _named(place: int, state: Any) -> Any:
    """A member's state, with the names of the bank's."""
    return {"groups": {str(place): state}}


def _field(name: str, array: np.ndarray) -> Field:
    return Field(name, array.shape[:-1], "real")


def _with_members(tree: Any, size: int) -> Any:
    """The shapes with an axis of members at the end."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct((*a.shape, size), a.dtype), tree)
