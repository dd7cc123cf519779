"""Training by gradient descent: many seeds in one program, resumable bit for bit.

An epoch is a pure function of the state before it, the seed and its number, and one compiled
program runs any number of epochs; where a training was interrupted does not change its result.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from sagewing.shapes import Scalar, real_dtype
from sagewing.train import checkpoint

SECONDS_BETWEEN_REPORTS = 1.0
SECONDS_BETWEEN_CHECKPOINTS = 30.0


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; the defaults are the paper's for the chaotic systems.

    An epoch is `batches` updates. At every epoch in `decay` the learning rate is multiplied by
    what stands beside it.
    """

    epochs: int = 1000
    learning_rate: float = 1e-3
    clip_norm: float = 0.5
    batches: int = 1
    decay: tuple[tuple[int, float], ...] = ()

    def optimiser(self) -> optax.GradientTransformation:
        """Adam behind a clip of the global norm."""
        rate: Any = self.learning_rate
        if self.decay:
            steps = {epoch * self.batches: factor for epoch, factor in self.decay}
            rate = optax.piecewise_constant_schedule(self.learning_rate, steps)
        return optax.chain(optax.clip_by_global_norm(self.clip_norm), optax.adam(rate))


Loss = Callable[[Any, PRNGKeyArray], Scalar]


class Stage(NamedTuple):
    """A stretch of a training: up to which epoch, and the loss until then."""

    until: int
    loss: Loss


class TrainState(NamedTuple):
    """A training between two epochs; every array but `epoch` has one row a seed."""

    epoch: Int[Array, ""]
    weights: Any
    optimiser: Any
    losses: Float[Array, "seeds epochs"]
    skipped: Int[Array, "seeds"]


class Progress(NamedTuple):
    """What a progress bar shows."""

    epoch: int
    epochs: int
    loss: float
    skipped: int


class Trained(NamedTuple):
    """One model a seed, its losses epoch by epoch, and how many updates were skipped."""

    models: list[Any]
    losses: Float[Array, "seeds epochs"]
    skipped: Int[Array, "seeds"]


def train(
    make: Callable[[PRNGKeyArray], Any],
    loss: Loss | Sequence[Stage],
    schedule: Schedule,
    seeds: list[int],
    *,
    folder: Path | None = None,
    settings: dict[str, Any] | None = None,
    resume: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    width: int | None = None,
    begin: Sequence[Any] = (),
) -> Trained:
    """Train one model a seed: `make(key)` builds it, `loss(model, key)` draws data and scores it.

    A curriculum is several losses, a `Stage` each. With a `folder` the state is written there at
    least once a minute, and `resume` goes on from it; `settings` are what must agree for that. An
    update whose gradient is not finite is skipped and counted.

    The program has room for `width` seeds and knows neither them nor their number: any group of
    that many or fewer runs the very same one, and a seed's numbers depend on the seed alone.

    `begin` are models to go on from, one a seed, in place of what `make` builds.
    """
    room = [*seeds, *seeds[-1:] * ((width or len(seeds)) - len(seeds))]
    keys = jax.vmap(jax.random.key)(jnp.asarray(room))
    optimiser = schedule.optimiser()
    structure = eqx.filter_eval_shape(make, keys[0])
    static = eqx.partition(structure, _is_weight)[1]

    @jax.jit
    def start(keys: Shaped[PRNGKeyArray, "seeds"]) -> TrainState:
        weights = jax.lax.map(lambda key: eqx.filter(make(_stream(key, 0)), eqx.is_array), keys)
        if begin:
            given = [jax.tree.leaves(eqx.filter(model, eqx.is_array)) for model in begin]
            rows = [given[seeds.index(seed)] for seed in room]
            stacked = [jnp.stack(leaves) for leaves in zip(*rows, strict=True)]
            weights = jax.tree.unflatten(jax.tree.structure(weights), stacked)
        return TrainState(
            epoch=jnp.asarray(0),
            weights=weights,
            optimiser=jax.vmap(optimiser.init)(weights),
            losses=jnp.zeros((len(room), schedule.epochs), real_dtype()),
            skipped=jnp.zeros(len(room), int),
        )

    going_on = folder is not None and checkpoint.start(folder, settings or {}, resume=resume)
    shape = jax.eval_shape(start, keys)
    state = checkpoint.load(folder, shape) if folder and going_on else start(keys)
    for stage in [Stage(schedule.epochs, loss)] if callable(loss) else loss:
        advance = partial(
            _advance(stage.loss, optimiser, static, schedule.batches), keys, len(seeds)
        )
        state = _drive(state, advance, stage.until, schedule.epochs, folder, report, len(seeds))
    rows = [jax.tree.map(lambda a, i=i: a[i], state.weights) for i in range(len(seeds))]
    models = [eqx.combine(row, static) for row in rows]
    return Trained(models, state.losses[: len(seeds)], state.skipped[: len(seeds)])


