"""`sagewing train flight`: fit the NDR-SHKF of the flight estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from sagewing.cli import console
from sagewing.cli.fitting import fit
from sagewing.cli.output import ResumableOutput
from sagewing.cli.own_training import BASELINE, OWN, PAPER, Recipe, judge, tuned
from sagewing.errors import InputError
from sagewing.policy import Architecture, Noise
from sagewing.policy.ndr.features import FeatureName
from sagewing.problems.flight.dataset import SIM, Dataset, load
from sagewing.problems.flight.own_logs import are_logs, own_flights
from sagewing.problems.flight.records import WithoutPose
from sagewing.sim.degradation import Degradation
from sagewing.studies.flight import NOISE
from sagewing.train.checkpoint import SETTINGS
from sagewing.train.flight import (
    AVERAGED,
    GATE,
    Q0,
    R0,
    SHARED,
    FlightTraining,
    schedule,
    settings,
    train_flight,
)
from sagewing.train.losses import WindowLoss


@dataclass(frozen=True)
class TrainFlight:
    """Train a learned filter by the paper's schedule on windows of flights.

    Writes DIR/seed-N/ (for sw.Policy.load) for every seed, DIR/result.json with the losses, and
    a checkpoint twice a minute: a kill loses no more, and --resume goes on bit for bit.

    On your own logs it takes a shorter recipe, keeps the last log aside (or the end of the only
    one), begins with an EKF that it tunes to the others (DIR-tuned), and says in the end whether
    the policy is better than that EKF on the flight kept aside.

    Example: sagewing train flight --data sim --out out/flight --epochs 330 --longest 100

    Example: sagewing train flight --data monday.ulg tuesday.ulg --out out/mine
    """

    filter: Literal["ndr", "ndr-shared", "ndr-paper"] = "ndr"
    """ndr: the paper's network, around noise of its own, which it learns, too; ndr-shared: the same
    with the universal policy's networks, trained on; ndr-paper: the paper's filter"""
    data: tuple[str, ...] = (SIM,)
    """sim, a folder of .npz flights, whose circles are left out, or your own logs, of any format"""
    output: ResumableOutput = ResumableOutput(Path("out/train-flight"))
    seed: int = 0
    """the first seed; the flights are the same for all"""
    seeds: int = 1
    """train this many seeds in one program"""
    epochs: int | None = None
    """of five batches each; the curriculum shrinks with them (2200; own logs: 40)"""
    batch: int | None = None
    """windows in a batch (128; own logs: 64)"""
    shortest: int | None = None
    """fewest measurements in a window (20; own logs: 500)"""
    longest: int | None = None
    """most measurements in a window (300; own logs: 500)"""
    blackouts: float = 0.5
    """share of windows in which the pose is lost for a while (paper: 0)"""
    without_pose: WithoutPose | None = None
    """what drives it in a blackout: dynamic, the motors (sim); drag, the IMU and its drag (real)"""
    noise: Literal["paper", "good"] | None = None
    """the pose: up to 1 m of noise with outliers (paper), or 0.05 m (good; own logs)"""
    attitude_outliers: float = 0.0
    """share of angles that are off by five times their noise, as positions are"""
    imu: Literal["paper", "as-flown"] | None = None
    """the IMU: with the paper's faults on top of what was flown, or just that (own logs)"""
    window_loss: WindowLoss | None = None
    """how a window counts: by its squared errors (ndr-paper), or by their root"""
    learning_rate: float | None = None
    """of Adam (1e-3; own logs: 2e-3)"""
    gain_noise: Literal["prior", "posterior"] | None = None
    """which r a step's gain uses: the one before it, or its own; by default as the filter's name"""
    gate: float | None = None
    """standard deviations beyond which a channel is not heard; 3, or none for ndr-paper"""
    nominal: Path | None = None
    """where the filter's own noise begins: a folder that `sagewing tune flight` wrote"""
    learn_nominal: bool = True
    """learn on that noise, or keep it where it begins and learn to adapt it only"""
    bounds: tuple[float, float] = FlightTraining.bounds
    """range of q and r, as factors of their base"""
    features: FeatureName = "whitened"
    """what the network is fed"""
    aux_weight: float | None = None
    """weight of the reconstruction loss (0.1; own logs: 0.0003); ndr-shared has none"""
    depth: int = 3
    """recurrent layers"""

    def __call__(self) -> None:
        """Run it."""
        own = are_logs(self.data)
        recipe = OWN if own else PAPER
        given = {f.name: getattr(self, f.name) for f in fields(recipe)}
        recipe = replace(recipe, **{k: v for k, v in given.items() if v is not None})
        console.at_least_one(self, "seeds")
        console.at_least_one(recipe, "epochs", "batch", "shortest", "longest")
        self.output.check()
        if not self._ours and (self.nominal is not None or not self.learn_nominal):
            raise InputError("--nominal and --no-learn-nominal do not go with --filter ndr-paper.")
        of_papers = ("features", "depth", "aux_weight")
        chosen = any(getattr(self, name) != getattr(type(self), name) for name in of_papers)
        if self.filter == SHARED and chosen:
            raise InputError(
                "--features, --depth and --aux-weight are of the paper's network: they do not go "
                "with --filter ndr-shared, whose networks are the universal policy's."
            )
        data = dataset(self.data)
        setup = self._setup(recipe, data)
        if self.nominal is not None:
            setup = replace(setup, **_begun(Noise.load(self.nominal), str(self.nominal)))
        seeds = list(range(self.seed, self.seed + self.seeds))
        if own and self.nominal is None and self._ours:
            setup = replace(setup, **self._tuned(setup, data))
        out = self.output.out
        policies = fit(
            "train flight",
            lambda report: train_flight(
                setup, data.train, seeds, folder=out, resume=self.output.resume, report=report
            ),
            settings(setup, data.train, seeds),
            out,
            self.output.json,
        )
        if own and self._ours:
            noise = Noise(setup.nominal_q, setup.nominal_r)
            for seed, policy in zip(seeds, policies, strict=True):
                learned, folder = {BASELINE: noise, self.filter: policy}, out / f"seed-{seed}"
                judge(data, setup, recipe.noise, learned, folder)

    @property
    def _ours(self) -> bool:
        """Whether it is one of our filters, around tuned noise; the paper's has its own recipe."""
        return self.filter != "ndr-paper"

    def _tuned(self, setup: FlightTraining, data: Dataset) -> dict[str, Any]:
        """An EKF's noise for these flights, beside the policies; that of a resumed one is there."""
        folder = self.output.out.with_name(f"{self.output.out.name}-tuned")
        if self.output.resume and folder.is_dir():
            return _begun(Noise.load(folder), str(folder))
        for taken in (folder, self.output.out / SETTINGS):
            if taken.exists():
                raise InputError(
                    f"{taken} is there already: add --resume to go on, or choose another --out."
                )
        made = tuned(replace(setup, filter=BASELINE), data, self.seed, folder)
        return _begun(made, str(folder))

    def _setup(self, recipe: Recipe, data: Dataset) -> FlightTraining:
        longest = min(recipe.longest, *(len(f.t) - 1 for f in data.train))
        return FlightTraining(
            filter=self.filter,
            vehicle=data.vehicle,
            without_pose=self.without_pose or data.without_pose,
            architecture=replace(Architecture.flight(), features=self.features, depth=self.depth),
            schedule=schedule(recipe.epochs, recipe.learning_rate),
            batch=recipe.batch,
            shortest=min(recipe.shortest, longest) if are_logs(self.data) else recipe.shortest,
            longest=longest if are_logs(self.data) else recipe.longest,
            blackouts=share("blackouts", self.blackouts),
            degradation=replace(
                degradation(recipe.noise, recipe.imu),
                attitude_outlier_probability=share("attitude-outliers", self.attitude_outliers),
            ),
            aux_weight=recipe.aux_weight,
            window_loss=self.window_loss or ("root" if self._ours else "squared"),
            bounds=self.bounds,
            gain_noise=self.gain_noise or ("posterior" if self._ours else "prior"),
            gate=GATE if self.gate is None and self._ours else self.gate,
            learn_nominal=self.learn_nominal,
        )


