"""Training the universal policy on the random family, against the oracle and the nominal EKF."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from sagewing.errors import InputError
from sagewing.filters import EKF, Filter, NDRSageHusa, OracleEKF, Step
from sagewing.filters.guards import prevent_fusion
from sagewing.filters.kernels import diagonal, diagonal_matrix
from sagewing.filters.loop import scan
from sagewing.filters.oracle import OracleState
from sagewing.policy import Universal
from sagewing.problems.family import draw as family
from sagewing.problems.family.draw import Drawn
from sagewing.problems.family.model import N_X, N_Z, FamilyModel
from sagewing.shapes import Scalar, States
from sagewing.train.loop import Progress, Schedule, Stage, Trained, train
from sagewing.train.losses import noise_distance

Q0, R0 = (1.0,) * N_X, (1.0,) * N_Z  # a unit of the family is its nominal noise
# Squared errors, in variances of the oracle's own estimate
LOST = 4.0  # where the oracle has a larger error, the episode is left out of the loss
LOST_MODEL = 1e3  # the same limit, where the model is wrong
SMALLEST = 1e-3  # is added to every error
LARGEST = 1e8  # the largest error that counts
# Held-out episodes are drawn from keys that no training uses.
HELD_OUT = 1_000_000_007
BLOCK = 100  # steps whose truth is in memory at once

# At these shares of the epochs the learning rate falls.
DECAY = (0.5, 0.7, 0.85, 0.95)
FALL = 10.0**-0.5
# Up to this share of the epochs `noise_weight` counts in full, then times this factor.
IMITATION, AFTERWARDS = 0.5, 0.4


def schedule(epochs: int = 7500, learning_rate: float = 5e-3) -> Schedule:
    """The learning rate falls to a hundredth, in four steps."""
    decay = tuple((round(share * epochs), FALL) for share in DECAY)
    return Schedule(epochs, learning_rate, clip_norm=0.5, decay=decay)


@dataclass(frozen=True)
class UniversalTraining:
    """The settings of a training on the family.

    A batch runs up to `longest` steps without derivatives, and then `steps` steps with them. The
    loss is the logarithm of the error's ratio to the oracle's, or to the nominal EKF's where that
    is smaller. `loss_to_ekf` weighs the same logarithm for the nominal EKF, where it is positive;
    `noise_weight` weighs the distance of q and r from the true ones. Of the episodes whose noise is
    not nominal, the share `wrong_models` has a wrong model, too. `alarm_threshold` and
    `probe_sigmas` are the policy's.
    """

    schedule: Schedule = field(default_factory=schedule)
    steps: int = 80
    longest: int = 1500
    batch: int = 64
    loss_to_ekf: float = 1.0
    noise_weight: float = 0.4
    wrong_models: float = 0.35
    bank: int = 8
    hidden: tuple[int, ...] = (16, 8)
    bounds: tuple[float, float] = (1e-5, 1e4)
    alarm_threshold: float = 10.5
    probe_sigmas: float = 2.5


class Errors(NamedTuple):
    """Mean squared errors over a window, each state's in variances of the oracle's own estimate.

    `noise` is the distance of the policy's q and r from the true ones.
    """

    universal: Float[Array, "B"]
    ekf: Float[Array, "B"]
    oracle: Float[Array, "B"]
    noise: Float[Array, "B"]


class Running(NamedTuple):
    """The state of running episodes: the truth, and the three filters."""

    truth: Float[Array, "n B"]
    universal: Any
    ekf: Any
    oracle: OracleState


def train_universal(
    setup: UniversalTraining,
    seeds: list[int],
    *,
    begin: Sequence[Universal] = (),
    folder: Path | None = None,
    resume: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Trained:
    """Train one policy for each seed, from those in `begin` if any; see `train` for the rest."""
    if len(begin) not in (0, len(seeds)):
        raise InputError(
            f"{len(begin)} policies to go on from for {len(seeds)} seeds: give one a seed, or none."
        )
    for policy in begin:
        if policy.nominal is not None:
            raise InputError(
                "A policy to go on from has nominal noise of its own: it is for one model only."
            )
        if (policy.bank, policy.hidden) != (setup.bank, setup.hidden):
            raise InputError(
                f"A policy to go on from has a bank of {policy.bank} and layers of "
                f"{policy.hidden}; this training's has {setup.bank} and {setup.hidden}."
            )
    epochs = setup.schedule.epochs
    less = replace(setup, noise_weight=AFTERWARDS * setup.noise_weight)
    parts = [
        Stage(round(IMITATION * epochs), partial(loss, setup)),
        Stage(epochs, partial(loss, less)),
    ]
    return train(
        lambda key: Universal(
            setup.bank,
            setup.hidden,
            setup.bounds,
            alarm_threshold=setup.alarm_threshold,
            probe_sigmas=setup.probe_sigmas,
            key=key,
        ),
        parts,
        setup.schedule,
        seeds,
        folder=folder,
        settings=settings(setup, seeds, begin),
        resume=resume,
        report=report,
        begin=begin,
    )


def loss(setup: UniversalTraining, policy: Universal, key: PRNGKeyArray) -> Scalar:
    """The mean loss over a batch of the family; see `UniversalTraining`."""
    k_draw, k_noise, k_start, k_first = jax.random.split(key, 4)
    drawn = family.draw(jax.random.split(k_draw, setup.batch), setup.wrong_models)
    # The window begins at the start of the episode with probability 0.4, else at a random step
    later = setup.longest * jax.random.uniform(k_first) ** 2
    first = jnp.where(jax.random.uniform(k_start) < 0.4, 0.0, later).astype(int)
    running = start(drawn, policy, jax.random.fold_in(k_start, 1))
    frozen = jax.lax.stop_gradient(policy)

    def skip(k: Array, running: Running) -> Running:
        return advance(drawn, frozen, running, k, 1, k_noise)[0]

    running = jax.lax.stop_gradient(jax.lax.fori_loop(0, first, skip, running))
    running, errors = window(drawn, policy, running, first, setup.steps, k_noise)
    best = jnp.minimum(errors.oracle, errors.ekf)
    to_best = 0.5 * (jnp.log(errors.universal) - jnp.log(best))
    to_ekf = 0.5 * (jnp.log(errors.universal) - jnp.log(errors.ekf))
    # The true q and r are the best ones only where the model is right and the oracle converges
    imitates = (errors.oracle < LOST) & ~drawn.truth.wrong
    noise = jnp.where(imitates, setup.noise_weight * errors.noise, 0.0)
    each = to_best + setup.loss_to_ekf * jax.nn.relu(to_ekf) + noise
    counts = in_loss(drawn, running, errors)
    return jnp.sum(jnp.where(counts, each, 0.0)) / jnp.maximum(jnp.sum(counts), 1)


def in_loss(drawn: Drawn, running: Running, errors: Errors) -> Bool[Array, "B"]:
    """Where the truth is bounded, and the oracle follows it or is worse than the EKF."""
    bounded = jnp.all(jnp.abs(running.truth) < 0.99 * family.RUNAWAY, axis=0)
    followed = (errors.oracle < LOST) | (errors.ekf < errors.oracle)
    return bounded & (followed | (drawn.truth.wrong & (errors.oracle < LOST_MODEL)))


def start(drawn: Drawn, policy: Universal, key: PRNGKeyArray) -> Running:
    """The episodes' start, with all filters at the same draw around the truth."""
    P0 = diagonal_matrix(drawn.spread**2)
    x0 = drawn.start + drawn.spread * jax.random.normal(key, drawn.start.shape) * drawn.states
    learned, ekf = (filt.init(x0, P0) for filt in _filters(policy))
    oracle = OracleState(x0, P0, jnp.asarray(0), ekf.recovery)
    return Running(drawn.start, learned, ekf, oracle)


