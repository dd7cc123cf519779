"""The three filters of the paper by name: one recursion, three attenuation policies."""

from dataclasses import replace
from typing import Literal, cast

from sagewing.errors import InputError
from sagewing.filters import checks
from sagewing.filters.attenuation import Fading, Frozen, Gated, PerPredictionStep
from sagewing.filters.linearizations import Linearizer, linearizer
from sagewing.filters.protocols import (
    AttenuationPolicy,
    Dense,
    Filter,
    GainNoise,
    TrainedPolicy,
)
from sagewing.filters.recursion import AdaptiveFilter
from sagewing.filters.rules import AttenuationRule
from sagewing.models import Model
from sagewing.shapes import Numbers

Linearization = Literal["taylor", "iterated", "unscented"] | Linearizer
# The lower limit of adapted variances, for any base.
FLOOR = 1e-10


def EKF(
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    gate: float | None = None,
    linearization: Linearization = "taylor",
    square_root: bool = False,
) -> AdaptiveFilter:
    """The extended Kalman filter: constant Q0 and R0, each a diagonal or a full matrix.

    With a `gate` a channel whose innovation exceeds that many standard deviations is left out.
    With `linearization="unscented"` it is the UKF, with "iterated" the iterated EKF; all filters
    of this file take these, and `sw.Unscented` and `sw.Iterated` with settings. `square_root=True`
    works with a root of P: for single precision where the largest and the smallest variance of P
    differ by more than 1e6.

    Example: `sw.EKF(sw.models.Lorenz(), Q0=[0.01] * 3, R0=[1.0, 2.0])`
    """
    q0, Q_off = checks.process_noise(Q0, model)
    r0, R_off = checks.measurement_noise(R0, model.modes)
    rule = AttenuationRule(_gated(Frozen(), gate), (1.0, 1.0), FLOOR, "prior")
    how = linearizer(linearization)
    return AdaptiveFilter(
        model, q0, r0, Q_off, R_off, rule, linearization=how, square_root=square_root
    )


def SageHusa(
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    b: Numbers = 0.99,
    bounds: tuple[float, float] = (0.5, 100.0),
    gain_noise: GainNoise = "prior",
    gate: float | None = None,
    linearization: Linearization = "taylor",
    square_root: bool = False,
    dense: Dense = False,
) -> AdaptiveFilter:
    """The Sage-Husa filter: the variances re-estimated with the fixed forgetting factor `b`.

    Full matrices Q0 and R0 keep their correlations. With `dense="R"` those of R are re-estimated,
    too, from those of R0 on; with `dense=True` those of Q as well. `bounds` are the variances',
    which `q` and `r` of a result are; `sw.run(..., save=lambda step, _: step.R)` has the matrix.

    Example, sensors whose errors are correlated in an unknown way:
    `sw.SageHusa(model, Q0, R0, b=0.998, gain_noise="posterior", dense="R")`
    """
    policy = _gated(Fading(checks.forgetting_factor(b)), gate)
    return _adaptive(model, Q0, R0, policy, bounds, gain_noise, linearization, square_root, dense)


def NDRSageHusa(
    model: Model,
    Q0: Numbers | None,
    R0: Numbers | None,
    policy: TrainedPolicy,
    bounds: tuple[float, float] | None = None,
    gain_noise: GainNoise | None = None,
    gate: float | None = None,
    linearization: Linearization = "taylor",
    square_root: bool = False,
    dense: Dense | None = None,
) -> AdaptiveFilter:
    """The NDR-SHKF: a policy chooses a forgetting factor for every channel at every step.

    `bounds`, `gain_noise`, `gate` and `dense` default to those of the policy's training; `dense` is
    that of `SageHusa`. Q0 and R0 may be
    None if the policy has learned its own nominal noise. The policy also sets the modes of a model
    in which the noise is adapted.
    """
    if not isinstance(policy, TrainedPolicy):
        raise InputError(
            "policy must be a sw.Policy, such as sw.Policy.load(folder), or have what "
            f"sw.AttenuationRule needs and be used with that; got {type(policy).__name__}."
        )
    filt = _adaptive(
        model,
        *_nominal(policy, Q0, R0),
        _gated(policy, policy.gate if gate is None else gate),
        policy.bounds if bounds is None else bounds,
        gain_noise or cast(GainNoise, policy.gain_noise),
        linearization,
        square_root,
        policy.dense if dense is None else dense,
        policy.adapts_in,
    )
    policy.check_sizes(filt.q0.size, filt.n_z)
    return filt


def per_prediction_step(filt: Filter, steps_per_measurement: Numbers) -> Filter:
    """The same filter for so many predictions to a measurement: q belongs to one of them.

    See `PerPredictionStep`. A filter without an `AttenuationRule` is returned as it is.

    Example, an IMU at 1 kHz and a pose at 50 Hz:
    `per_prediction_step(sw.SageHusa(model, Q0, R0), 20)`
    """
    steps = checks.steps_per_measurement(steps_per_measurement)
    if not isinstance(filt, AdaptiveFilter) or not isinstance(filt.rule, AttenuationRule):
        return filt
    policy = PerPredictionStep(filt.rule.policy, steps)
    return replace(filt, rule=replace(filt.rule, policy=policy))


def with_linearization(filt: Filter, choice: Linearization) -> Filter:
    """A filter that linearises f and h in another way; refuses one that has a way of its own."""
    if isinstance(filt, AdaptiveFilter):
        return replace(filt, linearization=linearizer(choice))
    if choice != "taylor":
        raise InputError(f"{type(filt).__name__} is linearised by Taylor series only.")
    return filt


def _gated(policy: AttenuationPolicy, gate: float | None) -> AttenuationPolicy:
    return policy if gate is None else Gated(policy, checks.gate(gate))


def _nominal(
    policy: TrainedPolicy, Q0: Numbers | None, R0: Numbers | None
) -> tuple[Numbers, Numbers]:
    nominal = policy.nominal
    if nominal is None:
        if Q0 is None or R0 is None:
            raise InputError("This policy has no noise of its own: give Q0 and R0.")
        return Q0, R0
    return nominal.q if Q0 is None else Q0, nominal.r if R0 is None else R0


def _adaptive(
    model: Model,
    Q0: Numbers,
    R0: Numbers,
    policy: AttenuationPolicy,
    bounds: tuple[float, float],
    gain_noise: GainNoise,
    linearization: Linearization,
    square_root: bool,
    dense: Dense,
    adapts_in: tuple[int, ...] | None = None,
) -> AdaptiveFilter:
    checks.adaptation(bounds, gain_noise, dense)
    q0, Q_off = checks.process_noise(Q0, model)
    r0, R_off = checks.measurement_noise(R0, model.modes)
    rule = AttenuationRule(policy, (float(bounds[0]), float(bounds[1])), FLOOR, gain_noise)
    how = linearizer(linearization)
    return AdaptiveFilter(model, q0, r0, Q_off, R_off, rule, adapts_in, how, square_root, dense)
