"""`sagewing export`: a filter as C99 for a flight computer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sagewing import catalogue
from sagewing.cli import console
from sagewing.codegen.package import recorded, write_package
from sagewing.filters.named import with_linearization
from sagewing.policy.filter_settings import StoredPolicy
from sagewing.problems.named import problem_named, trained_on
from sagewing.problems.own_model import own_problem
from sagewing.problems.problem import draw_record
from sagewing.problems.weights import learned_part

NONE = "none"
KNOWN = ", ".join(catalogue.buildable())
STEPS = 60  # of the record that `make check` compares the C with


@dataclass(frozen=True)
class Export:
    """Write a filter as C99 without dependencies: for a flight computer, or to read.

    POLICY is a folder that `sagewing train` or `sagewing tune` wrote, the name of a shipped one, or
    none. DIR gets the filter (.c, .h), a recorded vector for `make check`, a program that filters a
    CSV file, and a README on integrating it.

    Example: sagewing export flight-sim-paper-ndr --out out/c
    """

    policy: tyro.conf.Positional[str]
    """what was learned: a folder, the name of a shipped one, or none"""
    model: str | None = None
    """lorenz, rossler, thomas, quadrotor, quadrotor-error-state, or FILE.py:NAME of your own; as
    trained by default"""
    filter: Annotated[str | None, tyro.conf.arg(help=f"{KNOWN}; as trained by default")] = None
    linearization: Literal["taylor", "iterated", "unscented"] = "taylor"
    """how the filter linearises f and h: as EKF, iterated EKF or UKF"""
    q: tuple[float, ...] = ()
    """variances of the process noise, for a model of your own"""
    r: tuple[float, ...] = ()
    """variances of the measurement noise, likewise"""
    x0: tuple[float, ...] = ()
    """where the recorded vector starts; zeros by default, for a model of your own"""
    inputs: int = 0
    """how many inputs u has, for a model of your own"""
    dt: float = 0.01
    """seconds between steps of the recorded vector, likewise"""
    lag: bool = False
    """add the fixed-lag smoother: the estimate of some steps ago by all measurements up to now"""
    out: Path = Path("out/export")
    """folder for the C"""
    force: bool = False
    """replace a filter that was exported there before"""
    seed: int = 0
    """draws the recorded vector"""

    def __call__(self) -> None:
        """Run it."""
        console.check_writable(self.out, None)
        learned, provenance = (None, {}) if self.policy == NONE else learned_part(self.policy)
        training = provenance.get("training")
        training = training if isinstance(training, dict) else {}
        if self.model is not None and ":" in self.model:
            problem = own_problem(self.model, self.q, self.r, self.x0, self.inputs, self.dt)
        else:
            problem = problem_named(self.model or trained_on(training), training)
        default = "ndr" if isinstance(learned, StoredPolicy) else "ekf"
        name = self.filter or str(training.get("filter", default))
        filt = catalogue.build(name, problem.model, problem.q, problem.r, learned)
        filt = with_linearization(filt, self.linearization)
        with console.err.status("recording and generating"):
            z, u = draw_record(problem, STEPS, self.seed)
            vector = recorded(filt, problem.x0, problem.P0, z, u, problem.dt, smooth=self.lag)
            title = f"{name} for {type(problem.model).__name__}"
            write_package(self.out, filt, vector, title, provenance, force=self.force)
        console.out.print(f"Written: {self.out}/ (see its README.md; make check)", soft_wrap=True)