def advance(
    drawn: Drawn, policy: Universal, running: Running, first: Array, steps: int, key: PRNGKeyArray
) -> tuple[Running, Errors, Array]:
    """Simulate the truth and run every filter for `steps` steps from step `first` on.

    Also returns the squared errors at every step, and whether the truth is bounded.
    """

    def move(truth: States, k: Array) -> tuple[States, Any]:
        simulated = family.step(drawn, truth, k, key)
        x, z, q, r = prevent_fusion((simulated.x, simulated.z, simulated.q, simulated.r))
        return x, simulated._replace(x=x, z=z, q=q, r=r)

    unroll = steps == 1  # one step needs no loop
    truth, record = jax.lax.scan(move, running.truth, first + jnp.arange(steps), unroll=unroll)
    u = jnp.broadcast_to(drawn.u, (steps, *drawn.u.shape))
    q = jnp.where(drawn.states, record.q, 1.0)
    inputs = (record.z, u, jnp.ones(steps, record.z.dtype), record.arrived)
    oracle = OracleEKF(FamilyModel(), q, record.r)
    oracle_start = running.oracle._replace(k=jnp.asarray(0))
    s_oracle, (x_oracle, variance) = scan(
        oracle, oracle_start, *inputs, _x_and_variance, unroll=unroll
    )

    def squared(x: Array) -> Array:
        terms = jnp.where(drawn.states, (x - record.x) ** 2 / variance, 0.0)
        return jnp.minimum(jnp.sum(terms, axis=1) / jnp.sum(drawn.states, axis=0), LARGEST)

    learned, ekf = _filters(policy)
    true_noise = (q, record.r, jnp.broadcast_to(drawn.states, q.shape), record.arrived)
    s_learned, (x_learned, noise) = scan(
        learned, running.universal, *inputs, _x_and_noise, true_noise, unroll=unroll
    )
    s_ekf, (x_ekf, _) = scan(ekf, running.ekf, *inputs, _x_and_variance, unroll=unroll)
    errors = Errors(squared(x_learned), squared(x_ekf), squared(x_oracle), noise)
    bounded = jnp.all(jnp.abs(record.x) < 0.99 * family.RUNAWAY, axis=1)
    return Running(truth, s_learned, s_ekf, s_oracle), errors, bounded


