"""`sagewing train flight`: fit the NDR-SHKF of the flight estimator."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sagewing.bench.flight import NOISE
from sagewing.cli import console
from sagewing.cli.fitting import fit
from sagewing.errors import InputError
from sagewing.flights import Flight
from sagewing.flights.dataset import SIM, load
from sagewing.flights.records import WithoutPose
from sagewing.policy import Architecture, Noise
from sagewing.policy.features import FeatureName
from sagewing.sim.degradation import Degradation
from sagewing.train.flight import (
    AVERAGED,
    EPOCHS,
    GATE,
    Q0,
    R0,
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

    Example: sagewing train flight --data sim --out out/flight --epochs 330 --longest 100
    """

    filter: Literal["ndr", "ndr-paper"] = "ndr"
    """the filter that has nominal noise of its own and learns it, too, or the paper's"""
    data: str = SIM
    """sim for simulated flights, or a folder of real ones, whose circles are left out"""
    out: Path = Path("out/train-flight")
    """folder for the policies and the checkpoint"""
    resume: bool = False
    """go on with the training that is in the folder"""
    seed: int = 0
    """the first seed; the flights are the same for all"""
    seeds: int = 1
    """train this many seeds in one program"""
    epochs: int = EPOCHS
    """of five batches each; the curriculum shrinks with them"""
    batch: int = 128
    """windows in a batch"""
    shortest: int = 20
    """fewest measurements in a window; the curriculum begins with 20"""
    longest: int = 300
    """most measurements in a window"""
    blackouts: float = 0.5
    """share of windows in which the pose is lost for a while (paper: 0)"""
    without_pose: WithoutPose | None = None
    """what drives it in a blackout: dynamic, the motors (sim); drag, the IMU and its drag (real)"""
    noise: Literal["paper", "good"] = "paper"
    """the pose: up to 1 m of noise with outliers as in the paper, or 0.05 m of a good system"""
    attitude_outliers: float = 0.0
    """share of angles that are off by five times their noise, as positions are"""
    imu: Literal["paper", "as-flown"] = "paper"
    """the IMU: with the paper's faults on top of what was flown, or just that"""
    window_loss: WindowLoss | None = None
    """how a window counts: by its squared errors, or by their root; root for ndr"""
    learning_rate: float = 1e-3
    """of Adam"""
    gain_noise: Literal["prior", "posterior"] | None = None
    """which r a step's gain uses: the one before it, or its own; by default as the filter's name"""
    gate: float | None = None
    """standard deviations beyond which a channel is not heard; 3 for ndr, none for ndr-paper"""
    nominal: Path | None = None
    """where ndr's own noise begins: a folder that `sagewing tune flight` wrote"""
    learn_nominal: bool = True
    """learn on ndr's own noise, or keep it where it begins and learn to adapt it only"""
    bounds: tuple[float, float] = FlightTraining.bounds
    """range of q and r, as factors of their base"""
    features: FeatureName = "whitened"
    """what the network is fed"""
    aux_weight: float = 0.1
    """weight of the reconstruction loss"""
    depth: int = 3
    """recurrent layers"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "seeds", "epochs", "batch", "shortest", "longest")
        console.check_places(self.out, self.json)
        setup = FlightTraining(
            filter=self.filter,
            architecture=replace(Architecture.flight(), features=self.features, depth=self.depth),
            schedule=schedule(self.epochs, self.learning_rate),
            batch=self.batch,
            shortest=self.shortest,
            longest=self.longest,
            blackouts=share("blackouts", self.blackouts),
            degradation=replace(
                degradation(self.noise, self.imu),
                attitude_outlier_probability=share("attitude-outliers", self.attitude_outliers),
            ),
            aux_weight=self.aux_weight,
            window_loss=self.window_loss or ("root" if self.filter == "ndr" else "squared"),
            bounds=self.bounds,
            gain_noise=self.gain_noise or ("posterior" if self.filter == "ndr" else "prior"),
            gate=GATE if self.gate is None and self.filter == "ndr" else self.gate,
            learn_nominal=self.learn_nominal,
        )
        if self.nominal is not None:
            setup = replace(setup, **self._nominal(self.nominal))
        if not self.learn_nominal and self.filter != "ndr":
            raise InputError("--no-learn-nominal goes with --filter ndr.")
        seeds = list(range(self.seed, self.seed + self.seeds))
        setup, flights = prepared(setup, self.data, self.without_pose)
        fit(
            "train flight",
            lambda report: train_flight(
                setup, flights, seeds, folder=self.out, resume=self.resume, report=report
            ),
            settings(setup, flights, seeds),
            self.out,
            self.json,
        )

    def _nominal(self, folder: Path) -> dict[str, Any]:
        if self.filter != "ndr":
            raise InputError("--nominal goes with --filter ndr.")
        noise = Noise.load(folder)
        if noise.q.shape != Q0.shape or noise.r.shape != R0.shape:
            raise InputError(
                f"{folder} holds the noise of another model; see sagewing tune flight."
            )
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


def prepared(
    setup: FlightTraining, data: str, without_pose: WithoutPose | None
) -> tuple[FlightTraining, list[Flight]]:
    """The training flights of `data`, and the setup with the vehicle that flew them."""
    with console.err.status("preparing the flights"):
        loaded = load(data, parts=("train",))
    console.notes(loaded.notes)
    model = without_pose or loaded.without_pose
    return replace(setup, vehicle=loaded.vehicle, without_pose=model), loaded.train
