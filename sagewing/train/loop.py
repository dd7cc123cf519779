"""Training by gradient descent: many seeds in one program, resumable bit for bit.

An epoch is a pure function of the state before it, the seed and the epoch's number, and one
compiled program runs any number of epochs: an interruption does not change the result.
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
    """Epochs and learning rate; the defaults are the paper's for the chaotic systems.

    An epoch is `batches` updates. `decay` has pairs of an epoch and the factor by which the
    learning rate is multiplied at it.
    """

    epochs: int = 1000
    learning_rate: float = 1e-3
    clip_norm: float = 0.5
    batches: int = 1
    decay: tuple[tuple[int, float], ...] = ()

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, with gradients clipped to a global norm."""
        rate: Any = self.learning_rate
        if self.decay:
            steps = {epoch * self.batches: factor for epoch, factor in self.decay}
            rate = optax.piecewise_constant_schedule(self.learning_rate, steps)
        return optax.chain(optax.clip_by_global_norm(self.clip_norm), optax.adam(rate))


Loss = Callable[[Any, PRNGKeyArray], Scalar]


class Stage(NamedTuple):
    """A part of a training: the epoch at which it ends, and its loss."""

    until: int
    loss: Loss


class TrainState(NamedTuple):
    """A training between two epochs; every array but `epoch` has one row for each seed."""

    epoch: Int[Array, ""]
    weights: Any
    optimiser: Any
    losses: Float[Array, "seeds epochs"]
    skipped: Int[Array, "seeds"]


class Progress(NamedTuple):
    """The numbers that a progress bar shows."""

    epoch: int
    epochs: int
    loss: float
    skipped: int


class Trained(NamedTuple):
    """For each seed its model, the loss of every epoch, and the number of skipped updates."""

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

    A curriculum is a sequence of losses, a `Stage` each. With a `folder` the state is written there
    at least once a minute, and `resume` continues from it if the `settings` are the same. An update
    whose gradient is not finite is skipped and counted.

    The program is compiled for `width` seeds and takes the seeds and their number as inputs: any
    group of at most `width` seeds runs the same program, and the result of a seed depends on that
    seed alone.

    `begin` are the initial models, one for each seed, in place of those that `make` builds.
    """
    padded = [*seeds, *seeds[-1:] * ((width or len(seeds)) - len(seeds))]
    keys = jax.vmap(jax.random.key)(jnp.asarray(padded))
    optimiser = schedule.optimiser()
    structure = eqx.filter_eval_shape(make, keys[0])
    static = eqx.partition(structure, _is_weight)[1]

    @jax.jit
    def start(keys: Shaped[PRNGKeyArray, "seeds"]) -> TrainState:
        weights = jax.lax.map(lambda key: eqx.filter(make(_stream(key, 0)), eqx.is_array), keys)
        if begin:
            initial = [jax.tree.leaves(eqx.filter(model, eqx.is_array)) for model in begin]
            rows = [initial[seeds.index(seed)] for seed in padded]
            stacked = [jnp.stack(leaves) for leaves in zip(*rows, strict=True)]
            weights = jax.tree.unflatten(jax.tree.structure(weights), stacked)
        return TrainState(
            epoch=jnp.asarray(0),
            weights=weights,
            optimiser=jax.vmap(optimiser.init)(weights),
            losses=jnp.zeros((len(padded), schedule.epochs), real_dtype()),
            skipped=jnp.zeros(len(padded), int),
        )

    resuming = folder is not None and checkpoint.start(folder, settings or {}, resume=resume)
    shape = jax.eval_shape(start, keys)
    state = checkpoint.load(folder, shape) if folder and resuming else start(keys)
    for stage in [Stage(schedule.epochs, loss)] if callable(loss) else loss:
        advance = partial(
            _advance(stage.loss, optimiser, static, schedule.batches), keys, len(seeds)
        )
        state = _run_stage(state, advance, stage.until, schedule.epochs, folder, report, len(seeds))
    rows = [jax.tree.map(lambda a, i=i: a[i], state.weights) for i in range(len(seeds))]
    models = [eqx.combine(row, static) for row in rows]
    return Trained(models, state.losses[: len(seeds)], state.skipped[: len(seeds)])


def _advance(
    loss: Loss, optimiser: optax.GradientTransformation, static: Any, batches: int
) -> Callable[..., TrainState]:
    """A compiled program that trains the first `count` seeds up to epoch `stop`."""

    @jax.jit
    def advance(
        keys: Shaped[PRNGKeyArray, "seeds"], count: jax.Array, state: TrainState, stop: jax.Array
    ) -> TrainState:
        def epoch(state: TrainState) -> TrainState:
            # Seeds in turn are faster than seeds in a batch: the working set stays in the cache.
            state = jax.lax.fori_loop(0, count, update_row, state)
            return state._replace(epoch=state.epoch + 1)

        def update_row(i: jax.Array, state: TrainState) -> TrainState:
            row = jax.tree.map(lambda a: a[i], (keys, state.weights, state.optimiser))
            weights, opt_state, value, skipped = train_epoch(state.epoch, *row)
            write = partial(jax.tree.map, lambda rows, new: rows.at[i].set(new))
            return TrainState(
                epoch=state.epoch,
                weights=write(state.weights, weights),
                optimiser=write(state.optimiser, opt_state),
                losses=state.losses.at[i, state.epoch].set(value),
                skipped=state.skipped.at[i].add(skipped),
            )

        return jax.lax.while_loop(lambda s: s.epoch < stop, epoch, state)

    def train_epoch(epoch: jax.Array, key: PRNGKeyArray, weights: Any, opt_state: Any) -> Any:
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

        learned, (values, skipped) = jax.lax.scan(update, (weights, opt_state), jnp.arange(batches))
        return *learned, jnp.mean(values), jnp.sum(skipped)

    return advance


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)


def _stream(key: PRNGKeyArray, number: int) -> PRNGKeyArray:
    """The seed's stream of random numbers for the first weights (0) or for the data (1)."""
    return jax.random.fold_in(key, number)


def _run_stage(
    state: TrainState,
    advance: Callable[[TrainState, Any], TrainState],
    until: int,
    epochs: int,
    folder: Path | None,
    report: Callable[[Progress], None],
    seeds: int,
) -> TrainState:
    """Run to the end of a stage in chunks of about a second, with reports and checkpoints."""
    done, chunk, saved = int(state.epoch), 1, time.monotonic()
    if folder is not None and done == 0:
        checkpoint.save(folder, state)
    while done < until:
        began = time.monotonic()
        stop = min(done + chunk, until)
        try:
            state = jax.block_until_ready(advance(state, stop))
        except KeyboardInterrupt:
            if folder is not None:
                checkpoint.save(folder, state)
            raise
        seconds = time.monotonic() - began
        rate = (stop - done) / max(seconds, 1e-6)
        # The first chunk is a single epoch, and mostly compilation.
        chunk = max(1, min(int(rate * SECONDS_BETWEEN_REPORTS), 4 * chunk))
        done = stop
        recent = state.losses[:seeds, max(0, done - 20) : done]
        report(Progress(done, epochs, float(jnp.nanmean(recent)), int(jnp.sum(state.skipped))))
        if folder is not None and (
            done == until or time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS
        ):
            checkpoint.save(folder, state)
            saved = time.monotonic()
    return state
