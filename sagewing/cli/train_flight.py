"""`sagewing train flight`: fit the NDR-SHKF of the flight estimator."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from sagewing.catalogue import GATE, SHARED
from sagewing.cli import console
from sagewing.cli.fitting import dataset, fit, resumable, share, tune
from sagewing.cli.output import ResumableOutput
from sagewing.errors import InputError
from sagewing.policy import Architecture, Noise
from sagewing.policy.ndr.features import FeatureName
from sagewing.problems.flight.attitude import NOMINAL, Attitude
from sagewing.problems.flight.dataset import SIM, Dataset
from sagewing.problems.flight.own_logs import are_logs
from sagewing.problems.flight.records import WithoutPose
from sagewing.problems.flight.setup import degradation
from sagewing.report import flight
from sagewing.report.table import terminal
from sagewing.studies import own_training
from sagewing.studies.own_training import BASELINE
from sagewing.train.checkpoint import SETTINGS
from sagewing.train.flight import FlightTraining, schedule, settings, train_flight
from sagewing.train.flight_defaults import OWN, PAPER, FlightDefaults, begin_from
from sagewing.train.losses import WindowLoss
from sagewing.train.saving import save_noise, seed_folder


@dataclass(frozen=True)
class TrainFlight:
    """Train a learned filter by the paper's schedule on windows of flights.

    Writes DIR/seed-N/ (for sw.Policy.load) for every seed, DIR/result.json with the losses, and
    a checkpoint twice a minute, from which --resume continues with bit-identical results.

    On your own logs it trains for fewer epochs, holds out the last log (or the end of the only
    one), starts from an EKF that it tunes on the others (DIR-tuned), and reports at the end whether
    the policy is better than that EKF on the held-out flight.

    Example: sagewing train flight --data sim --out out/flight --epochs 330 --longest 100

    Example: sagewing train flight --data monday.ulg tuesday.ulg --out out/mine
    """

    filter: Literal["ndr", "ndr-shared", "ndr-paper"] = "ndr"
    """ndr: the paper's network, which also learns the nominal noise; ndr-shared: the same with the
    universal policy's networks, trained further; ndr-paper: the paper's filter"""
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
    attitude: Attitude | None = None
    """error-state: an error of three numbers, 18 states in all; euler: the paper's quaternion and
    Euler angles, 19 states (ndr-paper)"""
    noise: Literal["paper", "good"] | None = None
    """the pose: up to 1 m of noise with outliers (paper), or 0.05 m (good; own logs)"""
    attitude_outliers: float = 0.0
    """share of angles with outliers of five times their noise, as positions have"""
    imu: Literal["paper", "as-flown"] | None = None
    """the IMU: with the paper's faults on top of what was flown, or just that (own logs)"""
    window_loss: WindowLoss | None = None
    """how a window counts: by its squared errors (ndr-paper), or by their root"""
    learning_rate: float | None = None
    """of Adam (1e-3; own logs: 2e-3)"""
    gain_noise: Literal["prior", "posterior"] | None = None
    """r in a step's gain: of the step before, or of this step; by default posterior, ndr-paper
    prior"""
    gate: float | None = None
    """standard deviations beyond which a channel is left out; 3, or none for ndr-paper"""
    nominal: Path | None = None
    """initial nominal noise: a folder that `sagewing tune flight` wrote"""
    learn_nominal: bool = True
    """learn the nominal noise, too, or keep it and learn only how to adapt it"""
    bounds: tuple[float, float] = FlightTraining.bounds
    """range of q and r, as factors of their base"""
    features: FeatureName = "whitened"
    """input representation of the network"""
    aux_weight: float | None = None
    """weight of the reconstruction loss (0.1; own logs: 0.0003); ndr-shared has none"""
    depth: int = 3
    """recurrent layers"""

    def __call__(self) -> None:
        """Run it."""
        own = are_logs(self.data)
        defaults = OWN if own else PAPER
        options = {f.name: getattr(self, f.name) for f in fields(defaults)}
        chosen = replace(defaults, **{k: v for k, v in options.items() if v is not None})
        console.at_least_one(self, "seeds")
        console.at_least_one(chosen, "epochs", "batch", "shortest", "longest")
        self.output.check()
        if not self._ours and (self.nominal is not None or not self.learn_nominal):
            raise InputError("--nominal and --no-learn-nominal do not go with --filter ndr-paper.")
        paper_only = ("features", "depth", "aux_weight")
        given = any(getattr(self, name) != getattr(type(self), name) for name in paper_only)
        if self.filter == SHARED and given:
            raise InputError(
                "--features, --depth and --aux-weight are options of the paper's network and do "
                "not go with --filter ndr-shared, whose networks are the universal policy's."
            )
        data = dataset(self.data)
        setup = self._setup(chosen, data)
        if self.nominal is not None:
            setup = replace(setup, **self._begin_from(Noise.load(self.nominal), self.nominal))
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
                learned = {BASELINE: noise, self.filter: policy}
                _compare_on_test(
                    data, setup, chosen.noise, learned, seed_folder(self.output.out, seed)
                )

    @property
    def _ours(self) -> bool:
        """Whether the filter is ours, with tuned nominal noise; the paper's has fixed noise."""
        return self.filter != "ndr-paper"

    def _tuned(self, setup: FlightTraining, data: Dataset) -> dict[str, Any]:
        """The tuned EKF's noise for these flights; read from its folder if resumed."""
        folder = self.output.out.with_name(f"{self.output.out.name}-tuned")
        if self.output.resume and folder.is_dir():
            return self._begin_from(Noise.load(folder), folder)
        for path in (folder, self.output.out / SETTINGS):
            if path.exists():
                raise InputError(
                    f"{path} exists already: add --resume to continue, or choose another --out."
                )
        tuned = tune(replace(setup, filter=BASELINE), data, self.seed, "tuning the EKF")
        training = {"filter": BASELINE, "loss": tuned.losses[-1]}
        save_noise(tuned.noise, folder, training, self.seed)
        return self._begin_from(tuned.noise, folder)

    def _begin_from(self, noise: Noise, folder: Path) -> dict[str, Any]:
        return begin_from(noise, str(folder), self._attitude)

    @property
    def _attitude(self) -> Attitude:
        """The error state, unless the filter is the paper's."""
        return self.attitude or ("error-state" if self._ours else "euler")

    def _setup(self, chosen: FlightDefaults, data: Dataset) -> FlightTraining:
        _, Q0, _ = NOMINAL[self._attitude]
        longest = min(chosen.longest, *(len(f.t) - 1 for f in data.train))
        return FlightTraining(
            filter=self.filter,
            vehicle=data.vehicle,
            without_pose=self.without_pose or data.without_pose,
            attitude=self._attitude,
            architecture=replace(
                Architecture.flight(Q0.size), features=self.features, depth=self.depth
            ),
            nominal_q=tuple(Q0.tolist()),
            schedule=schedule(chosen.epochs, chosen.learning_rate),
            batch=chosen.batch,
            shortest=min(chosen.shortest, longest) if are_logs(self.data) else chosen.shortest,
            longest=longest if are_logs(self.data) else chosen.longest,
            blackouts=share("blackouts", self.blackouts),
            degradation=replace(
                degradation(chosen.noise, chosen.imu),
                attitude_outlier_probability=share("attitude-outliers", self.attitude_outliers),
            ),
            aux_weight=chosen.aux_weight,
            window_loss=self.window_loss or ("root" if self._ours else "squared"),
            bounds=self.bounds,
            gain_noise=self.gain_noise or ("posterior" if self._ours else "prior"),
            gate=GATE if self.gate is None and self._ours else self.gate,
            learn_nominal=self.learn_nominal,
        )


def _compare_on_test(
    data: Dataset, setup: FlightTraining, noise: str, learned: dict[str, Any], folder: Path
) -> None:
    """Compare both filters on the held-out flight: print a table and a verdict, write the card."""
    with console.progress() as bar, resumable(bar):
        total = len(own_training.SCENARIOS) * len(learned)
        task = bar.add_task("comparing", total=total, note="compiling")
        rows = own_training.compare_on_test(
            data, setup, noise, learned, lambda note: bar.update(task, advance=1, note=note)
        )
    console.out.print(terminal(flight.table(rows)))
    for line in own_training.write_figures(folder, rows, setup.filter, data):
        console.out.print(line, soft_wrap=True)
    written = f"Written: {folder / 'policy.json'}, the model card. Use it: sagewing run LOG"
    console.err.print(f"{written} --policy {folder}", soft_wrap=True)
