"""The contracts of this folder: what a filter, a rule and an attenuation policy must have.

Nothing needs to inherit from these. They are checked by the type checker, and once at run time
where a filter or policy of a user's own comes in.
"""

from typing import Any, Literal, Protocol, runtime_checkable

from sagewing.filters.step import Attenuation, RememberedNoise, Step, StepInfo, StepNoise
from sagewing.models import Model
from sagewing.shapes import (
    Arrived,
    Covariances,
    Inputs,
    Measurements,
    States,
    Steps,
    X,
)

GainNoise = Literal["prior", "posterior"]


@runtime_checkable
class Filter(Protocol):
    """A filter; all of its memory is in the state that `init` and `step` return."""

    @property
    def model(self) -> Model:
        """f and h."""
        ...

    @property
    def n_x(self) -> int:
        """The number of states."""
        ...

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        ...

    @property
    def q0(self) -> X:
        """The nominal variances of the process noise."""
        ...

    @property
    def r0(self) -> Any:
        """The nominal variances of the measurement noise; a row for each mode of the model."""
        ...

    def init(self, x0: States, P0: Covariances) -> Any:
        """The state before the first measurement."""
        ...

    def step(
        self, state: Any, z: Measurements, u: Inputs, dt: Steps, arrived: Arrived
    ) -> tuple[Any, Step]:
        """One prediction over `dt` and one correction by the channels of `z` that arrived."""
        ...


@runtime_checkable
class Rule(Protocol):
    """How an adaptive filter's noise follows what it sees: asked twice in every step."""

    def init(self, q: States, r: Measurements) -> Any:
        """The memory before the first step, for noise of these shapes."""
        ...

    def before_gain(self, memory: Any, info: StepInfo) -> tuple[StepNoise, Any]:
        """The noise of this step, and what `after_correction` needs of the decision."""
        ...

    def after_correction(
        self, pending: Any, info: StepInfo, correction: States, P: Covariances
    ) -> tuple[RememberedNoise, Any]:
        """The noise to remember, and the memory; `P` is the corrected covariance."""
        ...


@runtime_checkable
class AttenuationPolicy(Protocol):
    """Who chooses d_k, by a formula or a network; `AttenuationRule` makes a rule of it."""

    def init(self, q: States, r: Measurements) -> Any:
        """The memory before the first step, for noise of these shapes."""
        ...

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, Any]:
        """The decision, the memory after it, and what training sees of the step."""
        ...


@runtime_checkable
class TrainedPolicy(AttenuationPolicy, Protocol):
    """A policy with the settings of the filter that it was trained in, which are its defaults.

    `nominal` is noise of its own, with variances `q` and `r`; `adapts_in` are the modes of the
    model in which the noise is adapted. None: no such setting.
    """

    @property
    def bounds(self) -> tuple[float, float]:
        """Factors of the base noise that the adapted noise stays within."""
        ...

    @property
    def gain_noise(self) -> str:
        """A `GainNoise`: whether a step's gain uses the r of before the step or its own."""
        ...

    @property
    def gate(self) -> float | None:
        """Standard deviations."""
        ...

    @property
    def adapts_in(self) -> tuple[int, ...] | None:
        """Modes."""
        ...

    @property
    def nominal(self) -> Any:
        """Variances."""
        ...

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Refuse a model of other dimensions than the policy's."""
        ...
