"""What is learned: the attenuation policy, the baselines' networks, tuned noise; and its files."""

from sagewing.policy.architecture import Architecture
from sagewing.policy.embedding import Embedded, Tiled
from sagewing.policy.network import Network
from sagewing.policy.noise import Noise
from sagewing.policy.policy import Policy
from sagewing.policy.universal import Universal

__all__ = ["Architecture", "Embedded", "Network", "Noise", "Policy", "Tiled", "Universal"]
