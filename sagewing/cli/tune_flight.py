"""`sagewing tune flight`: fit constant Q and R to flights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sagewing.cli import console
from sagewing.cli.fitting import show
from sagewing.cli.train_flight import degradation, fit_flight, share
from sagewing.flights.dataset import SIM
from sagewing.train.flight import FlightTraining, WithoutPose, schedule


@dataclass(frozen=True)
class TuneFlight:
    """Fit the variances of a constant Q and R by gradient descent: a careful engineer's EKF.

    Minimises the loss of `sagewing train flight` on the same windows of flights. The variances
    are printed for all states, then for the pose and for the IMU. Writes DIR/seed-N/ for
    sw.Noise.load, and DIR/result.json.

    Example: sagewing tune flight --data sim --gate --out out/tune-gated
    """

    data: str = SIM
    """sim for simulated flights, or a folder of real ones, whose circles are left out"""
    gate: bool = False
    """fit the EKF that ignores what is off by more than three standard deviations"""
    out: Path = Path("out/tune-flight")
    """folder for the variances"""
    resume: bool = False
    """go on with the fit that is in the folder"""
    seed: int = 0
    """draws the windows"""
    epochs: int = 110
    """of five batches each"""
    batch: int = 32
    """windows in a batch"""
    steps: int = 1000
    """measurements in a window: ten seconds, as long as the benchmark's flights"""
    blackouts: float = 0.5
    """share of windows in which the pose is lost for a while"""
    without_pose: WithoutPose | None = None
    """what drives it in a blackout: dynamic, the motors (sim); drag, the IMU and its drag (real)"""
    noise: Literal["paper", "good"] = "paper"
    """the pose: up to 1 m of noise with outliers as in the paper, or 0.05 m of a good system"""
    imu: Literal["paper", "as-flown"] = "paper"
    """the IMU: with the paper's faults on top of what was flown, or just that"""
    learning_rate: float = 0.1
    """of Adam, on the logarithms of the variances"""
    json: Path | None = None
    """write the result here, too"""

    def __call__(self) -> None:
        """Run it."""
        console.at_least_one(self, "epochs", "batch", "steps")
        console.check_places(self.out, self.json)
        setup = FlightTraining(
            filter="ekf-gated" if self.gate else "ekf-tuned",
            schedule=schedule(self.epochs, self.learning_rate),
            batch=self.batch,
            shortest=self.steps,
            longest=self.steps,
            blackouts=share(self.blackouts),
            degradation=degradation(self.noise, self.imu),
        )
        found = fit_flight(
            "tune flight",
            setup,
            self.data,
            self.without_pose,
            [self.seed],
            self.out,
            self.json,
            resume=self.resume,
        )
        show(found[0])
