"""The ablation study: the NDR-SHKF with one setting changed, over many seeds.

The first three axes are the paper's (section "Ablation Study"), the others ours. A variant changes
how the filter is built or trained; the test is the same for all: the protocol `paper`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from sagewing.errors import InputError
from sagewing.jobs.store import Outcome
from sagewing.jobs.sweep import Study, Task
from sagewing.metrics.errors import armse, summary_of
from sagewing.policy import Architecture
from sagewing.problems.chaos import PAPER, Q_BASE, R_BASE, SYSTEMS, episodes_of, protocol_named
from sagewing.studies.chaos import CHUNK, build, score
from sagewing.train import Schedule
from sagewing.train.chaos import ChaosTraining, settings, train_chaos

NAME = "ablation"
DEFAULT = "default"
DOMAINS = ("lorenz", "rossler")
RUNS, STEPS = 10_000, 600  # of the test, in each domain (paper)
TEST_SEED = 0  # the records of `sagewing bench chaos`
# Seeds that fit into one compiled program (see `train`).
WIDTH = 16
# The share of training in the time of a group (measured); the rest is the test.
TRAINING_SHARE = 0.7


class Variant(NamedTuple):
    """A change of the default: its axis and label in the tables, and the changed settings."""

    axis: str
    label: str
    change: dict[str, Any]


class Axis(NamedTuple):
    """Variants that change the same setting, and the default's label in their table."""

    title: str
    default: str
    ours: bool = False


AXES = {
    "depth": Axis("recurrent depth", "3 layers"),
    "aux": Axis("auxiliary weight", "λ = 0.1"),
    "input": Axis("input representation", "whitened"),
    "gain": Axis("r in the gain", "prior r", ours=True),
    "bounds": Axis("bounds of q and r", "up to 100 x base", ours=True),
    "dense": Axis("adapted correlations", "none", ours=True),
    "start": Axis("start of a training record", "exact", ours=True),
}
VARIANTS = {
    DEFAULT: Variant("", "default", {}),
    "depth-1": Variant("depth", "1 layer", {"depth": 1}),
    "depth-5": Variant("depth", "5 layers", {"depth": 5}),
    "aux-1": Variant("aux", "λ = 1", {"aux_weight": 1.0}),
    "aux-0.01": Variant("aux", "λ = 0.01", {"aux_weight": 0.01}),
    "aux-0": Variant("aux", "λ = 0, no decoder", {"aux_weight": 0.0}),
    "input-raw": Variant("input", "raw", {"features": "raw"}),
    "input-no-log": Variant("input", "whitened, no log", {"features": "whitened-no-log"}),
    "input-nis": Variant("input", "NIS", {"features": "nis"}),
    "gain-posterior": Variant("gain", "posterior r", {"gain_noise": "posterior"}),
    "bounds-10": Variant("bounds", "up to 10 x base", {"bounds": (0.1, 10.0)}),
    "bounds-1000": Variant("bounds", "up to 1000 x base", {"bounds": (0.1, 1000.0)}),
    "dense-r": Variant("dense", "of R", {"dense": "R"}),
    "dense-qr": Variant("dense", "of Q and R", {"dense": True}),
    "start-noise": Variant("start", "drawn", {"protocol": f"{PAPER.name},start_noise=yes"}),
}


@dataclass(frozen=True)
class Ablation:
    """Settings that all variants of a study share; the defaults are the paper's."""

    epochs: int = Schedule.epochs
    batch: int = 64
    train_steps: int = 60
    runs: int = RUNS
    steps: int = STEPS
    base: ChaosTraining = field(
        default_factory=lambda: ChaosTraining(
            protocol=PAPER.name, architecture=Architecture(len(Q_BASE), len(R_BASE))
        )
    )

    def setup(self, variant: str) -> ChaosTraining:
        """A variant's training."""
        change = dict(VARIANTS[variant].change)
        of_network = {name: change.pop(name) for name in ("depth", "features") if name in change}
        return replace(
            self.base,
            architecture=replace(self.base.architecture, **of_network),
            schedule=replace(self.base.schedule, epochs=self.epochs),
            steps=self.train_steps,
            batch=self.batch,
            **change,
        )

    def study(self, variants: Sequence[str], seeds: Sequence[int]) -> Study:
        """Every variant with every seed."""
        test = {"protocol": PAPER.name, "seed": TEST_SEED, "runs": self.runs, "steps": self.steps}
        tasks = [
            Task(
                NAME, variant, {"seed": seed, "training": _card(self.setup(variant)), "test": test}
            )
            for variant in variants
            for seed in seeds
        ]
        return Study(NAME, tasks, work, bytes_each=4 * self.runs * len(DOMAINS))


