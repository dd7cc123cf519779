"""What the universal policy remembers from one step to the next."""

from typing import NamedTuple

from jaxtyping import Array, Float

from sagewing.policy.universal.cusum import CusumState
from sagewing.policy.universal.network import Banks, Channels
from sagewing.shapes import States


class ChannelMemory(NamedTuple):
    """Of every channel: its last innovation, how many times it had one, and the running means.

    The learned means stand channel by channel, so that in C they are one vector each. States are
    all corrected at once, so that one count is enough; their last correction is not needed.
    """

    last: Channels | None
    times: Channels
    means: Float[Array, "values rates n *batch"]
    bank: Banks


class UniversalMemory(NamedTuple):
    """The memories of channels and of states, and how a larger gain would have moved the estimate.

    `joint_means` are the running means of the regression of all channels together; `tests` those of
    the nominal noise.
    """

    channels: ChannelMemory
    states: ChannelMemory
    gain_sensitivity: States
    joint_means: Float[Array, "values rates *batch"]
    tests: CusumState