def _advance(
    loss: Loss, optimiser: optax.GradientTransformation, static: Any, batches: int
) -> Callable[..., TrainState]:
    """A compiled program that takes the first `count` seeds on to any epoch."""

    @jax.jit
    def advance(
        keys: Shaped[PRNGKeyArray, "seeds"], count: jax.Array, state: TrainState, stop: jax.Array
    ) -> TrainState:
        def epoch(state: TrainState) -> TrainState:
            # One seed after another beats all at once: the working set stays in the cache.
            state = jax.lax.fori_loop(0, count, one_row, state)
            return state._replace(epoch=state.epoch + 1)

        def one_row(i: jax.Array, state: TrainState) -> TrainState:
            row = jax.tree.map(lambda a: a[i], (keys, state.weights, state.optimiser))
            weights, opt_state, value, bad = one_seed(state.epoch, *row)
            put = partial(jax.tree.map, lambda all, one: all.at[i].set(one))
            return TrainState(
                epoch=state.epoch,
                weights=put(state.weights, weights),
                optimiser=put(state.optimiser, opt_state),
                losses=state.losses.at[i, state.epoch].set(value),
                skipped=state.skipped.at[i].add(bad),
            )

        return jax.lax.while_loop(lambda s: s.epoch < stop, epoch, state)

    def one_seed(epoch: jax.Array, key: PRNGKeyArray, weights: Any, opt_state: Any) -> Any:
        def update(learned: Any, batch: jax.Array) -> Any:
            weights, opt_state = learned
            draw = jax.random.fold_in(_stream(key, 1), epoch * batches + batch)
            value, grads = jax.value_and_grad(lambda w: loss(eqx.combine(w, static), draw))(weights)
            updates, opt_next = optimiser.update(grads, opt_state, weights)
            ok = jnp.isfinite(optax.tree.norm(grads))
            learned = jax.tree.map(
                lambda new, old: jnp.where(ok, new, old),
                (optax.apply_updates(weights, updates), opt_next),
                (weights, opt_state),
            )
            return learned, (value, ~ok)

        learned, (values, bad) = jax.lax.scan(update, (weights, opt_state), jnp.arange(batches))
        return *learned, jnp.mean(values), jnp.sum(bad)

    return advance


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)


def _stream(key: PRNGKeyArray, number: int) -> PRNGKeyArray:
    """The seed's stream of random numbers for the first weights (0) or for the data (1)."""
    return jax.random.fold_in(key, number)


def _drive(
    state: TrainState,
    advance: Callable[[TrainState, Any], TrainState],
    until: int,
    epochs: int,
    folder: Path | None,
    report: Callable[[Progress], None],
    seeds: int,
) -> TrainState:
    """Run to a stage's end in stretches of about a second, with reports and checkpoints."""
    done, stretch, saved = int(state.epoch), 1, time.monotonic()
    if folder is not None and done == 0:
        checkpoint.save(folder, state)
    while done < until:
        began = time.monotonic()
        stop = min(done + stretch, until)
        try:
            state = jax.block_until_ready(advance(state, stop))
        except KeyboardInterrupt:
            if folder is not None:
                checkpoint.save(folder, state)
            raise
        seconds = time.monotonic() - began
        rate = (stop - done) / max(seconds, 1e-6)
        # The first stretch is a single epoch, and mostly compilation.
        stretch = max(1, min(int(rate * SECONDS_BETWEEN_REPORTS), 4 * stretch))
        done = stop
        recent = state.losses[:seeds, max(0, done - 20) : done]
        report(Progress(done, epochs, float(jnp.nanmean(recent)), int(jnp.sum(state.skipped))))
        if folder is not None and (
            done == until or time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS
        ):
            checkpoint.save(folder, state)
            saved = time.monotonic()
    return state
