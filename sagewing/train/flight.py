"""Training the flight estimator: windows of flights, degraded, with and without blackouts."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sagewing import catalogue
from sagewing.catalogue import GATE, SHARED
from sagewing.errors import InputError
from sagewing.filters.protocols import GainNoise
from sagewing.logs import Flight
from sagewing.models import QDRONE, Vehicle
from sagewing.models.error_state import N_DX
from sagewing.policy import Architecture, Noise, Policy, Universal
from sagewing.policy.filter_settings import StoredPolicy
from sagewing.problems.flight.attitude import NOMINAL, Attitude, measured_as
from sagewing.problems.flight.records import (
    IMU,
    POSE,
    FlightRecord,
    Flights,
    WithoutPose,
    record,
)
from sagewing.problems.flight.setup import AVERAGED, estimator
from sagewing.runtime.training import TrainingBackend
from sagewing.shapes import Scalar, real_dtype
from sagewing.sim.degradation import Degradation
from sagewing.train.loop import Progress, Schedule, Stage, Trained, train
from sagewing.train.losses import WindowLoss, pose_loss
from sagewing.train.recipe import Recipe

# Added to the logits of d at the start of a training from tuned noise, so that d is small. Weakly
# observable states, such as biases, drift away where their q adapts from the first epoch; and the
# tuned r of angles (or of the gyroscope) covers more than their noise: an estimate of the noise
# alone would be too small.
CALM_Q = -12.0
CALM_R = (-4.5, -4.5, -4.5, -8.0, -8.0, -8.0)

# Paper: up to which epoch of 2200 a window has how many steps.
EPOCHS = 2200
CURRICULUM = ((300, 20), (600, 50), (900, 100), (2000, 200), (2200, 300))
# Range of the length of a blackout in a training window, s.
BLACKOUT = (0.5, 2.0)


def schedule(epochs: int = EPOCHS, learning_rate: float = 1e-3) -> Schedule:
    """The paper's schedule, scaled to this number of epochs."""
    decay = tuple((round(share * epochs), 0.3) for share in (0.4, 0.7, 0.9))
    return Schedule(epochs, learning_rate, clip_norm=0.1, batches=5, decay=decay)


@dataclass(frozen=True)
class FlightTraining:
    """The settings of a training on flights.

    The schedule and the degradation are the paper's. The architecture and the nominal noise are
    those of the `attitude`, by default an error state. `ndr-paper` is the paper's filter. `ndr` is
    ours: it starts from tuned noise and trains that noise too (with `learn_nominal`), its gain uses
    the r of the same step, it has a gate, and its loss is the root of a window's loss.
    `blackouts` is the share of windows with a blackout, in which the dynamic model is used; the
    paper has none. The lengths of the curriculum's windows are limited to `shortest`..`longest`.
    """

    filter: str = "ndr"
    vehicle: Vehicle = QDRONE
    without_pose: WithoutPose = "dynamic"
    attitude: Attitude = "error-state"
    architecture: Architecture = field(default_factory=lambda: Architecture.flight(N_DX))
    schedule: Schedule = field(default_factory=schedule)
    batch: int = 128
    shortest: int = 20
    longest: int = 300
    blackouts: float = 0.5
    degradation: Degradation = AVERAGED
    aux_weight: float = 0.1
    window_loss: WindowLoss = "root"
    bounds: tuple[float, float] = (1e-2, 1e2)
    gain_noise: GainNoise = "posterior"
    gate: float | None = GATE
    nominal_q: tuple[float, ...] = tuple(NOMINAL["error-state"].Q0)
    nominal_r: tuple[tuple[float, ...], ...] = tuple(map(tuple, NOMINAL["error-state"].R0))
    learn_nominal: bool = True


def _ndr_policy(setup: FlightTraining, key: PRNGKeyArray) -> Policy:
    """An NDR policy that starts from the nominal noise, with a small d."""
    nominal = Noise(setup.nominal_q, setup.nominal_r)
    # The noise adapts in pose steps only: in a blackout the IMU keeps its tuned noise.
    filter_settings = (setup.bounds, setup.gain_noise, nominal, setup.gate, (POSE,))
    policy = Policy(setup.architecture, *filter_settings, key=key)
    calm = jnp.concatenate([jnp.full(policy.arch.n_x, CALM_Q), jnp.array(CALM_R)])
    return eqx.tree_at(lambda p: p.head.layers[-1].b, policy, replace_fn=lambda b: b + calm)


def _shared_policy(setup: FlightTraining, key: PRNGKeyArray) -> Universal:
    """The universal policy's networks with tuned nominal noise."""
    with jax.ensure_compile_time_eval():
        pretrained = Universal.pretrained("universal")
    nominal = Noise(setup.nominal_q, setup.nominal_r)
    filter_settings = (setup.bounds, setup.gain_noise, nominal, setup.gate, (POSE,))
    policy = Universal(pretrained.bank, pretrained.hidden, *filter_settings, key=key)
    networks = (pretrained.measured, pretrained.state)
    return eqx.tree_at(lambda p: (p.measured, p.state), policy, networks)


RECIPES = {
    "ndr": Recipe(_ndr_policy),
    SHARED: Recipe(_shared_policy),
    "ndr-paper": Recipe(
        lambda setup, key: Policy(
            setup.architecture, setup.bounds, setup.gain_noise, gate=setup.gate, key=key
        )
    ),
    "ekf-tuned": Recipe(lambda setup, key: Noise(setup.nominal_q, setup.nominal_r)),
    "ekf-gated": Recipe(lambda setup, key: Noise(setup.nominal_q, setup.nominal_r)),
}


