"""The constants that the universal policy's weights depend on, and the names of its features.

The weights were trained with these. A policy's card holds them all, and a policy whose card has
others is refused: after a change the policy must be trained again.
"""

from typing import Any

from sagewing.errors import InputError

RATES = (0.1, 0.015, 0.002)  # of the running means of squares and of products
LARGEST_SQUARE = 16.0  # the most that a square counts in a mean, in variances
LARGEST_INNOVATION = 3.0  # standard deviations, in the regression of all channels
LEAST_SENSITIVITY = 1e-4  # in variances: a smaller square counts as zero
LEAST = 1e-12  # whose square does not underflow
TINY = 1e-30  # keeps 0 / 0 finite
CLIP = 8.0  # the bound of an otherwise unbounded feature
LEAST_NOVELTY = 0.03  # the lower bound of 1 / sqrt(k), from 1,000 steps on
LEAST_RATIO = 0.01  # the lower bound of a normalised square

LARGEST_SENSITIVITY = 10.0  # standard deviations
LARGEST_CURVATURE = 0.5  # standard deviations
LARGEST_RATIO = 1e15  # the largest factor on the base noise that a feature shows

STEP_R, STEP_Q = 0.5, 0.3  # the largest change of log r and log q in a step
RELAXATION = 0.0005  # of log q and log r toward their base in a step, without evidence
LARGEST_INFLATION = 12.0  # of log r, for a step
BIAS_SHARE, BIAS_INFLATION = -6.0, -5.0  # added to the head's output: the initial shares are small

# CUSUM tests. Hypotheses on all channels together, and on the variance of one: the variance over
# that of S, the share by which every gain should be larger, and the sum that the test starts with,
# because wrong noise is mostly wrong from the first step.
JOINT_TESTS = (
    (4.0, 0.0, 6.0),  # R is too small
    (1.2, 0.7, 6.0),  # Q is too small; 1.2, because ten times Q shows in few channels
    (1.0, -1.0, 3.0),  # Q is too large
    (0.5, 0.5, 3.0),  # R is too large
)
CHANNEL_TESTS = ((3.0, 6.0), (1.0 / 3.0, 3.0))
LARGEST_SUM = 20.0  # the upper bound of a sum, from which it can still decrease
LEAST_THRESHOLD = max(first for *_, first in (*JOINT_TESTS, *CHANNEL_TESTS))


def _at_rates(*names: str) -> tuple[str, ...]:
    return tuple(f"{name} at {rate:g}" for name in names for rate in RATES)


JOINT_FEATURES = ("R too small", "Q too small", "Q too large", "R too large")
COMMON_FEATURES = (*JOINT_FEATURES, *_at_rates("joint gain error", "joint gain significance"))
CHANNEL_FEATURES = (
    "log square",
    "lag-one product",
    *_at_rates("variance ratio", "lag-one correlation", "gain correlation", "gain slope"),
    *_at_rates("noise variance ratio"),
    "mean log square",
    "log r over base",
    "log S over r",
    "novelty",
    *(f"log r over its mean at {rate:g}" for rate in RATES[1:]),
)
STATE_FEATURES = (
    "log square",
    "gain product",
    *_at_rates("variance ratio", "gain correlation", "gain slope"),
    "log q over base",
    "log q over F P F^T",
    "log correction over q",
    "log correction over P",
    "share of outliers",
    "novelty",
    "log q over that of other states",
    *(f"log q over its mean at {rate:g}" for rate in RATES[1:]),
)


def card() -> dict[str, Any]:
    """All settings above, as plain JSON."""
    constants = {name: _plain(value) for name, value in globals().items() if name.isupper()}
    return dict(sorted(constants.items()))


def check(found: Any) -> None:
    """Refuse a policy that was trained with other settings."""
    if not isinstance(found, dict):
        raise ValueError(f"settings is {found!r}")
    ours = card()
    other = [name for name in sorted({*ours, *found}) if ours.get(name) != found.get(name)]
    if other:
        raise InputError(
            f"The universal policy was trained with other settings ({', '.join(other)}): use the "
            "version of sagewing that trained it, or train it anew."
        )


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