def variants_named(text: str) -> list[str]:
    """Variants by name, by axis or by "paper", "ours" and "all"; always with the default."""
    chosen = {DEFAULT}
    for word in text.split(","):
        named = [
            name
            for name, variant in VARIANTS.items()
            if word in (name, variant.axis, "all")
            or (variant.axis and word == ("ours" if AXES[variant.axis].ours else "paper"))
        ]
        if not named:
            known = ", ".join([*VARIANTS, *AXES, "paper", "ours", "all"])
            raise InputError(f"There is no variant or axis {word!r}; known: {known}.")
        chosen |= set(named)
    return [name for name in VARIANTS if name in chosen]


def _card(setup: ChaosTraining) -> dict[str, Any]:
    """A training's settings as plain JSON, without the seeds."""
    card = settings(setup, [])
    del card["seeds"]
    return card


def setup_of(card: dict[str, Any]) -> ChaosTraining:
    """The training that `_card` describes."""
    policy = card["policy"]
    decay = tuple((epoch, factor) for epoch, factor in card["schedule"]["decay"])
    return ChaosTraining(
        filter=card["filter"],
        protocol=card["protocol"],
        architecture=Architecture.from_card(policy),
        schedule=Schedule(**{**card["schedule"], "decay": decay}),
        steps=card["steps"],
        batch=card["batch"],
        aux_weight=policy["aux_weight"],
        bounds=tuple(policy["bounds"]),
        gain_noise=policy["gain_noise"],
        dense=policy.get("dense", False),
    )


def work(tasks: list[dict[str, Any]], report: Callable[[float], None]) -> list[Outcome]:
    """Train a variant's seeds in one program and test each; a pure function of the settings."""
    with jax.enable_x64(False):
        return _work(tasks, report)


def _work(tasks: list[dict[str, Any]], report: Callable[[float], None]) -> list[Outcome]:
    setup, test = setup_of(tasks[0]["training"]), tasks[0]["test"]
    trained = train_chaos(
        setup,
        [task["seed"] for task in tasks],
        report=lambda p: report(TRAINING_SHARE * p.epoch / p.epochs),
        width=max(WIDTH, len(tasks)),
    )
    errors = {}
    for i, domain in enumerate(DOMAINS):
        report(TRAINING_SHARE + (1.0 - TRAINING_SHARE) * i / len(DOMAINS))
        errors[domain] = evaluate(trained.models, domain, **test)
    outcomes = []
    for i, losses in enumerate(np.asarray(trained.losses)):
        numbers: dict[str, Any] = {}
        for domain in DOMAINS:
            summary = summary_of(errors[domain][i])
            numbers[f"{domain}_armse"] = summary.armse_mean
            numbers[f"{domain}_median"] = summary.armse_median
            numbers[f"{domain}_div_pct"] = summary.divergence_pct
        numbers |= {"loss": float(losses[-20:].mean()), "skipped": int(trained.skipped[i])}
        outcomes.append(Outcome(numbers, {domain: errors[domain][i] for domain in DOMAINS}))
    return outcomes


def evaluate(
    policies: Sequence[Any], domain: str, *, protocol: str, seed: int, runs: int, steps: int
) -> Float[np.ndarray, "seeds runs"]:
    """The ARMSE of every test run with every policy; NaN where the run diverged."""
    system, test_protocol = SYSTEMS[domain], protocol_named(protocol)
    filts = [build("ndr", system, test_protocol, policy) for policy in policies]
    keys = jax.random.split(jax.random.key(seed), runs)
    errors = np.empty((len(filts), runs), np.float32)
    for first in range(0, runs, CHUNK):
        chunk = slice(first, first + CHUNK)
        records = episodes_of(keys[chunk], system, test_protocol, steps)
        for i, filt in enumerate(filts):
            errors[i, chunk] = armse(np.asarray(score(filt, records).rmse))
    return errors
