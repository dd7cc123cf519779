"""The contracts of this folder: what a filter, a rule and an attenuation policy must have.

No class needs to inherit from them. The type checker checks them, and a user's own filter or policy
is checked once at run time.
"""

from typing import Any, Literal, Protocol, runtime_checkable

from sagewing.filters.step import Attenuation, RememberedNoise, Step, StepInfo, StepNoise
from sagewing.models import Model
from sagewing.shapes import (
    DX,
    Arrived,
    Covariances,
    Errors,
    Inputs,
    Measurements,
    States,
    Steps,
)

GainNoise = Literal["prior", "posterior"]
# Which correlations are adapted: none, those of Q and R, or those of R.
Dense = bool | Literal["R"]


@runtime_checkable
class Filter(Protocol):
    """A filter; all of its memory is in the state that `init` and `step` return."""

    @property
    def model(self) -> Model:
        """f and h."""
        ...

    @property
    def n_x(self) -> int:
        """The number of entries of a state."""
        ...

    @property
    def n_z(self) -> int:
        """The number of measured channels."""
        ...

    @property
    def q0(self) -> DX:
        """The nominal variances of the process noise, one for each error of the state."""
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
    """How an adaptive filter's noise is estimated; called twice in every step."""

    def init(self, q: Errors, r: Measurements) -> Any:
        """The memory before the first step, for noise of these shapes."""
        ...

    def before_gain(self, memory: Any, info: StepInfo) -> tuple[StepNoise, Any]:
        """The noise of this step, and the part of the decision that `after_correction` needs."""
        ...

    def after_correction(
        self, pending: Any, info: StepInfo, correction: Errors, P: Covariances
    ) -> tuple[RememberedNoise, Any]:
        """The noise to remember, and the memory; `P` is the corrected covariance."""
        ...


@runtime_checkable
class AttenuationPolicy(Protocol):
    """Chooses d_k, by a formula or a network; `AttenuationRule` makes a rule of it."""

    def init(self, q: Errors, r: Measurements) -> Any:
        """The memory before the first step, for noise of these shapes."""
        ...

    def __call__(self, memory: Any, info: StepInfo) -> tuple[Attenuation, Any, Any]:
        """The decision, the memory after it, and the trace of the step for training."""
        ...


@runtime_checkable
class TrainedPolicy(AttenuationPolicy, Protocol):
    """A policy with the settings of the filter that it was trained in, as the filter's defaults.

    `nominal` is the policy's own nominal noise, with variances `q` and `r`; `adapts_in` are the
    modes of the model in which the noise is adapted. None means no such setting.
    """

    @property
    def bounds(self) -> tuple[float, float]:
        """Limits of the adapted noise, as factors of the base noise."""
        ...

    @property
    def gain_noise(self) -> str:
        """A `GainNoise`: whether a step's gain uses the r of the step before or of this step."""
        ...

    @property
    def gate(self) -> float | None:
        """The gate in standard deviations; None: no gate."""
        ...

    @property
    def adapts_in(self) -> tuple[int, ...] | None:
        """The modes in which the noise is adapted; None: all."""
        ...

    @property
    def dense(self) -> Dense:
        """Which correlations are adapted."""
        ...

    @property
    def nominal(self) -> Any:
        """The policy's own nominal noise; None: it has none."""
        ...

    def check_sizes(self, n_x: int, n_z: int) -> None:
        """Refuse a model of other dimensions than the policy's."""
        ...
