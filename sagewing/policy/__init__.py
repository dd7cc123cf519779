"""Learned parts of filters: attenuation policies, the baselines' networks, tuned noise; storage."""

from sagewing.policy.ndr.architecture import Architecture
from sagewing.policy.ndr.embedding import Embedded, Tiled
from sagewing.policy.ndr.policy import Policy
from sagewing.policy.network import Network
from sagewing.policy.noise import Noise
from sagewing.policy.universal.policy import Universal

__all__ = ["Architecture", "Embedded", "Network", "Noise", "Policy", "Tiled", "Universal"]