def _x_and_variance(step: Step, extra: None) -> tuple[Array, Array]:
    return step.x, diagonal(step.P)


def _x_and_noise(step: Step, true: tuple[Array, ...]) -> tuple[Array, Array]:
    return step.x, noise_distance(step, *true)


def window(
    drawn: Drawn, policy: Universal, running: Running, first: Array, steps: int, key: PRNGKeyArray
) -> tuple[Running, Errors]:
    """Run `steps` steps from step `first` on; the mean squared errors over them."""
    running, errors, _ = advance(drawn, policy, running, first, steps, key)
    return running, Errors(*(jnp.mean(e, axis=0) + SMALLEST for e in errors))


def _filters(policy: Universal) -> tuple[Filter, Filter]:
    model = FamilyModel()
    return NDRSageHusa(model, Q0, R0, policy), EKF(model, Q0, R0)


class HeldOut(NamedTuple):
    """Geometric means over held-out episodes of the ratio of RMS errors to the oracle's.

    `ratio` is over the first steps and `late` over the last steps of a long record; `right` and
    `late_right` are the same where the nominal noise is right; `ekf` and `ekf_late` are the nominal
    EKF's. `lost_to_ekf` is the share of episodes whose error is more than 10% above the EKF's.
    `wrong` is the ratio to the nominal EKF's error where all models are wrong.
    """

    ratio: float
    right: float
    late: float
    late_right: float
    ekf: float
    ekf_late: float
    lost_to_ekf: float
    wrong: float


@eqx.filter_jit
def _held_out(
    policy: Universal, key: PRNGKeyArray, runs: int, steps: int, wrong_models: float = 0.0
) -> Any:
    k_draw, k_noise, k_start = jax.random.split(key, 3)
    drawn = family.draw(jax.random.split(k_draw, runs), wrong_models)

    def block(running: Running, first: Array) -> tuple[Running, tuple[Errors, Array]]:
        running, errors, bounded = advance(drawn, policy, running, first, BLOCK, k_noise)
        return running, (errors, bounded)

    blocks = jnp.arange(0, steps, BLOCK)
    in_blocks = jax.lax.scan(block, start(drawn, policy, k_start), blocks)[1]
    errors, bounded = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:steps], in_blocks)
    return drawn, errors, bounded


def held_out(policy: Universal, runs: int = 1000, early: int = 400, steps: int = 3000) -> HeldOut:
    """Score a policy on episodes that no training uses: their first and their last steps."""
    drawn, errors, bounded = _held_out(policy, jax.random.key(HELD_OUT), runs, steps)

    def log_ratios(rows: slice) -> tuple[Array, Array, Array]:
        """Log ratios of the policy's and the EKF's errors to the oracle's, and where they count."""
        means = Errors(*(jnp.mean(e[rows], axis=0) + SMALLEST for e in errors))
        counts = jnp.all(bounded[rows], axis=0) & (means.oracle < LOST)
        ours, ekf = (0.5 * jnp.log(e / means.oracle) for e in (means.universal, means.ekf))
        return ours, ekf, counts

    def mean(logs: Array, where: Array) -> float:
        return float(jnp.exp(jnp.sum(jnp.where(where, logs, 0.0)) / jnp.sum(where)))

    ours, ekf, counts = log_ratios(slice(0, early))
    late, ekf_late, counts_late = log_ratios(slice(steps - early, steps))
    worse = jnp.sum((ours > ekf + jnp.log(1.1)) & counts) / jnp.sum(counts)
    return HeldOut(
        mean(ours, counts),
        mean(ours, counts & drawn.nominal_noise),
        mean(late, counts_late),
        mean(late, counts_late & drawn.nominal_noise),
        mean(ekf, counts),
        mean(ekf_late, counts_late),
        float(worse),
        mean(*_to_ekf_where_wrong(policy, runs, early)),
    )


def _to_ekf_where_wrong(policy: Universal, runs: int, steps: int) -> tuple[Array, Array]:
    """The log ratio to the nominal EKF's error, and where it counts: where the model is wrong."""
    key = jax.random.key(HELD_OUT + 1)
    drawn, errors, bounded = _held_out(policy, key, runs, steps, wrong_models=1.0)
    ours, ekf = (jnp.mean(e, axis=0) + SMALLEST for e in (errors.universal, errors.ekf))
    return 0.5 * jnp.log(ours / ekf), drawn.truth.wrong & jnp.all(bounded, axis=0)


def settings(
    setup: UniversalTraining, seeds: list[int], begin: Sequence[Universal] = ()
) -> dict[str, Any]:
    """The settings for files: plain JSON."""
    initial = {"begin": [policy.digest() for policy in begin]} if begin else {}
    return {"domain": "family", "seeds": seeds, **asdict(setup), **initial}
