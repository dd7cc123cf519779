"""The memory of the universal policy."""

from typing import NamedTuple

from jaxtyping import Array, Float

from sagewing.policy.universal.cusum import CusumState
from sagewing.policy.universal.network import Banks, Channels
from sagewing.shapes import Errors


class ChannelMemory(NamedTuple):
    """For every channel: its last innovation, the number of its innovations, and running means.

    The learned means are stored by channel, so that in C each channel has one vector. All states
    are corrected at once, so that they have one count; their last correction is not needed.
    """

    last: Channels | None
    times: Channels
    means: Float[Array, "values rates n *batch"]
    bank: Banks


class UniversalMemory(NamedTuple):
    """The memories of channels and of states, and the gain sensitivity of the estimate.

    `joint_means` are the running means of the regression of all channels together, `tests` the
    CUSUM tests of the nominal noise.
    """

    channels: ChannelMemory
    states: ChannelMemory
    gain_sensitivity: Errors
    joint_means: Float[Array, "values rates *batch"]
    tests: CusumState