def blackout(key: PRNGKeyArray, steps: int, share: float, dt: float) -> Float[Array, "T"]:
    """The mode of every step; a share of the draws has one blackout, at a random time."""
    k_any, k_first, k_length = jax.random.split(key, 3)
    first = jax.random.randint(k_first, (), steps // 3, steps)
    length = jax.random.uniform(k_length, (), minval=BLACKOUT[0], maxval=BLACKOUT[1]) / dt
    k = jnp.arange(steps)
    lost = jax.random.bernoulli(k_any, share) & (k >= first) & (k < first + length)
    return jnp.where(lost, float(IMU), float(POSE)).astype(real_dtype())


def draw(key: PRNGKeyArray, flights: Flights, setup: FlightTraining, steps: int) -> FlightRecord:
    """A batch of windows, degraded."""

    def window(key: PRNGKeyArray) -> FlightRecord:
        k_window, k_mode, k_noise = jax.random.split(key, 3)
        rows = flights.window(k_window, steps + 1)
        mode = blackout(k_mode, steps, setup.blackouts, flights.dt)
        made = record(k_noise, rows, mode, 1.0, setup.degradation, flights.dt)
        return made._replace(z=measured_as(setup.attitude, made.z, mode == POSE))

    return jax.vmap(window)(jax.random.split(key, setup.batch))


def train_flight(
    setup: FlightTraining,
    flights: Sequence[Flight],
    seeds: list[int],
    *,
    folder: Path | None = None,
    resume: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    backend: TrainingBackend = "jax",
) -> Trained:
    """Train one filter for each seed; see `train` for `folder` and `resume`.

    With backend "auto" the filter runs in C where it has one and a compiler is installed.
    """
    check_flights(setup, flights)
    joined = Flights.joined(flights)
    stages = curriculum(setup)
    recipe = RECIPES[setup.filter]
    model = estimator(setup.vehicle, setup.without_pose, setup.attitude)
    P0, Q0, R0 = NOMINAL[setup.attitude]

    def loss_at(steps: int) -> Callable[[Any, PRNGKeyArray], Scalar]:
        def loss(learned: Any, key: PRNGKeyArray) -> Scalar:
            drawn = draw(key, joined, setup, steps)
            if isinstance(learned, StoredPolicy) and not setup.learn_nominal:
                learned = eqx.tree_at(lambda p: p.nominal, learned, replace_fn=_frozen)
            filt = catalogue.build(setup.filter, model, Q0, R0, learned)
            weight, window = setup.aux_weight, setup.window_loss
            return pose_loss(filt, drawn, P0, joined.dt, weight, window=window, backend=backend)

        return loss

    return train(
        lambda key: recipe.begin(setup, key),
        [Stage(until, loss_at(steps)) for until, steps in stages],
        setup.schedule,
        seeds,
        folder=folder,
        settings=settings(setup, flights, seeds),
        resume=resume,
        report=report,
    )


def _frozen(nominal: Noise) -> Noise:
    """The same noise without gradients, so that training does not change it."""
    return jax.tree.map(jax.lax.stop_gradient, nominal)


def check_flights(setup: FlightTraining, flights: Sequence[Flight]) -> None:
    """Refuse flights that are too short for the longest window, or lack what a blackout needs."""
    longest = max(steps for _, steps in curriculum(setup))
    for flight in flights:
        if len(flight.t) <= longest:
            raise InputError(
                f"{flight.name} has {len(flight.t)} rows, fewer than the longest window needs "
                f"({longest + 1}); leave it out or train with shorter windows."
            )
        if setup.blackouts > 0 and setup.without_pose == "dynamic":
            flight.require_motors()


def curriculum(setup: FlightTraining) -> list[tuple[int, int]]:
    """The stages: each one's last epoch, and the number of steps of its windows."""
    epochs = setup.schedule.epochs
    until: dict[int, int] = {}  # stages of equal length are merged
    for end, steps in CURRICULUM:
        steps = min(max(steps, setup.shortest), setup.longest)
        until[steps] = round(end * epochs / EPOCHS)
    return [(end, steps) for steps, end in until.items()]


def settings(setup: FlightTraining, flights: Sequence[Flight], seeds: list[int]) -> dict[str, Any]:
    """The settings for files: plain JSON, and only those that this filter depends on."""
    plain = {
        "domain": "flight",
        "flights": [f"{flight.name}, {flight.seconds:.2f} s" for flight in flights],
        "seeds": seeds,
        "filter": setup.filter,
        "vehicle": setup.vehicle._asdict(),
        "without_pose": setup.without_pose,
        "attitude": setup.attitude,
        "schedule": asdict(setup.schedule),
        "curriculum": curriculum(setup),
        "batch": setup.batch,
        "blackouts": setup.blackouts,
        "window_loss": setup.window_loss,
        "degradation": asdict(setup.degradation),
    }
    if catalogue.entry(setup.filter).adapts:
        network = {**setup.architecture.card(), "aux_weight": setup.aux_weight}
        if setup.filter == SHARED:
            network = {"begins": f"universal, {Universal.pretrained('universal').digest()}"}
        plain["policy"] = {
            **network,
            "bounds": list(setup.bounds),
            "gain_noise": setup.gain_noise,
            "gate": setup.gate,
            "nominal": {"q": setup.nominal_q, "r": setup.nominal_r},
            "learn_nominal": setup.learn_nominal,
        }
    return plain
