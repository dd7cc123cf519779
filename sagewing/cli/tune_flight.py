"""`sagewing tune flight`: fit constant Q and R to flights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sagewing.cli import console
from sagewing.cli.fitting import dataset, share, show, tune
from sagewing.cli.output import NewOutput
from sagewing.problems.flight.attitude import Attitude
from sagewing.problems.flight.dataset import SIM
from sagewing.problems.flight.records import WithoutPose
from sagewing.problems.flight.setup import degradation
from sagewing.results import BenchResult
from sagewing.train.flight import FlightTraining, settings
from sagewing.train.losses import WindowLoss
from sagewing.train.saving import save_noise, seed_folder
from sagewing.train.tuning import START, STRIDES


@dataclass(frozen=True)
class TuneFlight:
    """Fit the variances of a constant Q and R by coordinate search: a careful engineer's EKF.

    Minimises the loss of `sagewing train flight` on whole windows of the same flights, one
    variance for each kind of state and sensor. Writes DIR/seed-N/ for sw.Noise.load, and
    DIR/result.json.

    Example: sagewing tune flight --data sim --gate --out out/tune-gated
    """

    data: tuple[str, ...] = (SIM,)
    """sim, a folder of .npz flights, whose circles are left out, or your own logs, of any format"""
    gate: bool = False
    """fit the EKF with a gate of three standard deviations"""
    output: NewOutput = NewOutput(Path("out/tune-flight"))
    seed: int = 0
    """draws the windows"""
    windows: int = 96
    """how many windows the loss is taken over"""
    steps: int = 1000
    """measurements in a window: ten seconds, as long as the benchmark's flights"""
    blackouts: float = 0.5
    """share of windows in which the pose is lost for a while"""
    without_pose: WithoutPose | None = None
    """what drives it in a blackout: dynamic, the motors (sim); drag, the IMU and its drag (real)"""
    attitude: Attitude = "error-state"
    """18 states with an error of three numbers, or the paper's 19 with Euler angles"""
    noise: Literal["paper", "good"] = "paper"
    """the pose: up to 1 m of noise with outliers as in the paper, or 0.05 m of a good system"""
    imu: Literal["paper", "as-flown"] = "as-flown"
    """the IMU: with the paper's faults on top of what was flown, or just that"""
    window_loss: WindowLoss = "root"
    """how a window counts: by its squared errors, or by their root"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "windows", "steps")
        self.output.check()
        data = dataset(self.data)
        flights = data.train
        setup = FlightTraining(
            filter="ekf-gated" if self.gate else "ekf-tuned",
            vehicle=data.vehicle,
            without_pose=self.without_pose or data.without_pose,
            attitude=self.attitude,
            batch=self.windows,
            shortest=self.steps,
            longest=self.steps,
            blackouts=share("blackouts", self.blackouts),
            degradation=degradation(self.noise, self.imu),
            window_loss=self.window_loss,
        )
        tuned = tune(setup, data, self.seed, "rounds")
        training = settings(setup, flights, [self.seed])
        for trained_only in ("schedule", "curriculum"):
            del training[trained_only]
        training |= {"steps": self.steps, "search": {"start": START, "strides": STRIDES}}
        folder = seed_folder(self.output.out, self.seed)
        save_noise(tuned.noise, folder, training, self.seed, tuned.losses[-1])
        row = {"seed": self.seed, "loss": tuned.losses[-1], "losses": tuned.losses}
        result = BenchResult("tune flight", training, self.seed, [row])
        self.output.write(result)
        show(tuned.noise)
        console.err.print(f"Written: {folder}, {self.output.out / 'result.json'}")