def _begun(noise: Noise, folder: str) -> dict[str, Any]:
    """The noise where a training begins."""
    if noise.q.shape != Q0.shape or noise.r.shape != R0.shape:
        raise InputError(f"{folder} holds the noise of another model; see sagewing tune flight.")
    return {
        "nominal_q": tuple(noise.q.tolist()),
        "nominal_r": tuple(tuple(row) for row in noise.r.tolist()),
    }


def degradation(noise: str, imu: str) -> Degradation:
    """What windows go through: the benchmark's pose noise, and the paper's faults of the IMU."""
    pose = NOISE[noise]
    if imu == "as-flown":
        return pose
    return replace(
        AVERAGED,
        position_std=pose.position_std,
        position_outlier_std=pose.position_outlier_std,
        position_outlier_probability=pose.position_outlier_probability,
        attitude_std=pose.attitude_std,
    )


def share(option: str, value: float) -> float:
    """An option's value, if it is a share."""
    if not 0.0 <= value <= 1.0:
        raise InputError(f"--{option} must lie in 0..1; got {value:g}.")
    return value


def dataset(data: Sequence[str]) -> Dataset:
    """The flights that --data names, with what a user should know of them."""
    with console.err.status("preparing the flights"):
        loaded = own_flights(data) if are_logs(data) else load(data[0], parts=("train",))
    console.notes(loaded.notes)
    return loaded
